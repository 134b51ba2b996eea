"""What all models that wrap another one share: who they stand for, and what about a request may be remembered."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from agent_graph.capabilities import Capabilities, capabilities_of
from agent_graph.errors import ConfigError
from agent_graph.messages import JsonValue, Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.registry import infer_model

__all__ = ['LOG', 'CountTokens', 'WrapperModel', 'identity_of', 'is_free', 'line', 'per_message', 'title', 'usable']

T = TypeVar('T')

_LONGEST = 500
"""Characters of an error in a line."""

LOG = logging.getLogger('agent_graph.models')
"""Where waits, fallbacks and failures of a cache are told."""


class CountTokens(Protocol):
    """A model's own way to count the input tokens of a request; `None`: this model has none after all."""

    def __call__(self, messages: Sequence[Message], info: RequestInfo, /) -> Awaitable[int | None]: ...


class WrapperModel:
    """A model that asks another one. It bears that model's name and can do what that one can.

    `model` is a `Model` or a text such as `'openai:gpt-5-mini'`, which is looked up when it is first needed. Inherit from
    this for a wrapper of your own and define `respond`; hand `out` on as it is, and a streamed chunk costs nothing more.
    """

    def __init__(self, model: Model | str) -> None:
        self._wrapped: Model | str = usable(model)

    @property
    def wrapped(self) -> Model:
        """The model that is asked."""
        if isinstance(self._wrapped, str):
            self._wrapped = infer_model(self._wrapped)
        return self._wrapped

    @property
    def name(self) -> str:
        return self.wrapped.name

    @property
    def provider(self) -> str:
        return self.wrapped.provider

    @property
    def capabilities(self) -> Capabilities:
        """What the wrapped model can do."""
        return capabilities_of(self.wrapped)

    @property
    def identity(self) -> JsonValue:
        """All that tells this model's answers from another's; see `identity_of`."""
        return identity_of(self.wrapped)

    @property
    def count_tokens(self) -> CountTokens:
        """The wrapped model's own; there is no such attribute where that has none."""
        return cast(Any, self.wrapped).count_tokens

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask the wrapped model."""
        await self.wrapped.respond(messages, info, out)

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self._wrapped!r})'


def usable(model: Any) -> Any:
    """`model` itself if it is a `Model` or a text, else a `ConfigError`."""
    if isinstance(model, str):
        provider, colon, _ = model.partition(':')
        good = bool(colon and provider)
    else:
        # Ours first: looking at its names would look up the model. A class has the names of a model, too.
        good = isinstance(model, WrapperModel) or (isinstance(model, Model) and not isinstance(model, type))
    if good:
        return model
    raise ConfigError(f'{model!r} is no model; pass a Model, or a text such as "openai:gpt-5-mini"')


def title(model: Model) -> str:
    """A model in a log line: `openai:gpt-5-mini`."""
    return f'{model.provider}:{model.name}'


def line(what: object) -> str:
    """An error, or a text, in one line that is not too long: servers answer with whole pages."""
    text = f'{type(what).__name__}: {what}'.removesuffix(': ') if isinstance(what, BaseException) else str(what)
    text = ' '.join(text[: 4 * _LONGEST].split())
    return text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'


def identity_of(model: Model) -> JsonValue:
    """JSON data that tells a model's answers from another's: name, provider, and what it says itself.

    A model says more in an attribute `identity` (JSON data: its address, its base settings) or `settings`.
    """
    if isinstance(model, WrapperModel):
        return model.identity
    found: dict[str, JsonValue] = {'name': model.name, 'provider': model.provider}
    for attribute in ('identity', 'settings'):
        value = getattr(model, attribute, None)
        if isinstance(value, Mapping):
            found[attribute] = dict(cast(Mapping[str, JsonValue], value))
    return found


def is_free(out: ResponseBuilder) -> bool:
    """Nobody has seen any of the response: it can be asked for again without telling the reader."""
    return not (out.watched and out.started)


def per_message(info: RequestInfo, owner: object, messages: Sequence[Message], make: Callable[[Message], T]) -> list[T]:
    """What `make` makes of each message, made once a run and message: a run of n steps looks at n messages, not n * n.

    Messages are told by identity; `owner` tells apart what is made of them.
    """
    known: dict[int, tuple[Message, T]] = info.scratch.setdefault((per_message, owner), {})
    found: list[T] = []
    for message in messages:
        kept = known.get(id(message))
        if kept is None or kept[0] is not message:  # the id may be that of a message which is gone
            kept = known[id(message)] = (message, make(message))
        found.append(kept[1])
    return found
