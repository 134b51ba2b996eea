"""Reads one published schema into legal keywords: the table of `agent_graph.tools.legal`, keyword by keyword."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

from agent_graph.errors import ToolDefinitionError
from agent_graph.text import clean_text
from agent_graph.tools.fit import Fitter
from agent_graph.tools.keywords import LISTS, MAPS, SINGLES, TYPES, pointer, refusal, show, types_of

__all__ = ['Reader']

_TYPE_WORDS: dict[str, str | None] = {
    **{word: word for word in TYPES},
    **dict.fromkeys('dict dictionary map hashmap hashtable treemap linkedhashmap struct record'.split(), 'object'),
    **dict.fromkeys('float double decimal bigdecimal real numeric'.split(), 'number'),
    **dict.fromkeys('int long short byte bigint biginteger'.split(), 'integer'),
    'bool': 'boolean',
    **dict.fromkeys('str char character text'.split(), 'string'),
    **dict.fromkeys('list tuple set arraylist linkedlist hashset vector sequence'.split(), 'array'),
    **dict.fromkeys('none nonetype nil'.split(), 'null'),
    'any': None,
}

_DROPPED = frozenset({'$schema', '$id', '$anchor', '$comment', '$vocabulary', 'components', '$defs', 'definitions'})
_REFUSED = frozenset({'$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor'})

_Raw: TypeAlias = 'Mapping[str, Any]'


class Reader:
    """Reads one published schema, collecting the definitions it comes across."""

    def __init__(self, raw: _Raw, tool_name: str) -> None:
        self.raw = raw
        self.tool_name = tool_name
        self.names: dict[tuple[str, ...], str] = {}
        self.pending: list[tuple[str, str, Any]] = []
        self.anchors: dict[str, tuple[str, ...]] | None = None

    def error(self, path: str, text: str) -> ToolDefinitionError:
        return refusal(self.tool_name, path, text)

    def definitions(self) -> dict[str, Any]:
        """Every definition that was referred to, directly or by another one."""
        out: dict[str, Any] = {}
        while self.pending:
            name, path, raw = self.pending.pop(0)
            out[name] = self.schema(raw, path)
        return out

    def schema(self, raw: Any, path: str) -> dict[str, Any] | bool:
        return raw if isinstance(raw, bool) else self.read(raw, path)

    def read(self, raw: Any, path: str) -> dict[str, Any]:
        if not isinstance(raw, Mapping):
            raise self.error(path, f'{show(raw)} is not a schema; write an object, or true or false')
        out: dict[str, Any] = {}
        for keyword, held in cast('_Raw', raw).items():
            if keyword in _REFUSED:
                raise self.error(_join(path, keyword), 'dynamic references are not supported; use $ref')
            if keyword in _DROPPED or (held is None and keyword not in ('const', 'default')):
                continue
            self.keyword(out, keyword, held, _join(path, keyword))
        return self.settle(out, cast('_Raw', raw), path)

    def keyword(self, out: dict[str, Any], keyword: str, held: Any, path: str) -> None:
        read = _READERS.get(keyword)
        if read is not None:
            read(self, out, held, path)
        elif keyword in SINGLES:
            out[keyword] = self.schema(held, path)
        elif keyword in LISTS:
            out[keyword] = self.schemas(held, path)
        elif keyword in MAPS:
            out[keyword] = self.named(held, path)
        else:
            self.plain(out, keyword, held, path)

    def schemas(self, held: Any, path: str) -> list[Any]:
        if not isinstance(held, (list, tuple)) or not held:
            raise self.error(path, f'{show(held)} is not a list of schemas')
        return [self.schema(item, f'{path}/{index}') for index, item in enumerate(cast('list[Any]', held))]

    def named(self, held: Any, path: str) -> dict[str, Any]:
        if not isinstance(held, Mapping):
            raise self.error(path, f'{show(held)} is not an object of schemas by name')
        named = cast('_Raw', held)
        return {clean_text(name): self.schema(item, _join(path, name)) for name, item in named.items()}

    def plain(self, out: dict[str, Any], keyword: str, held: Any, path: str) -> None:
        """A keyword without schemas in it: its value has one of the standard's types, or it is an extension."""
        rule = _PLAIN.get(keyword)
        if rule is not None and not rule[0](held):
            raise self.error(path, f'{show(held)} is not {rule[1]}')
        out[keyword] = _copy(held)

    def type(self, out: dict[str, Any], held: Any, path: str) -> None:
        words = cast('list[Any]', held) if isinstance(held, (list, tuple)) else [held]
        read: list[str] = []
        for word in words:
            key = word.strip().lower() if isinstance(word, str) else None
            if key not in _TYPE_WORDS:
                raise self.error(path, f'{show(word)} is no JSON type; use one of {", ".join(TYPES)}')
            known = _TYPE_WORDS[key]
            if known is None:  # any: then the others say nothing either
                return
            if known not in read:
                read.append(known)
        if not read:
            raise self.error(path, 'the list of types is empty; leave `type` out to allow any value')
        out['type'] = read if isinstance(held, (list, tuple)) else read[0]

    def ref(self, out: dict[str, Any], held: Any, path: str) -> None:
        if not isinstance(held, str):
            raise self.error(path, f'{show(held)} is not a reference; write "#/$defs/NAME"')
        out['$ref'] = f'#/$defs/{self.definition(held, path)}'

    def definition(self, ref: str, path: str) -> str:
        """The name of the definition `ref` leads to, noted for reading when it is new."""
        own = self.raw.get('$id')
        base, _, fragment = ref.partition('#')
        if base and base != own:
            raise self.error(
                path, f'{ref!r} lies outside the schema; put the definition under $defs and refer to it there'
            )
        tokens = self.tokens(unquote(fragment), path)
        if tokens in self.names:
            return self.names[tokens]
        target: Any = self.raw
        for token in tokens:
            target = _step(target, token)
        if not isinstance(target, (Mapping, bool)):
            raise self.error(path, f'{ref!r} leads to no schema; add the definition or correct the reference')
        name = self.names[tokens] = self.fresh_name(tokens)
        self.pending.append((name, pointer(*tokens), cast('Any', target)))
        return name

    def tokens(self, fragment: str, path: str) -> tuple[str, ...]:
        if not fragment:
            return ()
        if fragment.startswith('/'):
            return tuple(t.replace('~1', '/').replace('~0', '~') for t in fragment[1:].split('/'))
        if self.anchors is None:
            self.anchors = _anchors(self.raw)
        if fragment not in self.anchors:
            raise self.error(path, f'no $anchor is called {fragment!r}; correct the reference')
        return self.anchors[fragment]

    def fresh_name(self, tokens: tuple[str, ...]) -> str:
        words = tokens[-2:] if tokens and tokens[-1].isdigit() else tokens[-1:]
        wanted = name = re.sub(r'[^A-Za-z0-9_.-]', '_', '_'.join(words)) or 'root'
        taken, number = set(self.names.values()), 1
        while name in taken:
            number += 1
            name = f'{wanted}_{number}'
        return name

    def enum(self, out: dict[str, Any], held: Any, path: str) -> None:
        if not isinstance(held, (list, tuple)):
            raise self.error(path, f'{show(held)} is not a list of values')
        if held:
            out['enum'] = _copy(held)

    def required(self, out: dict[str, Any], held: Any, path: str) -> None:
        if isinstance(held, bool):  # of draft 3: it belongs to the parent, see `settle`
            return
        if not isinstance(held, (list, tuple)) or not all(isinstance(name, str) for name in cast('list[Any]', held)):
            raise self.error(path, f'{show(held)} is not a list of property names')
        out['required'] = list(dict.fromkeys(clean_text(name) for name in cast('list[str]', held)))

    def items(self, out: dict[str, Any], held: Any, path: str) -> None:
        if isinstance(held, (list, tuple)):
            if held:
                out['prefixItems'] = self.schemas(held, path)
        else:
            out['items'] = self.schema(held, path)

    def dependencies(self, out: dict[str, Any], held: Any, path: str) -> None:
        if not isinstance(held, Mapping):
            raise self.error(path, f'{show(held)} is not an object')
        for name, item in cast('_Raw', held).items():
            if _is_names_by_name({name: item}):
                out.setdefault('dependentRequired', {})[name] = _copy(item)
            else:
                out.setdefault('dependentSchemas', {})[name] = self.schema(item, _join(path, name))

    def bound(self, out: dict[str, Any], held: Any, path: str) -> None:
        keyword = path.rpartition('/')[2]
        if isinstance(held, bool):  # of draft 4: it says how to read the plain bound, see `settle`
            return
        if not _is_number(held):
            raise self.error(path, f'{show(held)} is not a number')
        out[keyword] = held

    def ignore(self, out: dict[str, Any], held: Any, path: str) -> None:
        """Read in `settle`, together with its neighbours."""

    def settle(self, out: dict[str, Any], raw: _Raw, path: str) -> dict[str, Any]:
        """What can only be read with the neighbouring keywords in view."""
        for plain in ('minimum', 'maximum'):
            exclusive = f'exclusive{plain.capitalize()}'
            if raw.get(exclusive) is True and plain in out:
                out[exclusive] = out.pop(plain)
        if isinstance(raw.get('items'), (list, tuple)) and raw.get('additionalItems') is not None:
            out['items'] = self.schema(raw['additionalItems'], _join(path, 'additionalItems'))
        self.hoist_required(out, raw)
        _move_enum(out)
        _fit_enum(out)
        return _nullable(out) if raw.get('nullable') is True else out

    def hoist_required(self, out: dict[str, Any], raw: _Raw) -> None:
        properties = raw.get('properties')
        if not isinstance(properties, Mapping):
            return
        for name, item in cast('_Raw', properties).items():
            if isinstance(item, Mapping) and cast('_Raw', item).get('required') is True:
                required = cast('list[str]', out.setdefault('required', []))
                if name not in required:
                    required.append(name)


