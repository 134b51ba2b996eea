"""A model that plays recorded responses back and holds each request against the recorded one: `ReplayModel`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias, cast

from agent_graph.engine.state import RunState, apply
from agent_graph.errors import ConfigError, ReplayMismatch, UnexpectedModelBehavior
from agent_graph.journal.entries import Entered, Record
from agent_graph.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.testing.answers import check_chunk, give

__all__ = ['Exchange', 'Recording', 'ReplayModel']

Recording: TypeAlias = Sequence[Record] | Sequence[Message]
"""A run as its journal's records (`await journal.load(run_id)`), or as its messages (`result.messages`)."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A recorded request and its response (`None` if the run stopped before one came).

    `seqs` are the journal entries the messages came from, 0 where the recording is a list of messages.
    """

    messages: tuple[Message, ...]
    seqs: tuple[int, ...]
    response: AssistantMessage | None


class ReplayModel:
    """A model that answers as a recorded run was answered, as long as it is asked the same.

        replayed = await agent.run(prompt, model=ReplayModel(await journal.load(run_id)))

    Every request is compared with the recorded one, message by message (instructions included, metadata of tool results
    not). The first difference raises `ReplayMismatch`, which names the journal entry, what was expected and what was
    found. It keeps no state: the length of a request tells which one it is, so a replay may begin in the middle of a
    conversation and be shared. Raises `ConfigError` for a recording without any response.
    """

    def __init__(
        self, recording: Recording, *, chunk: int = 8, name: str | None = None, provider: str | None = None
    ) -> None:
        self.exchanges, self._whole, self._seqs = _exchanges(recording)
        first = next((e.response for e in self.exchanges if e.response is not None), None)
        if first is None:
            raise ConfigError(f'the recording ({len(recording)} items) holds no response of a model; pass a whole run')
        self._chunk = check_chunk(chunk)
        self._name = name or first.model_name or 'replay'
        self._provider = provider or first.provider_name or 'test'

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._provider

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Compare the request with the recorded one and give the recorded response."""
        number, exchange = self._recorded(len(messages))
        expected, seqs = (exchange.messages, exchange.seqs) if exchange is not None else (self._whole, self._seqs)
        self._compare(number, expected, seqs, messages)
        if exchange is None:
            raise self._mismatch(number, len(messages), expected, seqs, messages)
        if exchange.response is None:
            raise UnexpectedModelBehavior(
                f'the recorded run stopped before request {number} was answered; record the run to its end to replay it'
            )
        await give(exchange.response, out, self._chunk)

    def _recorded(self, length: int) -> tuple[int, Exchange | None]:
        """The request of this length, or the next longer one: then the difference is in it."""
        for number, exchange in enumerate(self.exchanges, 1):
            if len(exchange.messages) >= length:
                return number, exchange
        return len(self.exchanges) + 1, None

    def _compare(self, number: int, expected: Sequence[Message], seqs: Sequence[int], found: Sequence[Message]) -> None:
        for index in range(max(len(expected), len(found))):
            if index >= len(expected) or index >= len(found) or _sent(expected[index]) != _sent(found[index]):
                raise self._mismatch(number, index, expected, seqs, found)

    def _mismatch(
        self, number: int, index: int, expected: Sequence[Message], seqs: Sequence[int], found: Sequence[Message]
    ) -> ReplayMismatch:
        old = expected[index] if index < len(expected) else None
        new = found[index] if index < len(found) else None
        seq = seqs[index] if index < len(seqs) else 0
        entry = f' (journal entry {seq})' if seq else ''
        if old is None:
            said = (
                f'the recorded run ended before it; found {_shown(new)}'
                if new is not None
                else 'the recorded run ended there'
            )
        elif new is None:
            said = f'expected {_shown(old)}, found no message'
        else:
            path, was, now = next(_differences('', _sent(old), _sent(new)), ('', old, new))
            said = f'expected{path} {_shown(was)}, found {_shown(now)}'
        return ReplayMismatch(
            f'request {number} differs from the recording at messages[{index}]{entry}: {said}; '
            'if the change is meant, record the run anew',
            seq=seq,
            index=index,
            expected=old,
            found=new,
        )


def _exchanges(recording: Recording) -> tuple[list[Exchange], tuple[Message, ...], tuple[int, ...]]:
    if recording and isinstance(recording[0], Record):
        return _from_records(cast('Sequence[Record]', recording))
    for index, item in enumerate(recording):
        if not isinstance(item, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
            raise ConfigError(
                f'recording[{index}] is {item!r}; '
                'pass the records of a run (`await journal.load(run_id)`) or its messages'
            )
    messages = cast('tuple[Message, ...]', tuple(recording))
    found = [
        Exchange(messages[:index], (0,) * index, message)
        for index, message in enumerate(messages)
        if isinstance(message, AssistantMessage)
    ]
    return found, messages, (0,) * len(messages)


def _from_records(records: Sequence[Record]) -> tuple[list[Exchange], tuple[Message, ...], tuple[int, ...]]:
    """Fold the records as a resumed run would; the messages at each request are what the model was sent."""
    state = RunState('')
    seqs: list[int] = []
    found: list[Exchange] = []
    for record in records:
        entry = record.entry
        apply(state, entry)
        if isinstance(entry, Entered) and entry.system:
            seqs[0:0] = [record.seq] * len(entry.system)
        seqs += [record.seq] * (len(state.messages) - len(seqs))
        if isinstance(entry, Entered) and entry.node == 'ModelRequest':
            found.append(Exchange(tuple(state.messages), tuple(seqs), None))
        elif isinstance(entry, Entered) and entry.response is not None and found and not entry.response.interrupted:
            found[-1] = replace(found[-1], response=entry.response)
    return found, tuple(state.messages), tuple(seqs)


def _sent(message: Message) -> Message:
    """The message as a model sees it: without what tools keep for the application."""
    if isinstance(message, ToolMessage) and any(part.metadata is not None for part in message.parts):
        return ToolMessage([replace(part, metadata=None) for part in message.parts])
    return message


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """The innermost places where two messages differ: path, recorded and found value."""
    if type(old) is type(new) and is_dataclass(old):
        for field in fields(old):
            yield from _differences(f'{path}.{field.name}', getattr(old, field.name), getattr(new, field.name))
    elif isinstance(old, tuple) and isinstance(new, tuple) and len(cast('Any', old)) == len(cast('Any', new)):
        for index, (a, b) in enumerate(zip(cast('tuple[Any, ...]', old), cast('tuple[Any, ...]', new), strict=True)):
            yield from _differences(f'{path}[{index}]', a, b)
    elif old != new:
        yield f' {path}' if path else '', old, new


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f'{text[:300]}… ({len(text)} characters)'
