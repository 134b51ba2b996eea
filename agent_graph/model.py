"""The contract every provider fulfils: `Model`, what it is asked (`RequestInfo`) and where it answers (`ResponseBuilder`).

A model has one method, `respond(messages, info, out)`, an ordinary coroutine that pushes what it receives into `out` as
it arrives. There is no second, non-streaming method: a model that was answered plainly pushes the whole answer at once,
and may look at `out.watched` to choose which of the two to ask its server for. Because the builder belongs to the
engine, a response that is cut short is never lost: what had arrived is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, runtime_checkable

from agent_graph.building import PartSink, ResponseBuilder
from agent_graph.messages import JsonValue, Message

__all__ = [
    'Model',
    'ModelSettings',
    'OutputSchema',
    'PartSink',
    'RequestInfo',
    'ResponseBuilder',
    'ToolChoice',
    'ToolDefinition',
]

ToolChoice: TypeAlias = Literal['auto', 'required', 'none'] | Sequence[str]
"""`auto` the model decides; `required` it must call some tool; `none` it must not; names: only these are offered."""


class ModelSettings(TypedDict, total=False):
    """How to ask a model; every key is optional, unknown ones are left to `extra_body`.

    Settings of the model, the agent and the run are merged in this order, key by key.
    """

    max_tokens: int
    """The most tokens of output."""
    temperature: float
    top_p: float
    seed: int
    stop_sequences: list[str]
    presence_penalty: float
    frequency_penalty: float
    logit_bias: dict[str, int]
    logprobs: bool
    """Ask for log probabilities; they arrive in `AssistantMessage.provider_details['logprobs']`."""
    top_logprobs: int
    parallel_tool_calls: bool
    """False: at most one tool call a response, where the provider can promise that."""
    tool_choice: ToolChoice | Callable[[Any], ToolChoice]
    """See `ToolChoice`; a function of the `RunContext` is asked before every request."""
    reasoning_effort: Literal['none', 'minimal', 'low', 'medium', 'high', 'xhigh']
    service_tier: str
    user: str
    """An end-user id for the provider's abuse monitoring."""
    top_k: int
    thinking_budget: int
    """The most tokens of reasoning, for models that are told a number; 0 turns it off where that can be."""
    builtin_tools: list[dict[str, JsonValue]]
    """Tools the provider runs itself, written as its API wants them: `{'type': 'web_search'}`. Offered beside the others."""
    auto_cache: Literal['5m', '1h'] | None
    """Keep tools, instructions and the conversation so far in the provider's prompt cache, for this long."""
    previous_response_id: str
    """Go on from a response the provider has stored: its id, or `'auto'` for the last one in the history. OpenAI Responses."""
    background: bool
    """Let the provider work on without a connection and ask for the answer now and then. OpenAI Responses."""
    timeout: float
    """Seconds for one request, from sending it to the end of its answer; its retries not included."""
    connect_timeout: float
    first_event_timeout: float
    """Seconds from sending a request until its answer begins."""
    event_timeout: float
    """Seconds a stream may stand still between two events; what only keeps a connection alive is no event."""
    extra_body: dict[str, JsonValue]
    """Merged into the JSON body last, for what has no name here."""
    extra_headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as it is offered to a model: the name and text it sees and a JSON schema of the arguments.

    `strict=True` asks the provider to hold the model to the schema; `None` leaves that to the provider's mapping.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool | None = None
    kind: Literal['function', 'output'] = 'function'


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON schema an answer's text must follow, for models that can be held to one."""

    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Everything about one request besides the messages.

    `tools` are the function and output tools offered now; the tuple is the same object for as long as they do not
    change. `tool_choice` is resolved (`settings` has no such key here). `output_schema` is set for native structured
    output. `allow_text` is false when only a tool call can end the run, or, with `allow_empty`, an empty answer. `scratch` lives as long as the run: a model may
    keep there what it derives from `tools` or from earlier messages, under its own keys.
    """

    tools: tuple[ToolDefinition, ...] = ()
    settings: ModelSettings = field(default_factory=ModelSettings)
    tool_choice: Literal['auto', 'required', 'none'] | tuple[str, ...] = 'auto'
    output_schema: OutputSchema | None = None
    allow_text: bool = True
    run_id: str = ''
    step: int = 0
    scratch: dict[Any, Any] = field(default_factory=dict[Any, Any])
    allow_empty: bool = False


@runtime_checkable
class Model(Protocol):
    """A model that can be asked. Any object with these three members is one."""

    @property
    def name(self) -> str:
        """The model, as its provider calls it."""
        ...

    @property
    def provider(self) -> str:
        """Who serves it, as genai-prices calls it where it knows it; used for prices, spans and errors."""
        ...

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask once and push the answer into `out`; raise a `ModelError` when there is none or not all of it."""
        ...