_READERS: dict[str, Callable[[Reader, dict[str, Any], Any, str], None]] = {
    'type': Reader.type,
    '$ref': Reader.ref,
    'enum': Reader.enum,
    'required': Reader.required,
    'items': Reader.items,
    'dependencies': Reader.dependencies,
    'exclusiveMinimum': Reader.bound,
    'exclusiveMaximum': Reader.bound,
    'additionalItems': Reader.ignore,
    'nullable': Reader.ignore,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_names_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in cast('list[Any]', names))
        for names in cast('_Raw', value).values()
    )


_PLAIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(('minimum', 'maximum'), (_is_number, 'a number')),
    'multipleOf': (lambda value: _is_number(value) and value > 0, 'a number above 0'),
    **dict.fromkeys(
        'minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains'.split(),
        (_is_count, 'a whole number of 0 or more'),
    ),
    **dict.fromkeys(
        'title description pattern format contentEncoding contentMediaType'.split(), (_is_text, 'a string')
    ),
    **dict.fromkeys(
        'uniqueItems deprecated readOnly writeOnly'.split(), (lambda value: isinstance(value, bool), 'true or false')
    ),
    'examples': (lambda value: isinstance(value, (list, tuple)), 'a list'),
    'dependentRequired': (_is_names_by_name, 'an object of lists of property names'),
}
"""Keywords without schemas inside: what their value must be, and how to say so."""


