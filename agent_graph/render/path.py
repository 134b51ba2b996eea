"""The path a run actually took, from its journal records: as a diagram and as a text tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_graph.messages import (
    AssistantMessage,
    CachePoint,
    JsonValue,
    TextPart,
    ThinkingPart,
    ToolMessage,
    UserContent,
)
from agent_graph.render.diagram import Box, Diagram, Link, Mark
from agent_graph.render.walk import Call, Step, Walk
from agent_graph.render.wording import (
    call_text,
    cost_text,
    fields_text,
    seconds_text,
    short,
    tokens_text,
    value_text,
    waiting_text,
)

__all__ = ['path_diagram', 'path_tree']

_MOST_CALLS = 12
"""So many calls of one step are drawn side by side; the rest is one box that says how many."""

_MARKS: dict[str, Mark] = {'done': '', 'current': 'current', 'failed': 'failed', 'cancelled': 'stopped'}
_CALL_MARKS: dict[str | None, Mark] = {'success': '', None: '', 'failed': 'failed'}
_WORDS = {
    'retry': 'asked to retry',
    'failed': 'failed',
    'denied': 'denied',
    'interrupted': 'interrupted',
    'skipped': 'skipped',
}


def path_diagram(walk: Walk, *, title: str = '') -> Diagram:
    """Every step in order, with the tool calls between a response and the next request."""
    boxes: list[Box] = []
    links: list[Link] = []
    ends: list[str] = []  # what leads to the next step: the step before, or the calls it waited for
    for step in walk.steps:
        box = Box(f'S{step.number}', tuple(_step_lines(step)), 'step', _MARKS[step.state])
        boxes.append(box)
        links += [Link(source, box.id) for source in ends]
        calls = list(_call_boxes(step))
        boxes += calls
        links += [Link(box.id, call.id, '', True) for call in calls]
        ends = [call.id for call in calls if call.mark != 'current'] or [box.id]
    if walk.ended is not None:
        boxes.append(_end_box(walk))
        links += [Link(source, 'End') for source in ends]
    return Diagram(tuple(boxes), tuple(links), title or _title(walk))


def path_tree(walk: Walk, *, title: str = '', width: int = 100) -> str:
    """The same as lines of text, each of about `width` characters at most."""
    lines = [' '.join(filter(None, (title or _title(walk), *_totals(walk))))]
    for step in walk.steps:
        last = step is walk.steps[-1] and walk.ended is None
        lines.append(('└─ ' if last else '├─ ') + _joined(_step_words(step), width - 3))
        stem = '   ' if last else '│  '
        for i, call in enumerate(step.calls):
            branch = '└─ ' if i == len(step.calls) - 1 else '├─ '
            lines.append(stem + branch + _joined(_call_words(call), width - 6))
    if walk.ended is not None:
        lines.append('└─ ' + _joined(_end_words(walk), width - 3))
    return '\n'.join(lines)


def _title(walk: Walk) -> str:
    return (walk.started.agent if walk.started is not None else None) or 'run'


def _totals(walk: Walk) -> Iterator[str]:
    usage = walk.usage
    yield f'· {walk.status} · {seconds_text(walk.seconds)}'
    yield f'· {_count(usage.requests, "request")}, {_count(usage.tool_calls, "tool call")}'
    for text in (tokens_text(usage), cost_text(walk.cost) if usage.total_tokens else ''):
        if text:
            yield f'· {text}'


def _step_lines(step: Step) -> Iterator[str]:
    yield f'{step.number} · {step.node}'
    if text := _step_text(step):
        yield short(text, 44)
    if numbers := ' · '.join(_numbers(step)):
        yield numbers


def _step_words(step: Step) -> list[str]:
    words = [f'{step.number} {step.node}', _step_text(step), *_numbers(step)]
    return [*words, {'current': '<- here', 'failed': '<- failed', 'cancelled': '<- cancelled'}.get(step.state, '')]


def _numbers(step: Step) -> Iterator[str]:
    if step.seconds is not None:
        yield seconds_text(step.seconds)
    if step.usage is not None:
        yield from filter(None, (tokens_text(step.usage), cost_text(step.cost) if step.usage.total_tokens else ''))


def _step_text(step: Step) -> str:
    entry = step.entry
    if entry.response is not None:
        return _response_text(entry.response)
    if isinstance(entry.message, ToolMessage):
        return _count(len(entry.message.parts), 'tool result')
    if entry.message is not None:
        return ('again: ' if entry.retry else '') + _content_text(entry.message.content)
    if step.prompt is not None:
        return _content_text(step.prompt)
    return _node_text(entry.data) if entry.data is not None else ''


def _node_text(data: JsonValue) -> str:
    """The fields of a node of a graph, as its call would be written."""
    fields = data.get('node') if isinstance(data, dict) else None
    return fields_text(fields) if isinstance(fields, dict) else value_text(data)


def _response_text(response: AssistantMessage) -> str:
    texts = [part.content for part in response.parts if isinstance(part, TextPart) and part.content.strip()]
    calls = sum(part.kind == 'tool_call' for part in response.parts)
    words = [short(' '.join(texts))] if texts else []
    if not texts and not calls and any(isinstance(part, ThinkingPart) for part in response.parts):
        words.append('reasoning only')
    if calls:
        words.append(_count(calls, 'tool call'))
    if response.interrupted:
        words.append('(interrupted)')
    elif response.finish_reason not in (None, 'stop', 'tool_calls'):
        words.append(f'({response.finish_reason})')
    return ' · '.join(words) or 'empty'


def _content_text(content: str | Sequence[UserContent]) -> str:
    if isinstance(content, str):
        return short(content)
    return short(' '.join(map(_item_text, content)))


def _item_text(item: UserContent) -> str:
    if isinstance(item, str):
        return item
    return '[cache point]' if isinstance(item, CachePoint) else f'[{item.name or item.media_type}]'


def _call_boxes(step: Step) -> Iterator[Box]:
    shown = step.calls if len(step.calls) <= _MOST_CALLS else step.calls[: _MOST_CALLS - 1]
    for i, call in enumerate(shown):
        lines = (call_text(call.tool_name, call.args, 44), *_call_answer(call))
        yield Box(f'S{step.number}C{i + 1}', lines, 'tool', _call_mark(call, step))
    if rest := step.calls[len(shown) :]:
        failed = sum(call.outcome not in ('success', None) for call in rest)
        lines = (f'… {len(rest)} more calls', f'{failed} without success') if failed else (f'… {len(rest)} more calls',)
        yield Box(f'S{step.number}Rest', lines, 'tool')


def _call_mark(call: Call, step: Step) -> Mark:
    if call.waiting is not None:
        return 'current'
    if call.outcome is None:
        return 'current' if call.started is not None and step.state == 'current' else ''
    return _CALL_MARKS.get(call.outcome, 'stopped')


def _call_answer(call: Call) -> Iterator[str]:
    """What came back and how long it took, as lines of a box."""
    numbers = [seconds_text(call.seconds)] if call.seconds is not None else []
    numbers += filter(None, [cost_text(call.cost)])
    if call.attempt > 1:
        numbers.append(f'attempt {call.attempt}')
    if call.waiting is not None:
        yield waiting_text(call.waiting)
    elif call.outcome is None:
        yield 'running' if call.started is not None else 'not started'
    else:
        word = _WORDS.get(call.outcome)
        yield f'{word}: {value_text(call.result, 40)}' if word else f'→ {value_text(call.result, 42)}'
    if numbers:
        yield ' · '.join(numbers)


def _call_words(call: Call) -> list[str]:
    return [call_text(call.tool_name, call.args), *_call_answer(call)]


def _end_box(walk: Walk) -> Box:
    mark: Mark = {'failed': 'failed', 'cancelled': 'stopped'}.get(walk.status, '')  # pyright: ignore[reportAssignmentType]
    return Box('End', tuple(filter(None, (_end_words(walk)[0], short(_end_words(walk)[1], 44)))), 'end', mark)


def _end_words(walk: Walk) -> tuple[str, str]:
    ended = walk.ended
    if ended is None:
        return '', ''
    if ended.status == 'completed':
        return 'End', value_text(ended.output)
    error = ': '.join(filter(None, (ended.error_type, ended.error)))
    return ended.status, error


def _joined(words: Sequence[str], width: int) -> str:
    """The words with two spaces between, the second (a free text) cut so that the line fits."""
    first, *others = [word for word in words if word]
    if not others:
        return short(first, width)
    second, *rest = others
    room = width - len(first) - sum(len(word) + 2 for word in rest) - 2
    return '  '.join((first, short(second, max(16, room)), *rest))


def _count(number: int, noun: str) -> str:
    return f'{number} {noun}{"" if number == 1 else "s"}'
