"""`CachedModel`: answers from a file what was answered before."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from agent_graph.errors import CodecError, ConfigError
from agent_graph.messages import AssistantMessage, Message
from agent_graph.messages.versioned import VersionedJson
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.models.bounds import check, check_callable, is_number, is_whole
from agent_graph.models.cache_file import CacheFile, Found
from agent_graph.models.cache_key import OWN_DETAILS, request_key
from agent_graph.models.cache_thread import CacheThread
from agent_graph.models.guidance import is_empty
from agent_graph.models.pushing import push
from agent_graph.models.wrapper import LOG, WrapperModel
from agent_graph.text import clean_data
from agent_graph.usage import NO_USAGE

__all__ = ['CacheMode', 'CachedModel']

CacheMode: TypeAlias = Literal['use', 'refresh', 'bypass']
"""`use` what is stored and store what is not; `refresh`: ask, and store the new answer; `bypass`: do neither."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is stored."""

    v: int
    response: AssistantMessage


_CODEC = VersionedJson(_Answer, name='the cached answer')

_modes: ContextVar[Mapping[int, tuple[object, CacheMode]]] = ContextVar('agent_graph.models.cache_modes')
"""Modes set for a while, by the identity of the cache."""


class CachedModel(WrapperModel):
    """A model whose answers are kept in a SQLite file and given again to the same request, streamed or not.

    A request is the same if everything that can change its answer is: the model with its settings and address, messages,
    tools with their schemas, settings (but timeouts and headers that say who asks), tool choice and output schema. Kept are
    whole answers only: no error, nothing cut short, refused, filtered or empty.

    `ttl` is how many seconds an answer may be old, `max_entries` and `max_bytes` bound the file: what was used longest ago
    goes first. Several processes may use one file. Whatever is wrong with the file, the model is asked instead, and the log
    `agent_graph.models` says so; only a file that was never a cache, or a folder that is not there, raises `ConfigError`.

    An answer from the cache has no usage; `provider_details` says `'cached': True`, and what it once took and
    when in `'cached_usage'` and `'cached_at'`. `mode` is how requests use the cache; `with cache.bypass():` and `with cache.refresh():` change that
    for the requests begun inside. `namespace` sets answers apart from others in the same file. `close()` ends the
    thread the file is used in; another request opens it again.
    """

    def __init__(
        self,
        model: Model | str,
        path: str | os.PathLike[str],
        *,
        ttl: float | None = None,
        max_entries: int | None = None,
        max_bytes: int | None = None,
        mode: CacheMode = 'use',
        namespace: str = '',
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(model)
        for name, bound, fits in (
            ('ttl', ttl, is_number),
            ('max_entries', max_entries, is_whole),
            ('max_bytes', max_bytes, is_whole),
        ):
            what = 'a whole number' if fits is is_whole else 'seconds'
            good = bound is None or (fits(bound) and bound > 0)
            check(good, name, bound, f'keeps nothing; pass {what} above 0, or None for no bound')
        check(is_number(timeout) and timeout >= 0, 'timeout', timeout, 'is no time; pass seconds, from 0 on')
        given: Any = namespace
        check(isinstance(given, str), 'namespace', given, 'is no name; pass a text')
        check_callable(clock=clock)
        if mode not in ('use', 'refresh', 'bypass'):
            raise ConfigError(f"mode={mode!r} is unknown; use 'use', 'refresh' or 'bypass'")
        self._path = _file_at(path)
        self._ttl = ttl
        self._mode: CacheMode = mode
        self._namespace = namespace
        self._clock = clock
        self._file = CacheFile(self._path, max_entries=max_entries, max_bytes=max_bytes, timeout=timeout, clock=clock)
        self._thread = CacheThread(self._file)
        weakref.finalize(self, self._thread.drop)
        self.hits = 0
        self.misses = 0

    def __repr__(self) -> str:
        return f'CachedModel({self._wrapped!r}, {os.fspath(self._path)!r})'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Give the stored answer, or ask and store what comes."""
        mode = _modes.get({}).get(id(self), (self, self._mode))[1]
        identity = [self._namespace, self.identity]
        key = None if mode == 'bypass' else request_key(messages, info, identity)
        if key is None:
            await self.wrapped.respond(messages, info, out)
            return
        if mode == 'use' and (known := await self._find(key)) is not None:
            self.hits += 1
            await push(known, out)
            return
        self.misses += 1
        fresh = not out.started
        await self.wrapped.respond(messages, info, out)
        if fresh and _is_kept(response := out.build()):
            await self._store(key, response)

    def bypass(self) -> contextlib.AbstractContextManager[None]:
        """`with cache.bypass():` requests begun inside are neither answered from the cache nor stored."""
        return self._as('bypass')

    def refresh(self) -> contextlib.AbstractContextManager[None]:
        """`with cache.refresh():` requests begun inside are asked anew, and their answers replace the stored ones."""
        return self._as('refresh')

    async def clear(self) -> int:
        """Remove every stored answer, of every model; how many there were."""
        return await self._thread.run(self._file.clear)

    async def count(self) -> int:
        """How many answers the file holds."""
        return await self._thread.run(self._file.count)

    async def close(self) -> None:
        """Close the file and end its thread."""
        await self._thread.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @contextmanager
    def _as(self, mode: CacheMode) -> Generator[None]:
        token = _modes.set({**_modes.get({}), id(self): (self, mode)})
        try:
            yield
        finally:
            _modes.reset(token)

    async def _find(self, key: str) -> AssistantMessage | None:
        oldest = 0.0 if self._ttl is None else self._clock() - self._ttl
        found = await self._thread.run(partial(self._file.find, key, oldest))
        if found is None:
            return None
        try:
            response = _CODEC.load(found.answer).response
        except CodecError as error:
            LOG.warning('an answer in the cache %s is damaged and is asked for again: %s', self._path, error)
            return None
        return _as_hit(response, found)

    async def _store(self, key: str, response: AssistantMessage) -> None:
        try:
            answer = _CODEC.dump(_Answer(1, clean_data(_bare(response))))
        except CodecError as error:
            LOG.debug('an answer cannot be cached: %s', error)
            return
        await self._thread.run(partial(self._file.store, key, answer, self._ttl))


def _file_at(path: Any) -> Path:
    named: Any = os.fspath
    text: Any = named(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or text == ':memory:':
        raise ConfigError(f"a cache needs a file, got {path!r}; pass a path, such as 'answers.db'")
    return Path(text).absolute()


def _is_kept(response: AssistantMessage) -> bool:
    """A whole answer that is worth giving again."""
    wanted = response.finish_reason in (None, 'stop', 'tool_calls', 'length')
    return wanted and response.refusal is None and not response.interrupted and not is_empty(response)


def _bare(response: AssistantMessage) -> AssistantMessage:
    """The response without what wrappers noted about this one request."""
    details = {k: v for k, v in (response.provider_details or {}).items() if k not in OWN_DETAILS}
    return replace(response, provider_details=details or None)


def _as_hit(response: AssistantMessage, found: Found) -> AssistantMessage:
    usage = response.usage
    used: dict[str, Any] = {f.name: v for f in fields(usage) if (v := getattr(usage, f.name))}
    noted = {'cached': True, 'cached_at': found.stored, 'cached_usage': used}
    details = {**(response.provider_details or {}), **noted}
    return replace(response, usage=NO_USAGE, provider_details=details)
