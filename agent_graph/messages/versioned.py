"""JSON of registered types with a format number in every document: what is written can be read, exactly, or is refused.

`VersionedJson(kind)` writes and reads one frozen dataclass whose field `v` is the format's number. Only the types that
dataclass names are ever built; unknown kinds, fields and versions are errors, and nothing in a
document can name a type. Every value is read back and compared while it is written, so data that JSON cannot hold (a
date, a tuple inside tool content, NaN) is found before it is stored, not when it is needed again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from agent_graph.errors import AgentGraphError, CodecError
from agent_graph.messages.parts import JsonValue

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer, SchemaValidator

__all__ = ['MAX_BYTES', 'Document', 'Upgrade', 'Versioned', 'VersionedJson', 'difference', 'shorten']

MAX_BYTES = 256 * 1024 * 1024
"""No document may be longer. Nesting is bounded by the parser, to about 190 levels below a document's own fields."""

Document: TypeAlias = dict[str, JsonValue]

Upgrade: TypeAlias = Callable[[Document], Document]
"""Turns a document of one format number into the next one's; `v` is set by the codec."""


class Versioned(Protocol):
    """What can be written: a dataclass with the format's number in `v`."""

    @property
    def v(self) -> int: ...


T = TypeVar('T', bound=Versioned)

_PLAIN = (str, int, float, bytes, dict, list, tuple, Decimal, type(None))


