"""Arguments of a function call that come in pieces, each with the JSON path of what it belongs to.

Vertex sends them so when asked to (`streamFunctionCallArguments`): a name with `willContinue`, pieces of values, and an
empty call at the end. Arguments are a value only when that end has come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias, cast

from agent_graph.text import clean_json

__all__ = ['PartialCall']

_Key: TypeAlias = str | int

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]'"*]+)|\[(?P<index>\d{1,9})\]|\[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]""",
    re.DOTALL,
)
_ESCAPES = {'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}
_DEEPEST = 100


class PartialCall:
    """One call being received; `name`, `id` and `extra` as its first piece had them."""

    __slots__ = ('_args', '_texts', 'extra', 'id', 'name')

    def __init__(self, name: str, call_id: str, extra: dict[str, Any]) -> None:
        self.name = name
        self.id = call_id
        self.extra = extra
        self._args: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        """The strings still being received, by path."""

    @property
    def args(self) -> dict[str, Any]:
        """What has come so far."""
        for path in list(self._texts):
            self._settle(path)
        return clean_json(self._args)

    def take(self, pieces: Any) -> None:
        """Take in `partialArgs`. Raises `ValueError` for a piece that has no place in an object."""
        for piece in cast(list[Any], pieces) if isinstance(pieces, list) else ():
            if not isinstance(piece, dict):
                raise ValueError(f'{piece!r} is no piece of arguments')
            self._take(cast(dict[str, Any], piece))

    def whole(self, args: Any) -> None:
        """Take in arguments that came at once after all."""
        if isinstance(args, dict):
            self._args.update(cast(dict[str, Any], args))

    def _take(self, piece: Mapping[str, Any]) -> None:
        path = piece.get('jsonPath')
        if not isinstance(path, str):
            raise ValueError(f'a piece of arguments is for the place {path!r}')
        text = piece.get('stringValue')
        if isinstance(text, str):
            texts = self._texts.get(path)
            if texts is None:
                self._put(path, text)  # in its place and order now, in full when it ends
                texts = self._texts[path] = []
            texts.append(text)
            if not piece.get('willContinue'):
                self._settle(path)
            return
        for key in ('numberValue', 'boolValue', 'nullValue'):
            if key in piece:
                self._put(path, None if key == 'nullValue' else piece[key])

    def _settle(self, path: str) -> None:
        self._put(path, ''.join(self._texts.pop(path)))

    def _put(self, path: str, value: Any) -> None:
        keys = _keys(path)
        holder: Any = self._args
        for key, following in pairwise(keys):
            holder = _within(holder, key, path, [] if isinstance(following, int) else {})
        _within(holder, keys[-1], path, value, replace=True)


def _within(holder: Any, key: _Key, path: str, new: Any, *, replace: bool = False) -> Any:
    """What `holder` has under `key`, made of `new` where it has nothing yet."""
    if isinstance(holder, dict) and isinstance(key, str):
        fields = cast(dict[str, Any], holder)
        if replace or key not in fields:
            fields[key] = new
        return fields[key]
    if isinstance(holder, list) and isinstance(key, int):
        items = cast(list[Any], holder)
        if key < len(items):
            if replace:
                items[key] = new
            return items[key]
        if key == len(items):
            items.append(new)
            return new
    raise ValueError(f'there is no place {path!r} in the arguments received so far')


def _keys(path: str) -> list[_Key]:
    """The steps of a JSON path such as `$.a[0]['b c']`."""
    keys: list[_Key] = []
    at = 1
    while path[:1] == '$' and at < len(path) and len(keys) < _DEEPEST and (step := _STEP.match(path, at)) is not None:
        at = step.end()
        keys.append(_key(step))
    if at != len(path) or not keys:
        raise ValueError(f'{path!r} is no path to one place')
    return keys


def _key(step: re.Match[str]) -> _Key:
    if step['index'] is not None:
        return int(step['index'])
    if step['name'] is not None:
        return step['name']
    return re.sub(r'\\(u[0-9a-fA-F]{4}|.)', _unescaped, step['quoted'][1:-1], flags=re.DOTALL)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)
