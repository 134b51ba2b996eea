"""Files in a history whose bytes have to be fetched before they can be sent: each once a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agent_graph.messages import FilePart, Message

if TYPE_CHECKING:
    from agent_graph_providers.fetch import Fetcher

__all__ = ['Files', 'files_of']


class Files:
    """What one run has fetched, by message."""

    __slots__ = ('_kept',)

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Message, Message]] = {}
        """Messages with addresses and the same with bytes; the former are kept so that no id is used again."""

    async def fetched(
        self, messages: Sequence[Message], wanted: Callable[[FilePart], bool], fetcher: Fetcher | None
    ) -> Sequence[Message]:
        """The history with the bytes of `wanted` files in it; `messages` itself where there are none."""
        wanted = _or_local(wanted)
        places = [i for i, m in enumerate(messages) if (m.kind == 'user' or m.kind == 'tool') and _wants(m, wanted)]
        if not places:
            return messages
        out, new = list(messages), [i for i in places if id(messages[i]) not in self._kept]
        if new:
            from agent_graph_providers.fetch import Fetcher, with_bytes  # not before there is a need

            found = await with_bytes([messages[i] for i in new], wanted, fetcher or Fetcher())
            self._kept.update((id(messages[i]), (messages[i], m)) for i, m in zip(new, found, strict=True))
        for i in places:
            out[i] = self._kept[id(messages[i])][1]
        return out


def files_of(scratch: dict[Any, Any], owner: object) -> Files:
    """This run's files for this model."""
    key = (Files, id(owner))
    files = scratch.get(key)
    if files is None:
        files = scratch[key] = Files()
    return files


def _or_local(wanted: Callable[[FilePart], bool]) -> Callable[[FilePart], bool]:
    """Also what was said to be in a local network: no provider can reach that."""
    return lambda file: (
        ((file.provider_details or {}).get('allow_local') is True and not (file.url or '').startswith('data:'))
        or wanted(file)
    )


def _wants(message: Message, wanted: Callable[[FilePart], bool]) -> bool:
    return any(file.url is not None and wanted(file) for file in _files(message))


def _files(message: Message) -> Iterator[FilePart]:
    if message.kind == 'user' and not isinstance(message.content, str):
        yield from (item for item in message.content if isinstance(item, FilePart))
    elif message.kind == 'tool':
        for part in message.parts:
            yield from (item for item in part.extra_content if isinstance(item, FilePart))