class VersionedJson(Generic[T]):
    """Writes and reads the dataclass `document`; `name` is what error messages call it.

    `upgrades[n]` turns a document of format `n` into format `n + 1`, for every released `n` below the present one.
    """

    def __init__(
        self,
        document: type[T],
        *,
        name: str,
        version: int = 1,
        upgrades: Mapping[int, Upgrade] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._document = document
        self._name = name
        self._version = version
        self._upgrades = upgrades or {}
        self._max_bytes = max_bytes

    @cached_property
    def _tools(self) -> tuple[SchemaValidator, SchemaSerializer]:
        # Built at first use: the schema costs some milliseconds, and a run in memory never needs it.
        return _build(self._document)

    def dump(self, value: T) -> bytes:
        """`value` as UTF-8 JSON; raises `CodecError` naming the place that JSON cannot hold exactly."""
        validator, serializer = self._tools
        try:
            data = serializer.to_json(value, exclude_defaults=True, warnings='error')
        except Exception as error:  # not only pydantic's: a foreign object's own methods may be called
            raise self._unfit(_oddity(value) or str(error)) from error
        self._check_size(data)
        try:
            back = validator.validate_json(data)
        except (ValueError, AgentGraphError) as error:
            raise self._unfit(_first(error)) from error
        if not _same(value, back):
            raise self._unfit(difference(value, back))
        return data

    def load(self, data: bytes | str) -> T:
        """The value in `data`; raises `CodecError`, and builds nothing, if that is of an unknown form or damaged."""
        self._check_size(data)
        if _may_hold_nan(data):
            self._parse(data)
        try:
            value = self._tools[0].validate_json(data)
        except (ValueError, AgentGraphError) as error:
            return self._load_other(data, error)
        return value if value.v == self._version else self._load_other(data)

    def _load_other(self, data: bytes | str, error: Exception | None = None) -> T:
        """Read an older format, or say why `data` cannot be read; `error` is what the present format's reader said."""
        document = self._parse(data)
        version = document.get('v')
        if version.__class__ is not int:
            raise CodecError(f'{self._name} has the format number {version!r}, expected an integer; it is not ours')
        version = cast(int, version)
        if version > self._version:
            raise CodecError(
                f'{self._name} is of format {version!r}, this version of agent_graph reads up to {self._version}; '
                'upgrade agent_graph'
            )
        if error is not None and version == self._version:
            raise CodecError(f'{self._name} cannot be read: {_first(error)}') from error
        return self._upgraded(document, version)

    def _upgraded(self, document: Document, version: int) -> T:
        from pydantic_core import to_json

        while version < self._version:
            if version not in self._upgrades:
                raise CodecError(f'{self._name} is of format {version!r}, which agent_graph never wrote')
            try:
                document = {**self._upgrades[version](document), 'v': version + 1}
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise CodecError(f'{self._name} of format {version!r} is damaged: {error!r}') from error
            version += 1
        return self.load(to_json(document))

    def _parse(self, data: bytes | str) -> Document:
        from pydantic_core import from_json

        try:
            document = from_json(data, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            raise CodecError(f'{self._name} is not JSON: {error}; it begins with {shorten(data)}') from error
        if not isinstance(document, dict):
            raise CodecError(f'{self._name} is not a JSON object: {shorten(document)}')
        return cast(Document, document)

    def _check_size(self, data: bytes | str) -> None:
        if len(data) > self._max_bytes:
            raise CodecError(f'{self._name} is {len(data)} bytes long, more than {self._max_bytes}; keep it elsewhere')

    def _unfit(self, reason: str) -> CodecError:
        return CodecError(
            f'{self._name} cannot be stored: {reason}; give JSON data (dict with text keys, list, str, int, finite float, '
            'bool, None) nested less than about 190 levels'
        )


def _may_hold_nan(data: bytes | str) -> bool:
    # These are not JSON, but the validator's parser takes them; most documents hold neither word, so none is parsed twice.
    if isinstance(data, str):
        return 'NaN' in data or 'Infinity' in data
    return b'NaN' in data or b'Infinity' in data


def shorten(value: object, limit: int = 80) -> str:
    """`repr(value)`, cut to `limit` characters, for error messages."""
    text = repr(value[:limit] if isinstance(value, bytes | str) else value)
    return text if len(text) <= limit else text[: limit - 3] + '...'


def difference(value: object, back: object, path: str = '') -> str:
    """Where `value` and what was read back differ first, in words: for the message of a refused value."""
    mine, others = _parts(value), _parts(back)
    if type(value) is type(back) and mine.keys() == others.keys():
        for step, part in mine.items():
            if not _same(part, others[step]):
                return difference(part, others[step], path + step)
    return f'{path.lstrip(".") or "it"} is {shorten(value)} ({type(value).__name__}) and would be read back as {shorten(back)}'


def _parts(value: Any) -> dict[str, object]:
    """What is directly inside `value`, by the text that leads to it."""
    if dataclasses.is_dataclass(value):
        return {f'.{f.name}': getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {f'[{k!r}]': v for k, v in cast('dict[object, object]', value).items()}
    if isinstance(value, list | tuple):
        return {f'[{i}]': v for i, v in enumerate(cast('Sequence[object]', value))}
    return {}


def _oddity(value: object, path: str = '') -> str:
    """The first thing inside `value` that is not data, in words; `''` if there is none, or no end of it."""
    try:
        for step, part in _parts(value).items():
            if found := _oddity(part, path + step):
                return found
    except RecursionError:
        return ''
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f'{path.lstrip(".")} is not valid text: {error}'
    description = f'{path.lstrip(".")} is {shorten(value)} ({type(value).__name__}), not JSON data'
    return '' if isinstance(value, _PLAIN) or dataclasses.is_dataclass(value) else description


def _same(value: object, back: object) -> bool:
    try:
        return bool(value == back)
    except Exception:  # a foreign __eq__ may raise anything: then this is not JSON data
        return False


def _first(error: Exception) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False)[0]
    place = '.'.join(str(step) for step in found['loc'])
    return f'{found["msg"]} at {place or "the top"}, found {shorten(found["input"])}'


def _build(document: type[Any]) -> tuple[SchemaValidator, SchemaSerializer]:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_core import SchemaSerializer, SchemaValidator
    from pydantic_core.core_schema import CoreConfig

    rules = ConfigDict(strict=True, extra='forbid', ser_json_bytes='base64', val_json_bytes='base64')
    # pydantic takes no config for a dataclass itself; the one-tuple carries it down, and is taken off again below.
    carrier: Any = GenericAlias(tuple, (document,))
    whole: Any = TypeAdapter[Any](carrier, config=rules).core_schema
    schema = _lean(_unwrap(whole))
    core = CoreConfig(ser_json_bytes='base64', val_json_bytes='base64')
    return SchemaValidator(schema, core), SchemaSerializer(schema, core)


def _unwrap(schema: dict[str, Any]) -> dict[str, Any]:
    if schema['type'] == 'definitions':
        return {**schema, 'schema': _unwrap(schema['schema'])}
    return schema['items_schema'][0]


def _lean(node: Any) -> Any:
    """The same schema, for short documents, made fast.

    Tags come first and are always written, other defaults are left out. A default is shared:
    it is frozen, and pydantic would copy deeply what cannot be hashed.
    Untyped JSON is written as it is and not by pydantic's rule for each value, and a `Sequence`, which our data keep as
    a tuple, is a tuple; what that lets through is caught when the document is read back.
    """
    if isinstance(node, list):
        return [_lean(n) for n in cast('list[Any]', node)]
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {k: _lean(v) for k, v in cast('dict[str, Any]', node).items()}
    if out.get('type') == 'dataclass' and 'fields' in out:
        _tag_first(out)
    elif out.get('type') == 'default' and not _hashable(out.get('default')):
        out |= {'default_factory': partial(_itself, out.pop('default')), 'default_factory_takes_data': False}
    elif out.get('type') == 'json-or-python':
        return _plain(out)
    return out


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _itself(value: Any) -> Any:
    return value


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    inner = schema['json_schema']
    if inner['type'] == 'any':
        return {'type': 'any', **{k: schema[k] for k in ('ref',) if k in schema}}
    if inner['type'] == 'list':
        return {'type': 'tuple', 'items_schema': [inner['items_schema']], 'variadic_item_index': 0}
    return schema


def _tag_first(schema: dict[str, Any]) -> None:
    schema['fields'] = sorted(schema['fields'], key=lambda name: name != 'kind')
    fields = schema['schema']['fields']
    for f in fields:
        if f['name'] == 'kind' and f['schema']['type'] == 'default':
            f['schema'] = f['schema']['schema']  # no default: so `exclude_defaults` keeps it, and reading demands it
    schema['schema']['fields'] = sorted(fields, key=lambda f: f['name'] != 'kind')
