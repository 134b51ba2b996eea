"""Prints the table of recordings at the end of a test run that had any."""

from __future__ import annotations

import pytest

from tests.providers.openai.recorded import table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    results: list[tuple[str, str, bool]] = []
    for outcome in ('passed', 'failed'):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, 'user_properties', ()):
                if name == 'recording':
                    provider, kind = value
                    results.append((provider, kind, outcome == 'passed'))
    if results:
        terminalreporter.section('recorded Chat Completions traffic')
        for line in table(results):
            terminalreporter.write_line(line)
