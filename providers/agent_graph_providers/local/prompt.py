"""What a model that knows no tools is asked: messages -> plain chat turns, tools -> text and a JSON schema. Pure.

Every word here was chosen by measuring the default model, which has 135 million parameters: it does best when the last turn
says which one tool to call and the grammar admits its arguments only, and when earlier turns look just the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    CachePoint,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserContent,
    UserMessage,
)
from agent_graph.model import OutputSchema, RequestInfo, ToolDefinition
from agent_graph_providers.local.schemas import ANSWER, ARGUMENTS, TOOL, arguments_of, choice_of

__all__ = ['Task', 'chat', 'task_of']

_TEXT = {'type': 'string'}


@dataclass(frozen=True, slots=True)
class Task:
    """What one request asks for.

    `text`: a plain answer. `value`: an answer that is itself JSON. `call`: the arguments of the one tool in `tools`.
    `choice`: one call of `tools`, or an answer if `may_answer`.
    """

    kind: Literal['text', 'value', 'call', 'choice']
    tools: tuple[ToolDefinition, ...] = ()
    may_answer: bool = True
    output: OutputSchema | None = None

    def schema(self) -> OutputSchema | None:
        """What the model is held to; `None` when it may write what it likes."""
        match self.kind:
            case 'text':
                return None
            case 'value':
                return self.output
            case 'call':
                return OutputSchema('arguments', arguments_of(self.tools[0]))
            case 'choice':
                answer = self.output.schema if self.output is not None else _TEXT
                return OutputSchema('choice', choice_of(self.tools, answer if self.may_answer else None))


def task_of(info: RequestInfo) -> Task:
    """What this request asks for. Names in `tool_choice` mean that one of them has to be called."""
    choice = info.tool_choice
    tools = info.tools
    must = not info.allow_text or choice == 'required'
    if isinstance(choice, tuple):
        tools, must = tuple([t for t in tools if t.name in choice]), True
    if not tools or choice == 'none':
        return Task('text' if info.output_schema is None else 'value', output=info.output_schema)
    if must and len(tools) == 1:
        return Task('call', tools)
    return Task('choice', tools, may_answer=not must, output=info.output_schema)


def chat(messages: Sequence[Message], task: Task, offered: Iterable[ToolDefinition]) -> list[Message]:
    """The turns to send: system text, then user and assistant texts in turn, the last one saying what to do.

    Calls and results become text. Raises `MessageError` for files: such a model reads text only.
    """
    lines = {t.name: _call_line(t) for t in offered} if task.kind == 'call' else {}
    system: list[str] = []
    turns: list[tuple[bool, str]] = []
    for message in messages:
        match message:
            case SystemMessage(content=content):
                system.append(content)
            case UserMessage():
                turns.append((True, _user_text(message.content)))
            case AssistantMessage():
                turns += _assistant_turns(message, task, lines)
            case ToolMessage(parts=parts):
                turns.append((True, '\n'.join(_result_text(p) for p in parts)))
    if task.kind == 'text' and messages and isinstance(messages[-1], ToolMessage):
        turns.append((True, 'Now answer.'))
    elif task.tools:
        turns.append((True, _call_line(task.tools[0]) if task.kind == 'call' else _choice_text(task)))
    head: list[Message] = [SystemMessage('\n\n'.join(system))] if system else []
    return head + [UserMessage(t) if user else AssistantMessage([TextPart(t)]) for user, t in _merged(turns)]


def _merged(turns: list[tuple[bool, str]]) -> list[tuple[bool, str]]:
    """Neighbouring turns of one side as one; chat templates expect the sides to take turns."""
    merged: list[tuple[bool, str]] = []
    for user, text in turns:
        if merged and merged[-1][0] == user:
            merged[-1] = (user, f'{merged[-1][1]}\n{text}')
        else:
            merged.append((user, text))
    return merged


def _assistant_turns(message: AssistantMessage, task: Task, lines: dict[str, str]) -> list[tuple[bool, str]]:
    """Its texts, and its calls unless words are wanted now: having seen itself write JSON, a small model goes on with it."""
    turns: list[tuple[bool, str]] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.content:
            turns.append((False, part.content))
        elif isinstance(part, ToolCallPart) and task.kind != 'text':
            if line := lines.get(part.tool_name):
                turns.append((True, line))
            turns.append((False, _call_text(part, bare=task.kind == 'call')))
    return turns


def _call_text(call: ToolCallPart, *, bare: bool) -> str:
    args = call.args if isinstance(call.args, str) else _json(call.args)
    return args if bare else f'{{"{TOOL}": {_json(call.tool_name)}, "{ARGUMENTS}": {args or "{}"}}}'


def _result_text(part: ToolReturnPart) -> str:
    content = part.content if isinstance(part.content, str) else _json(part.content)
    verb = 'Result of' if part.outcome == 'success' else 'Problem with'
    extra = [_only_text(item) for item in part.extra_content]
    return '\n'.join([f'{verb} {part.tool_name}: {content}', *extra])


def _user_text(content: str | Sequence[UserContent]) -> str:
    return (
        content
        if isinstance(content, str)
        else '\n'.join(_only_text(item) for item in content if not isinstance(item, CachePoint))
    )


def _only_text(item: str | FilePart) -> str:
    if isinstance(item, FilePart):
        raise MessageError(
            f'the local model reads text only, not {item.media_type!r}; leave the file out or use another model'
        )
    return item


def _call_line(tool: ToolDefinition) -> str:
    return f'Now call {_described(tool)}'


def _choice_text(task: Task) -> str:
    lines = [f'- {_described(tool)}' for tool in task.tools]
    how = f'Call a tool: {{"{TOOL}": name, "{ARGUMENTS}": {{...}}}}'
    if task.may_answer:
        how += f'. Or, when nothing is left to call, answer: {{"{ANSWER}": ...}}'
    return '\n'.join(['Tools:', *lines, f'{how}.'])


def _described(tool: ToolDefinition) -> str:
    names = ', '.join(tool.parameters.get('properties') or ())
    return ' '.join(filter(None, [f'{tool.name}:', tool.description, f'Arguments: {names}' if names else '']))


def _json(value: Any) -> str:
    """With a space after colons and commas, which is how such models have mostly seen JSON."""
    return json.dumps(value, ensure_ascii=False)
