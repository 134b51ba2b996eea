"""Prints the table of recordings at the end of a test run that had any."""

from __future__ import annotations

import pytest

from tests.providers.recorded import table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    results: dict[str, list[tuple[str, str, bool]]] = {}
    for outcome in ('passed', 'failed'):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, 'user_properties', ()):
                if name == 'recording':
                    api, provider, kind = value
                    results.setdefault(api, []).append((provider, kind, outcome == 'passed'))
    for api, found in sorted(results.items()):
        terminalreporter.section(f'recorded traffic: {api}')
        for line in table(found):
            terminalreporter.write_line(line)
