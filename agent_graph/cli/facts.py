"""What there is to say about a run as a whole: who answered, what it used, what it cost, how to go on with it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from agent_graph.cli.journals import DEFAULT_JOURNAL, JOURNAL_VARIABLE
from agent_graph.cli.machine import plain
from agent_graph.journal.entries import Record
from agent_graph.pending import Pending, PendingKind
from agent_graph.render.walk import Walk, read
from agent_graph.render.wording import cost_text, tokens_text

__all__ = [
    'NOWHERE',
    'Place',
    'call_name',
    'call_path',
    'cost_fact',
    'counted',
    'how_to_answer',
    'model_fact',
    'model_names',
    'output_text',
    'time_text',
    'usage_fact',
]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is kept and what drives it, as the words of a command.

    `journal` is the path of a SQLite file, empty when the run is kept elsewhere; `target` names the agent, if known, and
    `model` and `deps` are what was said beside it.
    """

    journal: str = ''
    target: str = ''
    model: str | None = None
    deps: str | None = None

    @property
    def options(self) -> list[str]:
        """What a command has to be given beside the target to drive the run as it was driven."""
        given = {'--model': self.model, '--deps': self.deps}
        return [word for name, value in given.items() if value is not None for word in (name, value)]

    def command(self, *words: str, target: bool = False) -> str:
        """A command line to copy: `agent-graph runs ...` with the options this place needs."""
        more = [] if self.journal == _usual_journal() else ['--journal', self.journal]
        if target:
            more = ['--target', self.target or 'module:variable', *self.options, *more]
        return ' '.join(['agent-graph', *(quote(word) for word in (*words, *more))])


NOWHERE = Place()
"""Where a run is that is kept in memory, or in a journal only its agent knows."""


def _usual_journal() -> str:
    return os.environ.get(JOURNAL_VARIABLE) or str(DEFAULT_JOURNAL)


def how_to_answer(place: Place, run_id: str, pending: Sequence[Pending]) -> Iterator[str]:
    """What to type to answer a paused run and go on with it."""
    if not place.journal:
        yield 'it is kept where this command cannot reach it later; answer it with agent.resume(run_id, answers=...), or'
        yield 'record the next run in a file: --journal agent_graph.db'
        return
    for one in pending:
        for verb, rest in _VERBS[one.reason]:
            yield place.command('runs', verb, run_id, call_name(one)) + rest
    yield place.command('runs', 'resume', run_id, target=True)


_VERBS: dict[PendingKind, tuple[tuple[str, str], ...]] = {
    'approval': (('approve', ''), ('deny', " 'why'")),
    'external': (('answer', " 'the result'"), ('deny', " 'why'")),
    'question': (('answer', " 'the answer'"), ('deny', " 'why'")),
    'crash': (('approve', '   # run it again'), ('answer', " 'its result'"), ('deny', '   # leave it as interrupted')),
}
"""By what a call waits for: the commands that fit, and what comes after the call."""


def call_name(pending: Pending) -> str:
    """What to put into a command that answers: the path, or the token where the path may have named something before."""
    return pending.token if pending.nth else call_path(pending)


def call_path(pending: Pending) -> str:
    """How a command names a pending call: its id, behind those of the calls around it."""
    return '/'.join((*pending.path, pending.tool_call_id))


def usage_fact(walk: Walk) -> str:
    """Requests, tool calls and tokens."""
    usage = walk.usage
    counts = f'{counted(usage.requests, "request")}, {counted(usage.tool_calls, "tool call")}'
    return ' · '.join(filter(None, (counts, tokens_text(usage))))


def cost_fact(walk: Walk) -> str:
    """The price, or why there is none."""
    if not _who_answered(walk):
        return f'unknown ({model_fact(walk)})' if not walk.of_graph or walk.usage.requests else 'none'
    return cost_text(walk.cost) or 'unknown (no price is known for this model)'


def model_fact(walk: Walk) -> str:
    """Which models answered, or why there are none."""
    if names := _who_answered(walk):
        return ', '.join(names)
    if not walk.of_graph:
        return 'no model answered'
    # What agents in a node used is recorded when the node is left.
    return 'those of the agents in its node' if walk.usage.requests else 'none, it is a graph without agents so far'


def model_names(records: Sequence[Record]) -> list[str]:
    """Who answered, as `provider:model`, each once; in a graph's nodes too."""
    return _who_answered(read(records))


def _who_answered(walk: Walk) -> list[str]:
    who: dict[str, None] = {}
    for step in walk.steps:
        if step.reply is not None:
            who[f'{step.reply.provider_name or "?"}:{step.reply.model_name or "?"}'] = None
        for spend in step.spends:
            who[f'{spend.provider or "?"}:{spend.model or "?"}'] = None
    return list(who)


def output_text(output: Any) -> str:
    """An output as people read it: texts bare, everything else as JSON."""
    if isinstance(output, str):
        return output
    return json.dumps(plain(output), indent=2, ensure_ascii=False)


def time_text(at: float) -> str:
    """A moment in local time: `2026-03-01 09:30:00`."""
    try:
        return time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))
    except (ValueError, OverflowError, OSError):
        return f'{at:g} s'  # a damaged journal may hold any number


def counted(number: int, noun: str) -> str:
    """`1 run`, `2 runs`; the plural of `entry` too."""
    if number == 1:
        return f'1 {noun}'
    return f'{number} {noun[:-1]}ies' if noun.endswith('y') else f'{number} {noun}s'
