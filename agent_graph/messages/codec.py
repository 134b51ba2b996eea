"""A message list as one JSON document, `{"v": 1, "messages": [...]}`, and back, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_graph.errors import CodecError, MessageError
from agent_graph.messages.parts import Message
from agent_graph.messages.versioned import VersionedJson, shorten

__all__ = ['dump_json', 'load_json']


@dataclass(frozen=True, slots=True)
class _Conversation:
    v: int
    messages: tuple[Message, ...]


_CODEC = VersionedJson(_Conversation, name='the message list')


def dump_json(messages: Sequence[Message]) -> bytes:
    """Messages as UTF-8 JSON, for a file, a database column or another process; `load_json` gives them back equal.

    File bytes are written as URL-safe base64. Raises `MessageError` naming the message that JSON cannot hold.
    """
    try:
        return _CODEC.dump(_Conversation(1, tuple(messages)))
    except CodecError as error:
        raise _culprit(messages, error) from error


def load_json(data: bytes | str) -> list[Message]:
    """The messages in a document of `dump_json`, of this or an older version.

    Only message types are ever built. Raises `CodecError` for anything else: other JSON, unknown kinds, fields or
    versions, damage, more than 256 MiB or too deep nesting.
    """
    return list(_CODEC.load(data).messages)


def _culprit(messages: Sequence[Message], error: CodecError) -> MessageError:
    for index, message in enumerate(messages):
        try:
            _CODEC.dump(_Conversation(1, (message,)))
        except CodecError as found:
            return MessageError(f'message {index} {shorten(message)} cannot be written: {found}')
    return MessageError(str(error))  # each one fits: together they are too long
