"""What must hold after any number of kills, judged from what each process found, the ledger, and an undisturbed run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.acceptance.ledger import Line, count
from tests.acceptance.stage import RULES

__all__ = ['Evidence', 'faults']

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """One run's life: what each process found when it came (the first of them nothing), the end, all effects.

    `whole` is the end of a run that was not disturbed; `exact` says that this one has to end the same.
    """

    found: Sequence[Facts]
    end: Facts
    lines: list[Line]
    whole: Facts
    exact: bool


def faults(evidence: Evidence) -> list[str]:
    """Everything that is wrong, in words."""
    moments = [*evidence.found, evidence.end]
    return [
        *(fault for moment in moments for fault in _in_itself(moment, evidence.lines[: moment['lines']])),
        *(fault for moment in moments for fault in _done_is_done(moment, evidence)),
        *_one_at_a_time(moments, evidence.lines),
        *_in_flight(evidence),
        *_at_the_end(evidence),
        *(_as_undisturbed(evidence) if evidence.exact else _as_good(evidence)),
    ]


def _in_itself(moment: Facts, lines: list[Line]) -> Iterator[str]:
    """At every moment: entries in order, a history others can take over, and no effect without a recorded intent."""
    attempts: dict[tuple[str, str], int] = {}
    for run_id, run in moment['runs'].items():
        if not run['in_order']:
            yield f'{run_id}: entries out of order'
        if not run['valid']:
            yield f'{run_id}: the history is not valid'
        if not run['can_be_continued']:
            yield f'{run_id}: another run cannot be started with its conversation'
        for n, (call_id, attempt) in enumerate(run['attempts']):
            before = sum(other == call_id for other, _ in run['attempts'][:n])
            if attempt != before + 1:
                yield f'{run_id}/{call_id}: attempt {attempt} is counted as the {before + 1}.'
            attempts[run_id, call_id] = attempt
        for call_id in run['finished']:
            if run['finished'].count(call_id) > 1:
                yield f'{run_id}/{call_id}: finished twice'
    for line, times in count(lines).items():
        known = attempts.get((line.where, line.key), 0)
        if line.what == 'tool' and times > known:
            yield f'{line}: {times} effects, {known} recorded attempts'


def _done_is_done(moment: Facts, evidence: Evidence) -> Iterator[str]:
    """What was finished at this moment does not happen afterwards: calls, steps inside calls, answers of the model."""
    later = evidence.lines[moment['lines'] :]
    for run_id, run in moment['runs'].items():
        gone = {Line('tool', run_id, call_id) for call_id in run['finished']}
        gone |= {Line('step', run_id, f'{scope}:{name}') for scope, name in run['steps']}
        gone |= {Line('model', f'{run["agent"]}|{run["prompt"]}', str(n)) for n in range(run['responses'])}
        yield from (f'{line}: again, though it was recorded as done' for line in later if line in gone)


def _one_at_a_time(moments: Sequence[Facts], lines: list[Line]) -> Iterator[str]:
    """No process does a thing twice."""
    starts = [moment['lines'] for moment in moments]
    for start, end in pairwise(starts):
        for line, times in count(lines[start:end]).items():
            if times > 1 and line.what != 'verdict':
                yield f'{line}: {times} times in one process'


def _in_flight(evidence: Evidence) -> Iterator[str]:
    """A call that was in flight follows its tool's rule."""
    total = count(evidence.lines)
    for moment in evidence.found:
        then = count(evidence.lines[: moment['lines']])
        for run_id, call_id, tool_name in _open_calls(moment):
            line = Line('tool', run_id, call_id)
            more = total.get(line, 0) - then.get(line, 0)
            rule = RULES.get(tool_name, 'never')  # an output function
            if rule == 'never' and more:
                yield f'{line}: was in flight, and ran again'
            if rule in ('ask', 'verify') and total.get(line, 0) > 1:
                yield f'{line}: has its effect and ran again'
            asked = Line('verdict', run_id, f'{call_id} crash') in total
            if rule == 'ask' and not asked and run_id in evidence.end['runs']:
                yield f'{line}: was in flight, and nobody was asked'


def _open_calls(moment: Facts) -> Iterator[tuple[str, str, str]]:
    for run_id, run in moment['runs'].items():
        for call_id, tool_name in run['in_flight'].items():
            yield run_id, call_id, tool_name


def _at_the_end(evidence: Evidence) -> Iterator[str]:
    end = evidence.end
    if end['status'] != 'completed':
        yield f'ended as {end["status"]}'
    if not end['valid']:
        yield 'the history of the result is not valid'
    if not end['stored']:
        yield 'the state of the result is not the fold of its entries'
    for run_id, run in end['runs'].items():
        if run['status'] != 'completed' or run['ends'] != 1:
            yield f'{run_id}: is {run["status"]}, with {run["ends"]} ends'
        for call_id, tool_name in run['tools'].items():
            lost = RULES.get(tool_name, 'never') == 'never'  # answered in the message that follows
            if call_id not in run['finished'] and not lost:
                yield f'{run_id}/{call_id}: never finished'


def _as_undisturbed(evidence: Evidence) -> Iterator[str]:
    """The same output, conversation, usage, step, id and inner runs; only a call that may not be repeated may be lost."""
    end, whole = evidence.end, evidence.whole
    for name in ('output', 'usage', 'step', 'run_id'):
        if end[name] != whole[name]:
            yield f'{name} is {end[name]!r}, undisturbed it is {whole[name]!r}'
    if sorted(end['runs']) != sorted(whole['runs']):
        yield f'the runs are {sorted(end["runs"])}, undisturbed {sorted(whole["runs"])}'
    lost = {i for m in evidence.found for _, i, tool_name in _open_calls(m) if RULES.get(tool_name) == 'never'}
    if _without(end['messages'], lost) != _without(whole['messages'], lost):
        yield f'messages are {end["messages"]}, undisturbed {whole["messages"]}'
    outcomes = [p['outcome'] for p in _parts(end['messages']) if p['tool_call_id'] in lost]
    if any(outcome != 'interrupted' for outcome in outcomes):
        yield f'calls that were lost are answered as {outcomes}'


def _parts(messages: Sequence[Facts]) -> Iterator[Facts]:
    for message in messages:
        if message['kind'] == 'tool':
            yield from ({'outcome': 'success', **part} for part in message['parts'])


def _without(messages: Sequence[Facts], lost: set[str]) -> list[Any]:
    """The messages without the answers to some calls."""
    kept: list[Any] = []
    for message in messages:
        if message['kind'] == 'tool':
            parts = [part for part in message['parts'] if part['tool_call_id'] not in lost]
            message = {**message, 'parts': parts}
        kept.append(message)
    return kept


def _as_good(evidence: Evidence) -> Iterator[str]:
    """An output function that was interrupted is not run again: the model is told and asked once more."""
    end, whole = evidence.end, evidence.whole
    for name in ('output', 'run_id'):
        if end[name] != whole[name]:
            yield f'{name} is {end[name]!r}, undisturbed it is {whole[name]!r}'
    lost = {(r, i) for m in evidence.found for r, i, tool_name in _open_calls(m) if tool_name not in RULES}
    expected = whole['usage']['requests'] + len(lost)
    if end['usage']['requests'] != expected:
        yield f'{end["usage"]["requests"]} requests, expected {expected}: {len(lost)} outputs were interrupted'
