"""Journal entries, and the path made of them, in words: one line each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import assert_never

from agent_graph.cli.facts import counted
from agent_graph.journal.entries import (
    Answered,
    CallFinished,
    CallStarted,
    Edited,
    Ended,
    Enqueued,
    Entered,
    Entry,
    Paused,
    Started,
    StepDone,
)
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
    FilePart,
    JsonValue,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserContent,
)
from agent_graph.messages.history import calls_of
from agent_graph.render.walk import Call, Step, Walk
from agent_graph.render.wording import call_text, short, value_text, waiting_text

__all__ = [
    'content_text',
    'end_text',
    'entered_text',
    'entry_text',
    'message_lines',
    'message_text',
    'parsed',
    'path_lines',
    'response_text',
    'result_text',
    'step_text',
]

WIDE = 120
"""Free text in a line is cut to about so many characters."""


def entry_text(entry: Entry) -> str:
    """What an entry brings."""
    match entry:
        case Started():
            about = [entry.agent or '', content_text(entry.prompt)]
            about += [counted(len(entry.history), 'earlier message')] if entry.history else []
            return ' · '.join(filter(None, about))
        case Entered():
            return ' · '.join(filter(None, (entry.node, entered_text(entry))))
        case CallStarted():
            again = f'  attempt {entry.attempt}' if entry.attempt > 1 else ''
            return f'{call_text(entry.tool_name, parsed(entry.args), WIDE)}  (call {entry.tool_call_id}){again}'
        case CallFinished():
            return f'{entry.part.tool_name} {result_text(entry.part)}  (call {entry.part.tool_call_id})'
        case Paused():
            return '; '.join(f'{p.tool_name} {waiting_text(p, WIDE)}  (call {p.tool_call_id})' for p in entry.pending)
        case Answered():
            return f'{_decision(entry)}  (call {entry.tool_call_id})'
        case Enqueued():
            return content_text(entry.message.content)
        case Edited():
            return ', '.join(n for n in ('messages', 'metadata', 'limits') if getattr(entry, n) is not None)
        case StepDone():
            return f'{entry.name} → {value_text(entry.value, WIDE)}  (in {entry.scope})'
        case Ended():
            return end_text(entry)
        case _:
            assert_never(entry)


def _decision(entry: Answered) -> str:
    if entry.decision == 'answer':
        return f'answer: {value_text(entry.value, WIDE)}'
    if entry.decision == 'approved':
        return 'approved' if entry.args is None else f'approved with {value_text(entry.args, WIDE)}'
    return f'denied: {short(entry.message, WIDE)}' if entry.message else 'denied'


def entered_text(entry: Entered) -> str:
    """The new data a node was entered with."""
    if entry.response is not None:
        return response_text(entry.response)
    words: list[str] = []
    if entry.message is not None:
        words.append(('again: ' if entry.retry else '') + message_text(entry.message))
    words += [f'with {content_text(message.content)}' for message in entry.queued]
    if entry.final:
        words.append('tools withdrawn: a limit is reached')
    if entry.prompt is not None:
        words.append(content_text(entry.prompt))
    if entry.data is not None:
        words.append(value_text(entry.data, WIDE))
    return ' · '.join(words)


def message_text(message: Message) -> str:
    """A message in a few words."""
    if isinstance(message, ToolMessage):
        return '; '.join(f'{part.tool_name} {result_text(part)}' for part in message.parts)
    if isinstance(message, AssistantMessage):
        return response_text(message)
    return content_text(message.content)


def response_text(response: AssistantMessage) -> str:
    """What a model answered, in a few words."""
    text = ' '.join(p.content for p in response.parts if isinstance(p, TextPart))
    words = [short(text, WIDE)] if text.strip() else []
    words += [call_text(call.tool_name, parsed(call.args)) for call in calls_of(response)]
    if not words and any(isinstance(p, ThinkingPart) for p in response.parts):
        words.append('reasoning only')
    if response.interrupted:
        words.append('(interrupted)')
    elif response.finish_reason not in (None, 'stop', 'tool_calls'):
        words.append(f'({response.finish_reason})')
    return ' · '.join(words) or 'empty'


def content_text(content: str | Sequence[UserContent] | None, limit: int = WIDE) -> str:
    """A prompt or a message's content; files by their names."""
    if content is None:
        return ''
    if isinstance(content, str):
        return short(content, limit)
    return short(' '.join(map(_user_text, content)), limit)


