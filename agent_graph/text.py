"""Text that can be encoded: surrogate halves are joined or replaced where text comes in, so nothing fails later.

Half of an emoji (a lone UTF-16 surrogate) is a legal piece of a Python string and of a JSON escape, but cannot be sent,
stored or printed. Valid pairs become the one character they spell; a lone half becomes U+FFFD; nothing else changes.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

__all__ = ['clean_data', 'clean_json', 'clean_plain', 'clean_text', 'json_form']

T = TypeVar('T')


def clean_text(s: str) -> str:
    """`s` with surrogate pairs joined and lone halves replaced by U+FFFD; the same object when there is nothing to do."""
    if s.isascii():
        return s
    try:
        s.encode()
    except UnicodeEncodeError:
        return s.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'replace')
    return s


def clean_json(value: T) -> T:
    """JSON data with every string (keys too) put through `clean_text`; the same object when there is nothing to do."""
    from pydantic_core import PydanticSerializationError, to_json  # not at import: it brings a dozen modules along

    try:
        to_json(value)  # one call into native code answers the usual case
    except PydanticSerializationError:
        return cast('T', clean_plain(value))
    return value


def clean_data(value: T) -> T:
    """Any data made of dataclasses, tuples, dicts and strings, with every string put through `clean_text`.

    The same object when there is nothing to do.
    """
    if isinstance(value, str):
        return cast('T', clean_text(value))
    if isinstance(value, (list, tuple)):
        items = [clean_data(item) for item in cast('list[object]', value)]
        if all(a is b for a, b in zip(items, cast('list[object]', value), strict=True)):
            return cast('T', value)
        return cast('T', tuple(items) if isinstance(value, tuple) else items)
    if isinstance(value, dict):
        return cast('T', clean_json(cast('dict[object, object]', value)))
    if is_dataclass(value) and not isinstance(value, type):
        cleaned = {f.name: clean_data(getattr(value, f.name)) for f in fields(value)}
        changed = {k: v for k, v in cleaned.items() if v is not getattr(value, k)}
        return replace(value, **changed) if changed else value
    return value


def json_form(value: object) -> Any:
    """The JSON data of anything pydantic can write: models, dataclasses, dates, ...; a number JSON lacks becomes its name.

    Strings are put through `clean_text`. Raises `ValueError` if there is no JSON form.
    """
    from pydantic_core import PydanticSerializationError, from_json, to_json

    try:
        return from_json(to_json(value, inf_nan_mode='strings'))
    except (PydanticSerializationError, UnicodeEncodeError):  # it may be for half a surrogate pair somewhere inside
        return from_json(to_json(clean_data(clean_plain(value)), inf_nan_mode='strings'))


def clean_plain(value: object) -> object:
    """Strings, and dicts, lists and tuples of them, put through `clean_text`; anything else as it is.

    Raises `ValueError` for data that contains itself.
    """
    # Without recursion: data nested too deeply for the native code comes here too.
    holder: list[object] = [None]
    todo: list[tuple[object, Any, Any]] = [(value, holder, 0)]
    around: set[int] = set()
    while todo:
        item, container, key = todo.pop()
        if container is None:  # everything in this one has been done
            around.discard(key)
            continue
        if isinstance(item, (dict, list, tuple)):
            if id(cast('object', item)) in around:
                raise ValueError('it contains itself')
            around.add(id(cast('object', item)))
            todo.append((cast('object', item), None, id(cast('object', item))))
        if isinstance(item, dict):
            copied = {_clean_key(name): inner for name, inner in cast('dict[object, object]', item).items()}
            todo.extend((inner, copied, name) for name, inner in copied.items())
            container[key] = copied
        elif isinstance(item, (list, tuple)):
            items = list(cast('list[object]', item))
            todo.extend((inner, items, index) for index, inner in enumerate(items))
            container[key] = items
        else:
            container[key] = clean_text(item) if isinstance(item, str) else item
    return holder[0]


def _clean_key(name: object) -> object:
    return clean_text(name) if isinstance(name, str) else name
