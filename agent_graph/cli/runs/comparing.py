"""`agent-graph runs diff`: where two runs part, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import zip_longest
from typing import Annotated, Any, cast

import typer

from agent_graph.cli.entries import path_lines
from agent_graph.cli.exits import Exit
from agent_graph.cli.facts import counted
from agent_graph.cli.journals import JournalOption, JsonOption, with_journal
from agent_graph.cli.machine import entry_data, write_json
from agent_graph.cli.runs.reading import Stored, read_run
from agent_graph.cli.terminal import Terminal, open_terminal
from agent_graph.journal import Journal
from agent_graph.journal.entries import Record
from agent_graph.render.walk import read
from agent_graph.render.wording import value_text

__all__ = ['Difference', 'diff', 'first_difference']


_IDS = frozenset({'run_id', 'provider_response_id'})
_FREE = frozenset({'args', 'content', 'metadata', 'value', 'output', 'data', 'provider_details', 'schema'})
"""What users and models wrote is compared as it is, whatever its fields are called."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first entry that two runs do not share: its number, the place in it, and what stands there in each.

    `kind` is that of the entry in each run, empty where the run has no entry any more.
    """

    seq: int
    kind: tuple[str, str]
    path: str
    a: Any
    b: Any


def diff(
    a: Annotated[
        str, typer.Argument(metavar='A', help='The id of a run, or the beginning of one.', show_default=False)
    ],
    b: Annotated[str, typer.Argument(metavar='B', help='Another.', show_default=False)],
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name the first journal entry in which two runs differ, then show what differs in the paths they took.

    Times and the ids of runs, responses and tool calls are not compared. With --json one object: `a`, `b`, `same`, `first` (`seq`, `kind`, `path`, `a`, `b`;
    null if there is none), and `diff`, the lines of a unified diff of the two paths.

    Exit codes: 0 they are the same; 1 they differ; 2 no such run, or a journal that cannot be used.
    """
    one, two = with_journal(journal, lambda opened: _read_both(opened, a, b))
    first = first_difference(one, two)
    lines = list(_path_diff(one, two))
    if as_json:
        write_json({'a': one.info.run_id, 'b': two.info.run_id, 'same': first is None, 'first': first, 'diff': lines})
    else:
        _show(one, two, first, lines)
    raise typer.Exit(Exit.COMPLETED if first is None else Exit.FAILED)


async def _read_both(journal: Journal, a: str, b: str) -> tuple[Stored, Stored]:
    return await read_run(journal, a), await read_run(journal, b)


def first_difference(one: Stored, two: Stored) -> Difference | None:
    """Where two runs part; `None` if they are the same but for times and ids."""
    names: tuple[dict[str, str], dict[str, str]] = {}, {}
    for seq, (mine, yours) in enumerate(zip_longest(one.records, two.records), 1):
        a, b = _comparable(mine, names[0]), _comparable(yours, names[1])
        if a == b:
            continue
        kinds = ('' if mine is None else mine.entry.kind, '' if yours is None else yours.entry.kind)
        if kinds[0] != kinds[1]:
            return Difference(seq, kinds, '', mine and entry_data(mine.entry), yours and entry_data(yours.entry))
        return Difference(seq, kinds, *_place(a, b))
    return None


def _comparable(record: Record | None, names: dict[str, str]) -> Any:
    """The data of an entry without what is another in every run: ids of runs and responses, and of tool calls their number."""
    return None if record is None else _without_ids(entry_data(record.entry), names)


def _without_ids(data: Any, names: dict[str, str]) -> Any:
    if isinstance(data, list):
        return [_without_ids(item, names) for item in cast('list[Any]', data)]
    if not isinstance(data, dict):
        return data
    kept = {key: value for key, value in cast('dict[str, Any]', data).items() if key not in _IDS}
    return {key: value if key in _FREE else _named(key, value, names) for key, value in kept.items()}


def _named(key: str, value: Any, names: dict[str, str]) -> Any:
    if key == 'tool_call_id':
        return names.setdefault(value, f'call {len(names) + 1}')
    if key == 'scope':  # of a call, or the name of a node
        return names.get(value, value)
    return _without_ids(value, names)


def _place(a: Any, b: Any, path: str = '') -> tuple[str, Any, Any]:
    """The path of the first value in which two entries of one kind differ, and both values."""
    for step, mine, yours in _pairs(a, b):
        if mine != yours:
            return _place(mine, yours, path + step)
    return path.lstrip('.'), a, b


def _pairs(a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        mine, yours = cast('dict[str, Any]', a), cast('dict[str, Any]', b)
        for key in {**mine, **yours}:
            yield f'.{key}', mine.get(key), yours.get(key)
    elif isinstance(a, list) and isinstance(b, list):
        both = zip_longest(cast('list[Any]', a), cast('list[Any]', b))
        for index, (left, right) in enumerate(both):
            yield f'[{index}]', left, right


def _path_diff(one: Stored, two: Stored) -> Iterator[str]:
    a, b = path_lines(read(one.records)), path_lines(read(two.records))
    yield from unified_diff(a, b, one.info.run_id, two.info.run_id, lineterm='')


def _show(one: Stored, two: Stored, first: Difference | None, lines: Sequence[str]) -> None:
    out = open_terminal()
    if first is None:
        out.line(f'the same: {counted(len(one.records), "entry")}, but for times and ids', 'green')
        return
    out.line(
        f'the first difference is in entry {first.seq} ({_kinds(first)}){f", {first.path}" if first.path else ""}:',
        'bold',
    )
    _side(out, f'a  {one.info.run_id}', 'red', _value(one, first.kind[0], first.a))
    _side(out, f'b  {two.info.run_id}', 'green', _value(two, first.kind[1], first.b))
    out.line('')
    if not lines:
        out.line('the paths read the same at this length', 'dim')
    for line in lines:
        out.line(line.replace('\n', ' '), {'+': 'green', '-': 'red', '@': 'cyan'}.get(line[:1], ''))


def _side(out: Terminal, name: str, style: str, value: str) -> None:
    out.line(name, style, indent=2)
    out.line(value, style, indent=5)


def _value(stored: Stored, kind: str, value: Any) -> str:
    if not kind:
        return f'there is none, the run has {counted(len(stored.records), "entry")}'
    return value_text(value, 500)


def _kinds(first: Difference) -> str:
    a, b = first.kind
    return a if a == b else f'{a or "no entry"} and {b or "no entry"}'
