"""The bytes of the files of a conversation, for providers that take no addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from agent_graph.errors import FetchRefused, MessageError
from agent_graph.messages import AssistantMessage, FilePart, Message, ToolMessage, ToolReturnPart, UserMessage
from agent_graph_providers.fetch.address import shown
from agent_graph_providers.fetch.data_url import is_data_url, read_data_url
from agent_graph_providers.fetch.fetcher import Fetched, Fetcher
from agent_graph_providers.fetch.media_type import GENERIC, sniff

__all__ = ['file_bytes', 'with_bytes']

T = TypeVar('T')

_Key: TypeAlias = tuple[str, bool]
"""An address, and whether it may be a local one."""

_PAGES = frozenset({'text/html', 'application/xhtml+xml'})
_SOUND_OR_FILM = frozenset({'audio', 'video'})


async def file_bytes(part: FilePart, fetcher: Fetcher) -> bytes:
    """The bytes of a file: its own, those in its `data:` address, or fetched.

    Raises `MessageError` for a file that only another provider holds and for a faulty `data:` address, `FetchRefused` for
    what is not allowed or is no such file, `FetchFailed` when the network or the server fails.
    """
    if part.data is not None:
        return part.data
    if part.url is None:
        raise MessageError(
            f'this provider cannot use the file {part.file_id!r}, which another one holds; pass its bytes or an address'
        )
    file = await _get(_key(part.url, part), fetcher)
    _type(part, file)
    return file.data


async def with_bytes(
    messages: Sequence[Message], wanted: Callable[[FilePart], bool], fetcher: Fetcher, *, answers: bool = False
) -> Sequence[Message]:
    """The messages with the bytes in place of the address in every file that is `wanted`.

    Looks at the files of user messages and of tool results, and with `answers` at those of the model too; `wanted` is asked
    once about each that has an address. An address is fetched once, however often it is there. What needs no change is the
    same object as before, the list itself included. Raises what `file_bytes` raises, and then nothing goes on.
    """
    # By identity: a part is in one place or in several, and it is that very one which is replaced.
    parts = {id(part): part for message in messages for part in _files(message, answers)}
    keys = {ident: _key(p.url, p) for ident, p in parts.items() if p.url is not None and wanted(p)}
    if not keys:
        return messages
    files = await _get_all(list(dict.fromkeys(keys.values())), fetcher)
    filled = {ident: _filled(parts[ident], files[key]) for ident, key in keys.items()}
    return [_swapped(message, filled, answers) for message in messages]


def _files(message: Message, answers: bool) -> Iterable[FilePart]:
    items: Iterable[object] = ()
    match message:
        case UserMessage(content=content):
            items = content
        case ToolMessage(parts=parts):
            items = (item for part in parts for item in part.extra_content)
        case AssistantMessage(parts=parts) if answers:
            items = parts
        case _:
            pass
    return (item for item in items if isinstance(item, FilePart))


def _swapped(message: Message, filled: Mapping[int, FilePart], answers: bool) -> Message:
    match message:
        case UserMessage(content=content) if not isinstance(content, str):
            found = _each(content, filled)
            return message if found is content else replace(message, content=found)
        case ToolMessage(parts=parts):
            swapped = tuple(_swapped_return(part, filled) for part in parts)
            same = all(a is b for a, b in zip(swapped, parts, strict=True))
            return message if same else replace(message, parts=swapped)
        case AssistantMessage(parts=parts) if answers:
            kept = _each(parts, filled)
            return message if kept is parts else replace(message, parts=kept)
        case _:
            return message


def _swapped_return(part: ToolReturnPart, filled: Mapping[int, FilePart]) -> ToolReturnPart:
    found = _each(part.extra_content, filled)
    return part if found is part.extra_content else replace(part, extra_content=tuple(found))


def _each(items: Sequence[T], filled: Mapping[int, Any]) -> Sequence[T]:
    found = tuple(filled.get(id(item), item) for item in items)
    return items if all(a is b for a, b in zip(found, items, strict=True)) else found


def _key(url: str, part: FilePart) -> _Key:
    return url, (part.provider_details or {}).get('allow_local') is True


async def _get(key: _Key, fetcher: Fetcher) -> Fetched:
    url, local = key
    if not is_data_url(url):
        return await fetcher.fetch(url, allow_private=local)
    data = read_data_url(url)
    return Fetched(data, sniff(data) or GENERIC, url)


async def _get_all(keys: Sequence[_Key], fetcher: Fetcher) -> dict[_Key, Fetched]:
    if len(keys) > fetcher.max_files:
        raise FetchRefused(
            f'the messages hold {len(keys):,} addresses of files, more than {fetcher.max_files:,}; '
            'set Fetcher(max_files=...), or pass the bytes'
        )
    gate, room = asyncio.Semaphore(fetcher.at_once), fetcher.max_total_bytes

    async def get(key: _Key) -> Fetched:
        nonlocal room
        async with gate:
            file = await _get(key, fetcher)
        room -= len(file.data)
        if room < 0:
            raise FetchRefused(
                f'the files of the messages have more than {fetcher.max_total_bytes:,} bytes together; '
                'set Fetcher(max_total_bytes=...), or send fewer'
            )
        return file

    return dict(zip(keys, await _together([get(key) for key in keys]), strict=True))


async def _together(jobs: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order, or the first error; nothing goes on afterwards."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        # In order, so that of several errors always the same one is told; one that is still at work has not failed.
        return [task.result() for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _filled(part: FilePart, file: Fetched) -> FilePart:
    return replace(part, media_type=_type(part, file), data=file.data, url=None)


def _type(part: FilePart, file: Fetched) -> str:
    """The media type of a part that was fetched: what it said, made precise. Raises `FetchRefused` if it is no such file."""
    said, came = part.media_type.lower(), file.media_type
    kind, _, sub = came.partition('/')
    wanted = said.partition('/')[0]
    if said in ('*/*', GENERIC):
        return came
    if '*' not in said:
        if came in _PAGES and said not in _PAGES and not said.startswith('text/'):
            raise _no_such(part, came)
        return came if kind == wanted == 'image' else part.media_type
    if came == GENERIC:
        return part.media_type
    if kind == wanted:
        return came
    if kind in _SOUND_OR_FILM and wanted in _SOUND_OR_FILM:  # the same containers hold both
        return f'{wanted}/{sub}'
    raise _no_such(part, came)


def _no_such(part: FilePart, came: str) -> FetchRefused:
    where = shown(part.url or '')
    return FetchRefused(f'the file at {where} is of type {came}, not {part.media_type}; check the address', url=where)
