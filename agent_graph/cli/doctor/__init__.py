"""`agent-graph doctor`: what is wrong with the set-up of this machine, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from agent_graph.cli.doctor import keys, network, packages, store
from agent_graph.cli.doctor.findings import Finding, Level
from agent_graph.cli.exits import Exit
from agent_graph.cli.facts import counted
from agent_graph.cli.journals import DEFAULT_JOURNAL, JournalOption
from agent_graph.cli.machine import write_json
from agent_graph.cli.providers import all_providers
from agent_graph.cli.terminal import open_terminal

__all__ = ['doctor']

_MARKS: dict[Level, tuple[str, str]] = {'ok': ('✓', 'green'), 'note': ('·', 'yellow'), 'problem': ('✗', 'bold red')}


def doctor(
    journal: JournalOption = None,
    online: Annotated[
        bool, typer.Option('--online', help='Also connect to each provider that has a key. No key is sent.')
    ] = False,
    as_json: Annotated[bool, typer.Option('--json', help='For programs: one JSON object a line.')] = False,
) -> None:
    """Look at the set-up of this machine, and say what is wrong and what to do.

    Looked at: Python and the versions of packages; providers that cannot be loaded, or whose extra is missing although
    their key is set; keys and addresses of a form that cannot be right; proxies, certificates, the clock; SQLite, the
    journal's file, its folder and the disk. Keys are never shown. Without --online nothing is asked over the network.

    With --json one object for each finding (`kind` is `finding`; `level`: `ok`, `note` or `problem`; `about`, `text`,
    `remedy`), and at last one with `kind` `report`, `problems` and `notes`.

    Exit codes: 0 nothing is wrong; 1 there are problems; 2 wrong arguments.
    """
    out = open_terminal()
    counts: dict[Level, int] = {'ok': 0, 'note': 0, 'problem': 0}
    for finding in _findings(journal or DEFAULT_JOURNAL, online=online):
        counts[finding.level] += 1
        if as_json:
            write_json({'kind': 'finding', **asdict(finding)})
            continue
        mark, style = _MARKS[finding.level]
        out.line(f'{mark} {finding.about}: {finding.text}', style)
        if finding.remedy:
            out.line(f'→ {finding.remedy}', indent=4)
    problems = counts['problem']
    if as_json:
        write_json({'kind': 'report', 'problems': problems, 'notes': counts['note']})
    else:
        out.line(f'{counted(problems, "problem")} found' if problems else 'nothing is wrong')
    raise typer.Exit(Exit.FAILED if problems else Exit.COMPLETED)


def _findings(journal: Path, *, online: bool) -> Iterator[Finding]:
    yield from packages.python()
    yield from packages.packages()
    providers = all_providers()
    yield from keys.loading(providers)
    yield from keys.keys(providers)
    yield from keys.addresses(providers)
    yield from network.proxies(providers)
    yield from network.certificates()
    yield from network.clock()
    yield from store.store(journal)
    if online:
        yield from network.connections(providers)
