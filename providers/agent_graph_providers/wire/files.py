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
        self,
        messages: Sequence[Message],
        wanted: Callable[[FilePart], bool],
        fetcher: Fetcher | None,
        server: Callable[[], str],
    ) -> Sequence[Message]:
        """The history with the bytes of `wanted` files in it; `messages` itself where there are none.

        `server` says where these messages are sent: a server elsewhere cannot fetch files of a local network, so those are
        fetched here, which raises `FetchRefused` unless that is allowed.
        """
        wanted = _or_local(wanted, server)
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


def _or_local(wanted: Callable[[FilePart], bool], server: Callable[[], str]) -> Callable[[FilePart], bool]:
    """Also what is in a local network, said to be or seen to be: no provider elsewhere can reach that."""

    def also(file: FilePart) -> bool:
        url = file.url or ''
        if not url.startswith('data:') and (file.provider_details or {}).get('allow_local') is True:
            return True
        return wanted(file) or (url[:5].lower().startswith('http') and _is_out_of_reach(url, server))

    return also


def _is_out_of_reach(url: str, server: Callable[[], str]) -> bool:
    from agent_graph_providers.fetch.reach import is_at_hand, reach_of  # not before there is a need

    reach = reach_of(url)
    return reach == 'never' or (reach == 'local' and not is_at_hand(server()))


def _wants(message: Message, wanted: Callable[[FilePart], bool]) -> bool:
    return any(file.url is not None and wanted(file) for file in _files(message))


def _files(message: Message) -> Iterator[FilePart]:
    if message.kind == 'user' and not isinstance(message.content, str):
        yield from (item for item in message.content if isinstance(item, FilePart))
    elif message.kind == 'tool':
        for part in message.parts:
            yield from (item for item in part.extra_content if isinstance(item, FilePart))
