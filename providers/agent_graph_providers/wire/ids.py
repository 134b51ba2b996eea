"""Ids of tool calls that are there once in a request, whatever history it is made of.

Histories from elsewhere repeat ids, or have none. Servers refuse that, or pair the wrong ones. The second call of an id
gets another one, and so does its result; what is given is the same in every request of a run, as the order is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

__all__ = ['UniqueIds', 'digest_of', 'made_of', 'paired', 'renaming']


def digest_of(text: str, length: int = 32) -> str:
    """Hex digits made of a text, the same every time."""
    return sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:length]


def made_of(text: str) -> str:
    """An id as most servers take it."""
    return f'call_{digest_of(text)}'


class UniqueIds:
    """The ids of one request, taken turn by turn; `make` gives an id for a text that names it."""

    __slots__ = ('_make', '_seen')

    def __init__(self, make: Callable[[str], str] = made_of) -> None:
        self._make = make
        self._seen: set[str] = set()

    def take(self, ids: Sequence[str]) -> list[str]:
        """The ids for the calls of one turn: those given, but for what is empty or was there before."""
        return [self._fresh(call_id) for call_id in ids]

    def _fresh(self, call_id: str) -> str:
        made, count = call_id, 1
        while not made or made in self._seen:
            count += 1
            made = self._make(f'{call_id} {count}')
        self._seen.add(made)
        return made


def renaming(ids: Sequence[str], fresh: Sequence[str]) -> Callable[[str], str]:
    """What to call the results of these calls: the n-th result of an id belongs to its n-th call."""
    waiting: dict[str, list[str]] = {}
    for old, new in zip(ids, fresh, strict=True):
        waiting.setdefault(old, []).append(new)

    def rename(call_id: str) -> str:
        left = waiting.get(call_id)
        return left.pop(0) if left else call_id

    return rename


def paired(entries: Iterable[dict[str, Any]], make: Callable[[str], str] = made_of) -> list[dict[str, Any]]:
    """Messages in the notation of Chat Completions, each id of a call there once. The dicts given are not changed."""
    out: list[dict[str, Any]] = []
    unique, rename = UniqueIds(make), None
    for entry in entries:
        if 'tool_calls' in entry:
            ids = [call['id'] for call in entry['tool_calls']]
            fresh = unique.take(ids)
            rename = renaming(ids, fresh) if fresh != ids else None
            if rename is not None:
                calls = [{**call, 'id': new} for call, new in zip(entry['tool_calls'], fresh, strict=True)]
                entry = {**entry, 'tool_calls': calls}
        elif rename is not None and entry['role'] == 'tool':
            entry = {**entry, 'tool_call_id': rename(entry['tool_call_id'])}
        out.append(entry)
    return out
