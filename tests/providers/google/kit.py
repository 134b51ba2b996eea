"""What the tests of this protocol share: bodies without a network, answers, and models at a loopback server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_graph.messages import Message
from agent_graph.model import ModelSettings, RequestInfo
from agent_graph_providers.google import GoogleModel
from agent_graph_providers.google.vertex import CloudDoor
from agent_graph_providers.google.wire import GoogleWire, KeyDoor
from agent_graph_providers.wire.model import Question, Sent
from agent_graph_providers.wire.offers import Memory, Offers

__all__ = ['KEY', 'answer', 'body_for', 'call', 'model', 'sent_for']

KEY = 'marker-key-3fb1c0'


def sent_for(
    name: str,
    messages: Sequence[Message],
    info: RequestInfo | None = None,
    *,
    provider: str = 'google',
    stream: bool = False,
    settings: ModelSettings | None = None,
) -> Sent:
    """The request for these messages, as the wire makes it."""
    door = KeyDoor() if provider == 'google' else CloudDoor(name, keyed=True)
    wire = GoogleWire(name, door)
    info = info or RequestInfo()
    memory = Memory(Offers(wire.map_tool, start='[A-Za-z_]'), wire.map_message)
    return wire.request(Question(name, messages, info, settings or info.settings, memory, stream))


def body_for(
    name: str,
    messages: Sequence[Message],
    info: RequestInfo | None = None,
    *,
    provider: str = 'google',
    settings: ModelSettings | None = None,
) -> dict[str, Any]:
    """The body of that request."""
    body = sent_for(name, messages, info, provider=provider, settings=settings).body
    assert body is not None
    return body


def answer(*parts: dict[str, Any], finish: str | None = 'STOP', **candidate: Any) -> dict[str, Any]:
    """An answer, or one piece of a stream, with these parts."""
    first: dict[str, Any] = {'content': {'role': 'model', 'parts': list(parts)}, 'index': 0, **candidate}
    if finish is not None:
        first['finishReason'] = finish
    usage = {'promptTokenCount': 3, 'candidatesTokenCount': 2, 'totalTokenCount': 5}
    return {'candidates': [first], 'usageMetadata': usage, 'modelVersion': 'gemini-3-flash', 'responseId': 'r1'}


def call(name: str, args: dict[str, Any] | None = None, call_id: str = '', **beside: Any) -> dict[str, Any]:
    """The part of a function call."""
    given = {'id': call_id} if call_id else {}
    inner: dict[str, Any] = {**given, 'name': name}
    if args is not None:
        inner['args'] = args
    return {'functionCall': inner, **beside}


def model(url: str, name: str = 'gemini-3-flash', **rest: Any) -> GoogleModel:
    """The model at a loopback server."""
    return GoogleModel(name, base_url=url, api_key=KEY, **rest)
