"""Tool calls put together from streamed pieces, also from servers that number them badly.

The protocol's own way is the `index` of each piece. Real servers repeat one index for several calls, leave it out, give
the head one index and the tail another, send the id late, or repeat id and name in every piece. The rules here give the
calls such a server means; where a piece could belong to two calls, `ModelProtocolError` names them: arguments of two
calls are never joined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic_core import from_json

from agent_graph.errors import ModelProtocolError

__all__ = ['Args', 'Call', 'CallPieces']

Args: TypeAlias = str | dict[str, Any]
"""Argument text, or the object itself, as a few servers send it."""


class Call:
    """A call being received. `number` is its place in order of first appearance."""

    __slots__ = ('args', 'contested', 'extra', 'id', 'name', 'number', 'shown')

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ''
        self.name = ''
        self.args: list[Args] = []
        self.extra: Any = None
        self.contested = False
        """It took over the index of a call whose arguments were not whole: that index alone tells nothing now."""
        self.shown = False
        """It has been passed on."""

    @property
    def whole(self) -> bool:
        """Its arguments are a whole JSON document, so nothing more can belong to them."""
        text = ''
        for piece in self.args:
            if isinstance(piece, dict):
                return True
            text += piece
        try:
            from_json(text)
        except ValueError:
            return False
        return True

    def __str__(self) -> str:
        return f'{self.name or "(no name yet)"!r} (id {self.id!r})'


class CallPieces:
    """Finds the call each piece belongs to. `is_tool` tells names that are whole from beginnings of names."""

    __slots__ = ('_by_id', '_by_index', '_is_tool', 'calls')

    def __init__(self, is_tool: Callable[[str], bool]) -> None:
        self._is_tool = is_tool
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self.calls: list[Call] = []

    def take(self, index: int | None, call_id: str, name: str, args: Args) -> Call:
        """The call this piece belongs to, the piece taken into it; a new one when the piece begins a call.

        `''` stands for an id, a name or arguments that the piece lacks. Raises `ModelProtocolError` when the piece
        cannot be given to one call safely.
        """
        call = self._match(index, call_id, name, args) or self._begin(index)
        if call_id and not call.id:
            call.id = call_id
            self._by_id.setdefault(call_id, call)
        if name and name != call.name:
            call.name += name
        if args:
            call.args.append(args)
        return call

    def _begin(self, index: int | None) -> Call:
        call = Call(len(self.calls))
        self.calls.append(call)
        if index is not None:
            before = self._by_index.get(index)
            call.contested = before is not None and (before.contested or not before.whole)
            self._by_index[index] = call
        return call

    def _match(self, index: int | None, call_id: str, name: str, args: Args) -> Call | None:
        """The known call that a piece goes on with, or `None` if it begins one."""
        numbered = self._by_index.get(index) if index is not None else None
        if call_id:
            return self._match_id(index, numbered, call_id, name, args)
        if numbered is not None:
            if numbered.contested and not name and args:
                raise self._ambiguous(index, args)
            return self._same(numbered, name, args)
        if not name:
            return self._tail(index, args)
        return self._same(self.calls[-1], name, args) if index is None and self.calls else None

    def _match_id(self, index: int | None, numbered: Call | None, call_id: str, name: str, args: Args) -> Call | None:
        if numbered is not None and numbered.id in ('', call_id):
            return self._same(numbered, name, args)
        known = self._by_id.get(call_id)
        if known is not None:
            if numbered is None and index is not None:
                if name:
                    return None  # another call under an id that was used before
                self._by_index[index] = known
            return self._same(known, name, args)
        if name:
            last = self.calls[-1] if self.calls and index is None else None
            return self._same(last, name, args) if last is not None and not last.id else None
        if numbered is not None:
            return None if numbered.whole else numbered  # a new id in every piece of one call
        return self._tail(index, args) if index is None else None

    def _same(self, call: Call, name: str, args: Args) -> Call | None:
        """`call`, unless a piece addressed to it carries the head of another one."""
        if not name or not call.name:
            return call
        if name != call.name:
            return None if call.args or self._is_tool(call.name) else call  # else the name itself comes in pieces
        begins = isinstance(args, dict) or args.lstrip().startswith('{')
        return None if begins and call.args and call.whole else call

    def _tail(self, index: int | None, args: Args) -> Call | None:
        """The only call that can take more arguments, for a piece that names none."""
        if not args and self.calls:
            return self.calls[-1]
        waiting = [c for c in self.calls if not c.whole]
        if len(waiting) > 1:
            raise self._ambiguous(index, args)
        if waiting and index is not None:
            self._by_index[index] = waiting[0]
        return waiting[0] if waiting else None

    def _ambiguous(self, index: int | None, args: Args) -> ModelProtocolError:
        waiting = ', '.join(str(c) for c in self.calls if not c.whole)
        return ModelProtocolError(
            f'a piece of tool call arguments, {args!r} with index {index!r} and no id, could belong to more than one call: '
            f'{waiting}; none was executed. The server numbers its streamed calls wrongly: '
            'ask without streaming, or one call at a time (parallel_tool_calls=False)'
        )
