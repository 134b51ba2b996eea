"""Checking the arguments a model sent: `ArgumentsError`, `ArgumentChecker`, and the rules of what is understood.

Models are often nearly right. What a value can only have meant is accepted; what would be a guess is sent back with a
message the model can act on. The rules are the same for functions and for schemas from elsewhere, for every provider,
streamed or not, and at any depth:

| sent                                           | declared                     | what happens                       |
|------------------------------------------------|------------------------------|------------------------------------|
| `3.0` (a whole float up to 2**53)              | integer                      | 3                                  |
| `3.5`, a whole float beyond 2**53              | integer                      | refused                            |
| `NaN`, `Infinity`, `1e400`                     | anything                     | refused                            |
| an integer of any length                       | integer                      | kept exactly                       |
| `true`, `false`                                | integer, number              | refused                            |
| `1`, `"yes"`                                   | boolean                      | refused                            |
| `"[1, 2]"`, `"{}"`, `"3"`, `"true"`            | no string is allowed there   | the list, object, number, boolean  |
| `"[1, 2"`, `"three"`, `"null"`                 | no string is allowed there   | refused                            |
| `"[1, 2]"`                                     | string is (also) allowed     | the string as it is                |
| `5`                                            | string                       | refused                            |
| `null`                                         | optional, null not allowed   | as if not given: the default       |
| `null`                                         | required, null not allowed   | refused                            |
| date, time or duration in another form that    | date, time, duration         | read                               |
| pydantic reads (Unix time, seconds)            |                              |                                    |
| no text, white space                           | no parameter is required     | no arguments                       |
| a required argument is missing                 |                              | refused by name                    |
| an argument nobody declared                    |                              | refused by name                    |
| text that is not a JSON object                 |                              | refused; one inside a string is    |
|                                                |                              | unwrapped                          |
| the same key twice                             |                              | the last one counts                |
| `"\\ud83c\\udf78"`                             | string                       | the one character it spells        |
| half of such a pair                            | string                       | U+FFFD                             |
| JSON text that ends too early                  |                              | refused as `incomplete`            |
| nested deeper than 200 levels                  |                              | refused                            |

A schema from elsewhere that lists `properties` and says nothing about others allows no others at its top level.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, from_json, to_json

from agent_graph.errors import ArgumentsError
from agent_graph.text import clean_json, clean_text
from agent_graph.tools.fit import Fitter
from agent_graph.tools.keywords import place, show

__all__ = ['ArgumentChecker', 'ArgumentsError', 'JsonValidator', 'check_value', 'dump', 'holds_suspect_number']

_out_of_range: Callable[[str], Any] = re.compile(r'[0-9](?:[eE]\+?[0-9]{3}|[0-9]{200})').search

_MAX_LINES = 12

_MAX_DEPTH = 200  # where JSON parsers stop too

_LENIENT = frozenset({'date_type', 'date_parsing', 'datetime_type', 'time_type', 'time_delta_type'})
"""Strict pydantic reads one form of these only; the others it knows are no guess either."""


class JsonValidator(Protocol):
    """`validate_json` of a pydantic validator."""

    def __call__(self, text: str | bytes, *, strict: bool) -> Any: ...


def holds_suspect_number(text: str) -> bool:
    """Whether JSON text may hold a number that is not finite: pydantic would read those. Strings in it count as well."""
    return 'NaN' in text or 'Infinity' in text or _out_of_range(text) is not None


def check_value(adapter: TypeAdapter[Any], args: str | Mapping[str, Any]) -> Any:
    """A value of any type pydantic knows, from JSON text or an object, by the same rules. Raises `ArgumentsError`."""
    validate_json = cast('JsonValidator', adapter.validator.validate_json)
    text = args if isinstance(args, str) else dump(args)
    if text is not None and not holds_suspect_number(text):
        try:
            return validate_json(text, strict=True)
        except ValidationError:
            pass  # nearly right, or wrong: the careful way finds out
    return ArgumentChecker(Fitter(adapter.json_schema()), validate_json)(args)


def dump(args: Mapping[str, Any]) -> str | None:
    """The arguments as JSON text, numbers that are not finite included, or None when they have to be looked at first."""
    try:
        return to_json(args, inf_nan_mode='constants').decode()
    except PydanticSerializationError:  # half a surrogate pair, too deep, or not JSON data
        return None


@dataclass(frozen=True, slots=True)
class ArgumentChecker:
    """The careful way: reads, mends, checks and explains. `validate_json` is None for a schema from elsewhere."""

    fitter: Fitter
    validate_json: JsonValidator | None = None

    def __call__(self, args: str | Mapping[str, Any]) -> Any:
        """The checked arguments. Raises `ArgumentsError`."""
        data = _read(args) if isinstance(args, str) else clean_json(dict(args))
        _refuse(list(_no_json(data)))
        fitted, problems = self.fitter.fit(data)
        if self.validate_json is None:
            _refuse([str(problem) for problem in problems])
            return fitted
        _refuse([str(problem) for problem in problems if problem.kind == 'size'])
        return self._validated(fitted)

    def _validated(self, data: Any) -> Any:
        assert self.validate_json is not None
        try:
            text = to_json(data)
        except PydanticSerializationError as error:
            raise _error([f'it cannot be read as JSON data: {error}']) from None
        try:
            return self.validate_json(text, strict=True)
        except ValidationError as error:
            details = error.errors(include_url=False)
        if all(detail['type'] in _LENIENT for detail in details):
            try:
                return self.validate_json(text, strict=False)
            except ValidationError:
                pass  # the strict errors say it better
        raise _error([self._line(detail, data) for detail in details]) from None

    def _line(self, detail: ErrorDetails, data: Any) -> str:
        """One of pydantic's errors in our words."""
        path = _path(detail['loc'], data)
        where = f'{place(path)}: ' if path else ''
        kind = detail['type']
        if kind == 'missing':
            return f'{where}missing, it is required: expected {self._expected(path)}'
        if kind == 'extra_forbidden':
            names = ', '.join(self._node(path[:-1]).get('properties', {}))
            return f'{where}unknown name; ' + (f'allowed: {names}' if names else 'none is allowed here')
        if not path and kind == 'dict_type':
            return f'got {show(data)}, expected a JSON object of the arguments'
        hint = ''
        if kind == 'int_type' and isinstance(detail['input'], float):
            whole = detail['input'].is_integer()
            hint = '; send digits only, without a point or an exponent' if whole else '; send it without a fraction'
        return f'{where}got {show(detail["input"])}: {_sentence(detail["msg"])}{hint}'

    def _expected(self, path: tuple[str | int, ...]) -> str:
        return self.fitter.expected(self._node(path))

    def _node(self, path: tuple[str | int, ...]) -> dict[str, Any]:
        """The schema of the value at `path`, as far as it can be followed without choosing between alternatives."""
        node = self._target(self.fitter.schema)
        for step in path:
            held = node.get('items') if isinstance(step, int) else node.get('properties', {}).get(step)
            node = self._target(held)
        return node

    def _target(self, schema: Any) -> dict[str, Any]:
        """The schema itself, or what its `$ref` leads to; empty when there is nothing to look at."""
        while isinstance(schema, Mapping) and '$ref' in schema:
            schema = self.fitter.target(cast('dict[str, Any]', schema)['$ref'])
        return dict(cast('dict[str, Any]', schema)) if isinstance(schema, Mapping) else {}


