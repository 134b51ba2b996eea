"""`agent-graph runs show`, `steps` and `graph`: one run, as a whole, step by step, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from agent_graph.cli.entries import content_text, end_text, message_lines, step_text
from agent_graph.cli.facts import (
    Place,
    cost_fact,
    how_to_answer,
    model_fact,
    model_names,
    output_text,
    time_text,
    usage_fact,
)
from agent_graph.cli.journals import DEFAULT_JOURNAL, JournalOption, JsonOption, RunArgument, with_journal
from agent_graph.cli.machine import conversation_data, info_data, pending_data, plain, write_json
from agent_graph.cli.runs.reading import AtOption, Stored, read_run, still_waiting
from agent_graph.cli.runs.standing import STYLES, Standing, standing
from agent_graph.cli.terminal import Terminal, open_terminal, printable
from agent_graph.journal import Journal
from agent_graph.journal.checks import status_of
from agent_graph.journal.entries import Edited
from agent_graph.pending import Pending
from agent_graph.render import RunPicture, tree
from agent_graph.render.walk import Call, Step, Walk, read
from agent_graph.render.wording import call_text, cost_text, seconds_text, tokens_text, value_text, waiting_text

__all__ = ['graph', 'show', 'steps']


def show(
    run: RunArgument,
    at: AtOption = None,
    messages: Annotated[bool, typer.Option('--messages', help='Show the conversation too.')] = False,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one run: how it stands, what it used, the path it took, its output, and what it waits for.

    With --json one object: the fields of `runs list`, then `prompt`, `metadata`, `limits`, `models`, `usage`, `cost` (USD,
    a text), `seconds`, `output`, `error`, `pending`, and `messages`, the conversation (`v` is the number of its format).
    With --at this is what `runs fork --edit` reads.

    Exit codes: 0 shown; 2 no such run or entry, or a journal that cannot be used.
    """

    async def look(opened: Journal) -> tuple[Stored, Standing, tuple[Pending, ...]]:
        stored = await read_run(opened, run, at)
        stands = await standing(opened, stored.info) if stored.whole else status_of(stored.records[-1].entry)
        return stored, stands, await still_waiting(opened, stored.state)

    stored, stands, waiting = with_journal(journal, look)
    if as_json:
        write_json(_run_data(stored, stands, waiting))
        return
    out = open_terminal()
    place = Place(str(journal or DEFAULT_JOURNAL))
    _show_facts(out, stored, stands, place)
    out.line('')
    out.line(tree(stored.records))
    if messages:
        _show_messages(out, stored)
    _show_end(out, stored, waiting, place)
    if stands in _WAYS:
        out.line('')
        out.line(f'{_WAYS[stands]}; to go on with it:', 'bold yellow')
        out.line(place.command('runs', 'resume', stored.info.run_id, target=True), indent=2)


_WAYS: dict[Standing, str] = {
    'answered': 'everything the run waited for is answered',
    'stopped': 'the run has not ended, and nobody drives it',
    'died': 'the process that drove the run is gone',
}


def _run_data(stored: Stored, stands: Standing, waiting: tuple[Pending, ...]) -> dict[str, Any]:
    walk, state = read(stored.records), stored.state
    ended = state.ended
    return {
        **info_data(stored.info, stands),
        'status': status_of(stored.records[-1].entry),
        'at': stored.records[-1].seq,
        'prompt': plain(state.prompt),
        'metadata': state.metadata,
        'limits': plain(state.limits),
        'confirm': state.confirm,
        'models': model_names(stored.records),
        'usage': plain(walk.usage),
        'cost': None if walk.cost is None else str(walk.cost),
        'seconds': walk.seconds,
        'output': None if ended is None else ended.output,
        'error': None if ended is None else ended.error,
        'error_type': None if ended is None else ended.error_type,
        'pending': pending_data(waiting),
        **conversation_data(state.messages),
    }


def _show_facts(out: Terminal, stored: Stored, stands: Standing, place: Place) -> None:
    info, walk = stored.info, read(stored.records)
    for name, value, style in (
        ('run', info.run_id, 'bold'),
        ('graph' if walk.of_graph else 'agent', info.agent or '-', ''),
        ('status', stands, STYLES.get(stands, 'green')),
        ('began', f'{time_text(info.created)}, {seconds_text(walk.seconds)} to its newest entry', ''),
        ('entries', _entries_fact(stored), ''),
        *((name, value, '') for name, value in _origin(stored)),
        ('model', model_fact(walk), ''),
        ('usage', usage_fact(walk), ''),
        ('cost', cost_fact(walk), ''),
        ('journal', place.journal, ''),
    ):
        out.line(f'{name:8} {" ".join(value.split())}', style)


def _entries_fact(stored: Stored) -> str:
    last = stored.info.last_seq
    return str(last) if stored.whole else f'the first {stored.records[-1].seq} of {last}'


def _origin(stored: Stored) -> Iterator[tuple[str, str]]:
    info, state = stored.info, stored.state
    if info.parent is not None:
        yield 'inside', f'{info.parent.run_id}, call {info.parent.tool_call_id}'
    if info.forked_from is not None:
        yield 'fork of', f'{info.forked_from[0]} at entry {info.forked_from[1]}'
    for record in stored.records:
        if isinstance(record.entry, Edited):
            yield 'edited', f'at entry {record.seq}'
    if state.prompt is not None:
        yield 'prompt', content_text(state.prompt)
    if state.metadata:
        yield 'metadata', value_text(state.metadata, 200)


