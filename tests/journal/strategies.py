"""Hypothesis strategies made from the annotations of the data themselves: a new entry or field is covered unasked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from agent_graph.messages import FilePart, JsonValue
from agent_graph.usage import UsageLimits

__all__ = ['json_values', 'values_of']

text = st.text(max_size=12)
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: json_values,
    NoneType: st.none(),
    str: text,
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=20),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
}


@cache
def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values that fit an annotation; `Any` stands for JSON, as it does in the messages."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if is_dataclass(annotation):
        return st.deferred(lambda: _instances(annotation))
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values_of(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, UnionType):
        return st.one_of([values_of(arg) for arg in args])
    if origin in (tuple, Sequence):
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(text, values_of(args[1]), max_size=3)
    raise TypeError(f'no strategy for {annotation!r}; add one here')


def _instances(kind: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    chosen = {f.name: values_of(hints[f.name]) for f in fields(kind)}
    if kind is UsageLimits:  # bounds are numbers from 0 on
        whole = st.none() | st.integers(min_value=0)
        real = st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False)
        bounds = {name: real if name in ('cost_limit', 'time_limit') else whole for name in chosen}
        return st.builds(kind, **{**bounds, 'on_limit': chosen['on_limit']})
    if kind is not FilePart:
        return st.builds(kind, **chosen)
    sources = {'data': st.binary(max_size=20), 'url': text, 'file_id': text}
    rest = {name: found for name, found in chosen.items() if name not in sources}
    return st.one_of([st.builds(FilePart, **rest, **{name: found}) for name, found in sources.items()])