def _join(path: str, token: str) -> str:
    """`path` with one more token."""
    return path + pointer(token)


def _copy(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(key): _copy(item) for key, item in cast('_Raw', value).items()}
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in cast('list[Any]', value)]
    return value


def _step(target: Any, token: str) -> Any:
    if isinstance(target, Mapping):
        return cast('_Raw', target).get(token)
    if isinstance(target, (list, tuple)) and token.isdigit():
        items = cast('list[Any]', target)
        return items[int(token)] if int(token) < len(items) else None
    return None


def _anchors(raw: _Raw) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    todo: list[tuple[Any, tuple[str, ...]]] = [(raw, ())]
    while todo:
        value, tokens = todo.pop()
        if isinstance(value, Mapping):
            mapping = cast('_Raw', value)
            if isinstance(anchor := mapping.get('$anchor'), str):
                found[anchor] = tokens
            todo.extend((item, (*tokens, key)) for key, item in mapping.items())
        elif isinstance(value, (list, tuple)):
            todo.extend((item, (*tokens, str(index))) for index, item in enumerate(cast('list[Any]', value)))
    return found


def _move_enum(out: dict[str, Any]) -> None:
    """An `enum` of single values on an array was meant for its items; as it stands, no array could satisfy it."""
    if out.get('type') != 'array' or not isinstance(out.get('items', {}), dict) or 'prefixItems' in out:
        return
    if 'enum' in out and not any(isinstance(value, list) for value in out['enum']):
        items: dict[str, Any] = out.setdefault('items', {})
        items.setdefault('enum', out.pop('enum'))
        out.pop('enum', None)


def _fit_enum(out: dict[str, Any]) -> None:
    """An `enum` nothing of the declared type is in was meant by its values, or by what they spell."""
    types = types_of(out)
    if not types or 'enum' not in out:
        return
    checker = Fitter({'type': list(types)})
    if not any(map(checker.accepts, out['enum'])):
        spelled = [checker.fit(value)[0] for value in out['enum']]
        if all(map(checker.accepts, spelled)):
            out['enum'] = spelled
        else:
            del out['type']


def _nullable(out: dict[str, Any]) -> dict[str, Any]:
    types = types_of(out)
    if types:
        if 'null' not in types:
            out['type'] = [*types, 'null']
        if 'enum' in out and None not in out['enum']:
            out['enum'].append(None)
        return out
    if not out.keys() & {'$ref', 'allOf', 'anyOf', 'oneOf', 'enum', 'const', 'not'}:
        return out  # any value, null among them
    outer = {key: out.pop(key) for key in ('title', 'description', 'default') if key in out}
    return {'anyOf': [out, {'type': 'null'}], **outer}