def _show_messages(out: Terminal, stored: Stored) -> None:
    out.line('')
    for number, message in enumerate(stored.state.messages):
        for who, text in message_lines(message, 2000):
            out.line(f'{number:3} {who}: {text}'.replace('\n', ' '))


def _show_end(out: Terminal, stored: Stored, waiting: tuple[Pending, ...], place: Place) -> None:
    ended = stored.state.ended
    if ended is not None and ended.status == 'completed':
        out.line('')
        out.block('output', output_text(ended.output) if ended.output_stored else '(it has no JSON form)')
    elif ended is not None:
        out.line(end_text(ended), 'bold red')
    elif waiting and stored.whole:
        out.line('')
        out.line('the run waits; answer each call with one of its commands, then resume:', 'bold yellow')
        for line in how_to_answer(place, stored.info.run_id, waiting):
            out.line(line, indent=2)


def steps(run: RunArgument, at: AtOption = None, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Show the path of a run: each node with the number of its journal entry, how long it took, and its tool calls.

    The number before a node is what `runs fork --at` takes. With --json one object a line for each step: `seq`, `number`,
    `node`, `state`, `started` (Unix seconds), `seconds`, `text`, `usage`, `cost`, `calls`.

    Exit codes: 0 shown; 2 no such run or entry, or a journal that cannot be used.
    """
    stored = with_journal(journal, lambda opened: read_run(opened, run, at))
    walk = read(stored.records)
    if as_json:
        for step in walk.steps:
            write_json(_step_data(step))
        return
    out = open_terminal()
    for step in walk.steps:
        style = {'current': 'yellow', 'failed': 'bold red', 'cancelled': 'dim'}.get(step.state, '')
        out.line(_one_row(f'{step.seq:>4}  {step.number} {step.node}  {step_text(step)}'), style, note=_numbers(step))
        for call in step.calls:
            out.line(_one_row(_call_words(call)), indent=8)
    _last_step(out, walk, stored)


def _last_step(out: Terminal, walk: Walk, stored: Stored) -> None:
    if walk.ended is not None:
        out.line(_one_row(f'{stored.records[-1].seq:>4}  End  {end_text(walk.ended)}'))


def _one_row(text: str) -> str:
    return text.replace('\n', ' ').rstrip()


def _numbers(step: Step) -> str:
    usage = step.usage
    cost = cost_text(step.cost) if usage is not None and usage.total_tokens else ''
    seconds = '' if step.seconds is None else seconds_text(step.seconds)
    here = {'current': '<- here', 'failed': '<- failed', 'cancelled': '<- cancelled'}.get(step.state, '')
    words = [seconds, '' if usage is None else tokens_text(usage), cost, here]
    return ''.join(f'  {word}' for word in words if word)


def _call_words(call: Call) -> str:
    words = [call_text(call.tool_name, call.args, 100)]
    if call.waiting is not None:
        words.append(waiting_text(call.waiting))
    elif call.outcome is not None:
        words.append(f'{"→" if call.outcome == "success" else f"{call.outcome}:"} {value_text(call.result, 100)}')
    if call.seconds is not None:
        words.append(seconds_text(call.seconds))
    if call.attempt > 1:
        words.append(f'attempt {call.attempt}')
    return '  '.join([*words, f'(call {call.tool_call_id})'])


def _step_data(step: Step) -> dict[str, Any]:
    return {
        'seq': step.seq,
        'number': step.number,
        'node': step.node,
        'state': step.state,
        'started': step.started,
        'seconds': step.seconds,
        'text': step_text(step),
        'usage': plain(step.usage),
        'cost': None if step.cost is None else str(step.cost),
        'calls': [_call_data(call) for call in step.calls],
    }


def _call_data(call: Call) -> dict[str, Any]:
    return {
        'tool_call_id': call.tool_call_id,
        'tool_name': call.tool_name,
        'args': call.args,
        'outcome': call.outcome,
        'result': call.result,
        'started': call.started,
        'seconds': call.seconds,
        'attempt': call.attempt,
        'waiting': None if call.waiting is None else call.waiting.reason,
    }


def graph(
    run: RunArgument,
    output: Annotated[
        Literal['mermaid', 'text', 'svg'],
        typer.Option('--format', help='mermaid for Markdown, plain text, or an SVG picture.'),
    ] = 'mermaid',
    at: AtOption = None,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the path a run took as a graph: steps in order, tool calls, durations, tokens, cost, and where it is.

    With --json one object: `run_id`, `title`, `boxes` (`id`, `lines`, `shape`, `mark`), `links` (`source`, `target`,
    `label`, `dashed`) and `mermaid`.

    Exit codes: 0 printed; 2 no such run or entry, or a journal that cannot be used.
    """
    stored = with_journal(journal, lambda opened: read_run(opened, run, at))
    picture = RunPicture(stored.records)
    if as_json:
        drawn: dict[str, Any] = plain(picture.diagram)
        write_json({'run_id': stored.info.run_id, **drawn, 'mermaid': picture.render()})
        return
    forms = {'mermaid': picture.render, 'text': picture.__str__, 'svg': picture.svg}
    print(printable(forms[output]().rstrip('\n')))