def _sentence(message: str) -> str:
    """Pydantic's message in the middle of a line."""
    message = message.replace('Input should be', 'it should be', 1)
    return message[:1].lower() + message[1:]


def _refuse(lines: list[str]) -> None:
    if lines:
        raise _error(lines)


def _error(lines: list[str]) -> ArgumentsError:
    shown = [f'- {line}' for line in lines[:_MAX_LINES]]
    if len(lines) > _MAX_LINES:
        shown.append(f'- and {len(lines) - _MAX_LINES} more')
    return ArgumentsError('\n'.join(['What was sent cannot be used:', *shown, 'Correct this and try again.']))


def _read(text: str) -> Any:
    """The JSON value of the argument text."""
    if not text.strip():
        return {}
    text = clean_text(text)
    try:
        return from_json(text)
    except ValueError as error:
        first = error
    mended = _mend_escapes(text)
    try:
        if mended != text:
            return from_json(mended)
    except ValueError as error:
        first = error
    raise _unreadable(mended, str(first)) from None


_ESCAPE = re.compile(
    r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)', re.DOTALL
)


def _mend_escapes(text: str) -> str:
    """JSON text with the escape of a lone surrogate half replaced by that of U+FFFD."""
    return _ESCAPE.sub(lambda found: '\\ufffd' if found[1] else found[0], text)


def _unreadable(text: str, reason: str) -> ArgumentsError:
    if 'recursion limit' in reason:
        return ArgumentsError('The JSON text is nested too deeply. Send a simpler value.')
    if _is_cut(text, reason):
        return ArgumentsError(
            f'The JSON text is incomplete: it ends too early, after {len(text)} characters '
            f'({show(text[-40:])}). Send all of it again, or less at a time.',
            incomplete=True,
        )
    return ArgumentsError(f'This is not JSON ({reason}): {show(text, 300)}. Send one JSON object, and nothing else.')


def _is_cut(text: str, reason: str) -> bool:
    """Whether JSON text is right as far as it goes, but ends too early."""
    if 'trailing characters' in reason:
        return False
    try:
        from_json(text, allow_partial='trailing-strings')
    except ValueError as error:
        return 'EOF' in str(error)
    return True


def _no_json(data: Any) -> Iterator[str]:
    """What no JSON text could be read as here: numbers that are not finite, and too much depth, wherever it is."""
    todo: list[tuple[Any, tuple[str | int, ...]]] = [(data, ())]
    while todo:
        value, path = todo.pop()
        if len(path) > _MAX_DEPTH:
            yield 'it is nested too deeply; send a simpler value'
            return
        if isinstance(value, float):
            if not math.isfinite(value):
                yield f'{place(path)}: got {show(value)}, expected a finite number; send one in range'
        elif isinstance(value, dict):
            todo.extend((item, (*path, key)) for key, item in cast('dict[str, Any]', value).items())
        elif isinstance(value, list):
            todo.extend((item, (*path, index)) for index, item in enumerate(cast('list[Any]', value)))


def _path(loc: tuple[int | str, ...], data: Any) -> tuple[str | int, ...]:
    """Pydantic's location without the names of the alternatives it tried."""
    path: list[str | int] = []
    for index, step in enumerate(loc):
        last = index == len(loc) - 1
        if isinstance(data, dict):
            mapping = cast('dict[str | int, Any]', data)
            if step in mapping:
                data = mapping[step]
            elif not last or not isinstance(step, str) or '(' in step or '[' in step:
                continue
            path.append(step)
        elif isinstance(data, list) and isinstance(step, int) and 0 <= step < len(cast('list[Any]', data)):
            data = cast('list[Any]', data)[step]
            path.append(step)
    return tuple(path)
