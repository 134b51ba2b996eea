"""A model that exercises an agent without being told anything: `TestModel` calls every tool once, then answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, cast

from agent_graph.errors import ConfigError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    JsonValue,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
)
from agent_graph.model import RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.testing.answers import check_chunk, check_request, give
from agent_graph.tools.sample import sample_arguments

__all__ = ['TestModel']


class TestModel:
    """A model that calls every function tool with arguments valid for its schema, then answers.

        with agent.override(model=TestModel()):
            result = await agent.run('anything')

    The first response calls all function tools it is offered (or those `call_tools` names); one that appears later,
    or whose answer asked for a retry, is called in a later response. Then it answers: with a text that is the tools'
    results as JSON, with valid arguments for the first output tool where text cannot end the run, or with JSON text
    that follows the output schema. `custom_output_text` and `custom_output_args` replace that answer. Arguments are
    made from the schemas alone and are the same for the same `seed`. It keeps no state and honours `tool_choice`.
    """

    __test__: ClassVar[bool] = False  # pytest would take the name for a test class

    def __init__(
        self,
        *,
        call_tools: Literal['all', 'none'] | Sequence[str] = 'all',
        custom_output_text: str | None = None,
        custom_output_args: dict[str, JsonValue] | None = None,
        seed: int = 0,
        chunk: int = 8,
        name: str = 'test',
        provider: str = 'test',
    ) -> None:
        if isinstance(call_tools, str) and call_tools not in ('all', 'none'):
            raise ConfigError(
                f"call_tools={call_tools!r} names no set of tools; pass 'all', 'none' or a list: [{call_tools!r}]"
            )
        if custom_output_text is not None and custom_output_args is not None:
            raise ConfigError('both custom_output_text and custom_output_args are given; a run ends with one of them')
        self._call_tools = call_tools
        self._text = custom_output_text
        self._args = custom_output_args
        self._seed = seed
        self._chunk = check_chunk(chunk)
        self._name = name
        self._provider = provider

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._provider

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Call the tools that are still to be called, or answer."""
        if info.settings:
            check_request(info)
        ours = _since_first_request(messages, info.step)
        calls = [self._call(tool, info) for tool in self._due(ours, info)]
        if calls:
            await give(AssistantMessage(calls, finish_reason='tool_calls'), out, self._chunk)
            return
        answer = self._answer(messages, ours, info)
        reason = 'tool_calls' if isinstance(answer, ToolCallPart) else 'stop'
        await give(AssistantMessage([answer], finish_reason=reason), out, self._chunk)

    def _due(self, ours: Sequence[Message], info: RequestInfo) -> list[ToolDefinition]:
        """The function tools to call now: allowed, wanted, and not called before unless they asked for a retry."""
        answers = [part for message in ours if isinstance(message, ToolMessage) for part in message.parts]
        done = {part.tool_name for part in answers if part.outcome != 'retry'}
        functions = [tool for tool in info.tools if tool.kind == 'function' and tool.name not in done]
        return [tool for tool in functions if _allowed(tool, info) and self._wanted(tool)]

    def _wanted(self, tool: ToolDefinition) -> bool:
        return self._call_tools == 'all' or (self._call_tools != 'none' and tool.name in self._call_tools)

    def _call(self, tool: ToolDefinition, info: RequestInfo) -> ToolCallPart:
        return ToolCallPart(tool.name, self._sample(tool.parameters, info, tool.name), f'call_{info.step}_{tool.name}')

    def _answer(self, messages: Sequence[Message], ours: Sequence[Message], info: RequestInfo) -> AssistantPart:
        output = next((tool for tool in info.tools if tool.kind == 'output' and _allowed(tool, info)), None)
        if self._text is not None:
            if not info.allow_text:
                raise ConfigError(
                    f'custom_output_text={self._text!r}, but this run ends with a call of an output tool; '
                    'pass custom_output_args'
                )
            return TextPart(self._text)
        schema = info.output_schema.schema if info.output_schema is not None else None
        if output is not None and (self._args is not None or not info.allow_text):
            return self._output_call(output, info)
        if schema is None and not info.allow_text and info.allow_empty and self._args is None:
            return TextPart('')
        if schema is None and info.allow_text:
            schema = _prompted_schema(messages)
        if schema is None and self._args is not None:
            raise ConfigError(
                f'custom_output_args={self._args!r}, but this run ends with a text; pass custom_output_text'
            )
        if schema is None:
            return TextPart(_summary(ours))
        value = self._args if self._args is not None else self._sample(schema, info)
        return TextPart(json.dumps(value, ensure_ascii=False))

    def _output_call(self, tool: ToolDefinition, info: RequestInfo) -> ToolCallPart:
        args = self._args if self._args is not None else self._sample(tool.parameters, info, tool.name)
        return ToolCallPart(tool.name, args, f'call_{info.step}_{tool.name}')

    def _sample(self, schema: dict[str, Any], info: RequestInfo, tool_name: str = '') -> dict[str, JsonValue]:
        """Other values at every step: what a tool or a check refused once is not offered again."""
        return sample_arguments(schema, seed=self._seed + max(info.step, 1) - 1, tool_name=tool_name)


def _allowed(tool: ToolDefinition, info: RequestInfo) -> bool:
    choice = info.tool_choice
    return choice != 'none' if isinstance(choice, str) else tool.name in choice


def _since_first_request(messages: Sequence[Message], step: int) -> Sequence[Message]:
    """What this run has said so far: from its own first response on, `step` being the request about to be answered."""
    responses = max(step, 1) - 1
    for index in range(len(messages) - 1, -1, -1):
        if responses == 0:
            return messages[index + 1 :]
        if isinstance(messages[index], AssistantMessage):
            responses -= 1
    return messages if responses == 0 else ()


def _summary(ours: Sequence[Message]) -> str:
    """The tools' results as JSON, by tool; of several calls of one tool the last."""
    results: dict[str, JsonValue] = {}
    for message in ours:
        for part in message.parts if isinstance(message, ToolMessage) else ():
            results[part.tool_name] = _content(part)
    return json.dumps(results, ensure_ascii=False) if results else 'success (no tool calls)'


def _content(part: ToolReturnPart) -> JsonValue:
    return part.content if part.outcome == 'success' else f'{part.outcome}: {part.content}'


def _prompted_schema(messages: Sequence[Message]) -> dict[str, Any] | None:
    """The schema of a `PromptedOutput`, which is the last line of the agent's instructions and stands nowhere else."""
    texts = [m.content for m in messages if isinstance(m, SystemMessage) and m.from_instructions]
    if not texts:
        return None
    try:
        found: Any = json.loads(texts[-1].rsplit('\n', 1)[-1])
    except ValueError:
        return None
    return cast('dict[str, Any]', found) if isinstance(found, dict) and ('type' in found or '$ref' in found) else None
