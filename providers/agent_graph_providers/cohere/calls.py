"""Tool calls of a stream: `tool-call-start`, pieces of arguments, `tool-call-end`, told apart by an index.

A start begins a call, whatever its index. Where the pieces that follow could belong to two calls, since one index was given
twice, `ModelProtocolError` names them: arguments of two calls are never joined.
"""

from __future__ import annotations

from pydantic_core import from_json

from agent_graph.errors import ModelProtocolError

__all__ = ['Calls']


class _Open:
    __slots__ = ('args', 'contested', 'number', 'over', 'what')

    def __init__(self, number: int, what: str) -> None:
        self.number = number
        self.what = what
        self.over = False
        self.args: list[str] = []
        self.contested: _Open | None = None
        """The call that had this index and had not ended."""

    @property
    def whole(self) -> bool:
        """Nothing more can belong to its arguments."""
        if self.over:
            return True
        try:
            from_json(''.join(self.args))
        except ValueError:
            return False
        return True


class Calls:
    """The numbers of calls, in order of first appearance."""

    __slots__ = ('_by_index', '_last', '_number')

    def __init__(self) -> None:
        self._by_index: dict[object, _Open] = {}
        self._last: _Open | None = None
        self._number = 0

    def start(self, index: object, name: str, call_id: str, args: str) -> int:
        """A call begins, with the arguments that come with its start."""
        begun = _Open(self._number, f'{name!r} (id {call_id!r})')
        begun.args.append(args)
        self._number += 1
        before = self._by_index.get(index)
        if before is not None and not before.whole:
            begun.contested = before
        self._by_index[index] = self._last = begun
        return begun.number

    def piece(self, index: object, args: str) -> int:
        """The call that a piece of arguments belongs to."""
        call = self._by_index.get(index) if index is not None else self._last
        if call is None or call.over:
            raise ModelProtocolError(
                f'a piece of tool call arguments, {args!r} with index {index!r}, belongs to no call that has begun; '
                'none was executed'
            )
        if call.contested is not None:
            raise ModelProtocolError(
                f'a piece of tool call arguments, {args!r} with index {index!r}, could belong to more than one call: '
                f'{call.contested.what}, {call.what}; none was executed. Ask without streaming'
            )
        call.args.append(args)
        return call.number

    def end(self, index: object) -> None:
        """A call is whole."""
        call = self._by_index.get(index) if index is not None else self._last
        if call is not None:
            call.over = True
