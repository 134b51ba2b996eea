"""A constrained model's text -> parts: the JSON it was held to, read as a tool call or an answer while it arrives."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from agent_graph.model import ResponseBuilder
from agent_graph_providers.local.prompt import Task
from agent_graph_providers.local.schemas import ANSWER, ARGUMENTS, TOOL

__all__ = ['Reply']

_ANSWER_BEGINS = re.compile(rf'\s*\{{\s*"{ANSWER}"\s*:\s*"')
_CALL_BEGINS = re.compile(rf'\s*\{{\s*"{TOOL}"\s*:\s*("(?:[^"\\]|\\.)*")\s*(?:,\s*"{ARGUMENTS}"\s*:\s*)?')
_CHARACTERS = re.compile(r'(?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*')
"""Of a JSON string's inside, as much as is complete."""

_HALF_PAIR = re.compile(r'\\u[dD][89abAB][0-9a-fA-F]{2}\Z')
"""The first half of a surrogate pair, whose second half may be still to come."""


class Reply:
    """One reply being received: `text` gets it piece by piece, `end` once it is complete or was cut off."""

    def __init__(self, task: Task, out: ResponseBuilder) -> None:
        self._task = task
        self._out = out
        self._read = ''
        self._answer: _StringReader | None = None
        self.called = False
        """A tool call has been pushed."""

    async def text(self, piece: str) -> None:
        """The next piece."""
        match self._task.kind:
            case 'text' | 'value':
                await self._out.text(piece)
            case 'call':
                name = '' if self.called else self._task.tools[0].name
                self.called = True
                await self._out.tool_call(0, name=name, args=piece)
            case 'choice':
                await self._choose(piece)

    async def end(self) -> None:
        """Push what could only be told at the end. Of a reply that was cut off, what there is of a call is kept as it is."""
        if self._task.kind != 'choice' or self._answer is not None or not self._read:
            return
        try:
            whole: Any = json.loads(self._read)
        except ValueError:
            await self._end_cut()
            return
        fields = cast(dict[str, Any], whole) if isinstance(whole, dict) else {}
        if ANSWER in fields:
            await self._out.text(json.dumps(fields[ANSWER], ensure_ascii=False))
        elif isinstance(name := fields.get(TOOL), str) and ARGUMENTS in fields:
            await self._call(name, json.dumps(fields[ARGUMENTS], ensure_ascii=False))
        else:  # JSON, but no choice: there was a schema that no grammar could follow
            await self._out.text(self._read)

    async def _choose(self, piece: str) -> None:
        if self._answer is not None:
            await self._out.text(self._answer.feed(piece))
            return
        self._read += piece
        if self._task.output is None and (begins := _ANSWER_BEGINS.match(self._read)):
            self._answer = _StringReader()
            await self._out.text(self._answer.feed(self._read[begins.end() :]))

    async def _end_cut(self) -> None:
        if begins := _CALL_BEGINS.match(self._read):
            await self._call(json.loads(begins[1]), self._read[begins.end() :])
        else:
            await self._out.text(self._read)

    async def _call(self, name: str, args: str) -> None:
        self.called = True
        await self._out.tool_call(0, name=name, args=args)


class _StringReader:
    """Decodes the inside of a JSON string that arrives in pieces, in time linear in its length."""

    def __init__(self) -> None:
        self._rest = ''
        self._closed = False

    def feed(self, piece: str) -> str:
        """The characters that are complete now; nothing more after the closing quote."""
        if self._closed:
            return ''
        raw = self._rest + piece
        found = _CHARACTERS.match(raw)
        assert found is not None  # the pattern takes the empty text as well
        end = found.end()
        self._closed = raw[end : end + 1] == '"'
        if not self._closed and (half := _HALF_PAIR.search(raw, 0, end)):
            end = half.start()
        self._rest = raw[end:]
        return json.loads(f'"{raw[:end]}"', strict=False)
