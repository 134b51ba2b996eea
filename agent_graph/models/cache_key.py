"""What an answer depends on, as one number: two requests have the same key only if they ask the same.

The parts that a provider reads in their order (messages, tools, schemas) keep it; settings are sorted. Each message is
written and hashed once a run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from agent_graph.messages import AssistantMessage, JsonValue, Message
from agent_graph.model import ModelSettings, RequestInfo
from agent_graph.models.wrapper import per_message
from agent_graph.usage import NO_USAGE

__all__ = ['KEY_FORMAT', 'OWN_DETAILS', 'request_key']

KEY_FORMAT = 1
"""Part of every key: another way to make them is another number."""

OWN_DETAILS = frozenset({'cached', 'cached_at', 'cached_usage', 'fallback', 'input_tokens_counted', 'spent_by_others'})
"""What wrappers note in a response's `provider_details`; no provider is ever sent it."""

_NOT_ASKED = frozenset({'connect_timeout', 'event_timeout', 'first_event_timeout', 'timeout', 'tool_choice'})
"""Settings that do not change an answer; `tool_choice` is in `RequestInfo` as it was decided."""

_PRIVATE = ('auth', 'cookie', 'idempotency', 'key', 'request-id', 'secret', 'token', 'trace')
"""Headers with these in their name say who asks, or which request it is, not what is asked."""


def request_key(messages: Sequence[Message], info: RequestInfo, identity: JsonValue) -> str | None:
    """The key of a request to the model of this `identity`; `None` if something in it has no JSON form."""
    asked = {
        'format': KEY_FORMAT,
        'model': identity,
        'tools': info.tools,
        'tool_choice': info.tool_choice,
        'output': info.output_schema,
        'text': info.allow_text,
        'empty': info.allow_empty,
    }
    try:
        digest = sha256(sha256(_written(asked)).digest() + sha256(_sorted(_settings(info.settings))).digest())
        for part in per_message(info, request_key, messages, _digest):
            digest.update(part)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return None
    return digest.hexdigest()


def _settings(settings: ModelSettings) -> dict[str, Any]:
    asked: dict[str, Any] = {name: value for name, value in settings.items() if name not in _NOT_ASKED}
    headers: dict[str, str] = asked.pop('extra_headers', None) or {}
    kept = {n.lower(): v for n, v in headers.items() if not any(word in n.lower() for word in _PRIVATE)}
    return {**asked, 'extra_headers': kept} if kept else asked


def _digest(message: Message) -> bytes:
    return sha256(_written(_bare(message))).digest()


def _bare(message: Message) -> Message:
    """A message without what no provider is sent: a conversation with cached answers goes on like the one it repeats."""
    if not isinstance(message, AssistantMessage):
        return message
    details = {k: v for k, v in (message.provider_details or {}).items() if k not in OWN_DETAILS}
    return replace(message, usage=NO_USAGE, provider_details=details or None)


def _written(value: Any) -> bytes:
    return to_json(value, bytes_mode='base64', inf_nan_mode='strings')


def _sorted(value: Any) -> bytes:
    return json.dumps(json.loads(_written(value)), sort_keys=True, separators=(',', ':')).encode()