def _user_text(item: UserContent) -> str:
    """One item of a user message."""
    if isinstance(item, str):
        return item
    return '[cache point]' if isinstance(item, CachePoint) else f'[{item.name or item.media_type}]'


def result_text(part: ToolReturnPart, limit: int = WIDE) -> str:
    """`→ result`, or how else a call was answered."""
    word = '→' if part.outcome == 'success' else f'{part.outcome}:'
    return f'{word} {value_text(part.content, limit)}'


def end_text(entry: Ended) -> str:
    """How a run ended."""
    if entry.status == 'completed':
        return f'completed: {value_text(entry.output, WIDE)}' if entry.output_stored else 'completed'
    why = ': '.join(filter(None, (entry.error_type, entry.error)))
    return f'{entry.status}: {short(why, WIDE)}' if why else entry.status


def step_text(step: Step) -> str:
    """What a step of a path brought; its tool calls are lines of their own."""
    entry = step.entry
    if entry.response is not None:
        texts = ' '.join(p.content for p in entry.response.parts if isinstance(p, TextPart))
        calls = sum(isinstance(p, ToolCallPart) for p in entry.response.parts)
        return ' · '.join(filter(None, (short(texts, WIDE), counted(calls, 'tool call') if calls else '')))
    if isinstance(entry.message, ToolMessage):
        return counted(len(entry.message.parts), 'tool result')
    return content_text(step.prompt) if step.prompt is not None else entered_text(entry)


def path_lines(walk: Walk) -> list[str]:
    """A path without what differs from run to run (times, numbers, ids): for holding two of them against each other."""
    lines: list[str] = []
    for step in walk.steps:
        lines.append(' · '.join(filter(None, (step.node, step_text(step)))))
        lines += [f'    {_call_line(call)}' for call in step.calls]
    if walk.ended is not None:
        lines.append(f'End · {end_text(walk.ended)}')
    return lines


def _call_line(call: Call) -> str:
    called = call_text(call.tool_name, call.args, WIDE)
    if call.waiting is not None:
        return f'{called}  {waiting_text(call.waiting)}'
    if call.outcome is None:
        return called
    return f'{called}  {"→" if call.outcome == "success" else f"{call.outcome}:"} {value_text(call.result, WIDE)}'


def message_lines(message: Message, limit: int = WIDE) -> Iterator[tuple[str, str]]:
    """A message as (who or what, text) pairs, one for each part."""
    match message:
        case AssistantMessage():
            for part in message.parts:
                match part:
                    case ToolCallPart():
                        yield f'call {part.tool_call_id}', call_text(part.tool_name, parsed(part.args), limit)
                    case FilePart():
                        yield 'file', part.name or part.media_type
                    case BuiltinToolCallPart():
                        yield f'builtin call {part.tool_call_id}', call_text(part.tool_name, parsed(part.args), limit)
                    case BuiltinToolReturnPart():
                        yield f'builtin result {part.tool_call_id}', value_text(part.content, limit)
                    case _:
                        yield part.kind, short(part.content, limit)
        case ToolMessage():
            for part in message.parts:
                yield f'result {part.tool_call_id}', f'{part.tool_name} {result_text(part, limit)}'
        case _:
            yield message.kind, content_text(message.content, limit)


def parsed(args: JsonValue) -> JsonValue:
    """Arguments as data where they are the text of some."""
    if not isinstance(args, str):
        return args
    try:
        return json.loads(args)
    except (ValueError, RecursionError):
        return args
