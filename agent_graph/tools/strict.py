"""Strict modes: the provider holds the model to the schema, which must be closed in every part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_graph.tools.keywords import pointer, show, types_of
from agent_graph.tools.rewrite import Rewriter, noted
from agent_graph.tools.roots import drop_unused

__all__ = ['StrictForm', 'to_strict']


@dataclass(frozen=True, slots=True)
class StrictForm:
    """What one provider's strict mode knows.

    `kept`: the keywords it takes. `said`: those it does not know, but a reader of the description can still follow; of any
    other nothing is left. `formats`: the values of `format` it takes. `optional`: a property may be left out; where it may
    not, all are required, and one that could have been left out may be null.
    """

    kept: frozenset[str]
    said: tuple[str, ...]
    formats: frozenset[str]
    optional: bool = False


_OPENAI = StrictForm(
    kept=frozenset(
        'type description title enum const pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf '
        'minItems maxItems'.split()
    ),
    said=('minLength', 'maxLength', 'uniqueItems', 'minProperties', 'maxProperties', 'format', 'default'),
    formats=frozenset('date-time time date duration email hostname ipv4 ipv6 uuid'.split()),
)

_BUDGET = 20_000  # schemas; merging choices into objects writes some out more than once

_Node = dict[str, Any]


def to_strict(rewriter: Rewriter, form: StrictForm = _OPENAI) -> _Node:
    """Raises `ToolDefinitionError` for a free-form object, any value, or a choice at the top."""
    work = _Strict(rewriter, form)
    root: _Node = dict(rewriter.resolved(rewriter.root)[0])
    if root.keys() & {'anyOf', 'oneOf'}:
        raise rewriter.error(
            '', 'strict mode has no choice between objects at the top; offer the tool without strict=True'
        )
    if not root.keys() & {'properties', 'additionalProperties', 'patternProperties'}:
        root['properties'] = {}
    definitions = {name: work.node(held, pointer('$defs', name)) for name, held in rewriter.definitions.items()}
    return drop_unused({**work.node({**root, 'type': 'object'}, ''), '$defs': definitions})


class _Strict:
    def __init__(self, rewriter: Rewriter, form: StrictForm) -> None:
        self.rewriter = rewriter
        self.form = form
        self.left = _BUDGET

    def node(self, schema: Any, path: str) -> _Node:
        self.left -= 1
        if self.left < 0 or path.count('/') > 100:
            raise self.rewriter.error(path, 'it is too large or too deep for strict mode; offer it without strict=True')
        node, _ = self.rewriter.flat(schema)
        notes = {key: held for key, held in node.items() if key in ('title', 'description')}
        if '$ref' in node:
            # strict mode takes no keyword beside a reference, but does take one beside a choice of one
            return {'anyOf': [{'$ref': node['$ref']}], **notes} if notes else {'$ref': node['$ref']}
        branches = self.rewriter.distributed(node)
        if branches is not None:
            return {'anyOf': [self.node(part, f'{path}/anyOf/{n}') for n, part in enumerate(branches)], **notes}
        return self.leaf(node, path)

    def leaf(self, node: _Node, path: str) -> _Node:
        types = types_of(node)
        if not types and not node.keys() & {'enum', 'const'}:
            types = self.implied(node, path)
        form = self.form
        out = {key: held for key, held in node.items() if key in form.kept}
        if types and 'type' not in out:
            out['type'] = types[0]
        if 'array' in types:
            out.update(self.array(node, path))
        if 'object' in types:
            out.update(self.object(node, path))
        if node.get('format') in form.formats:
            out['format'] = node['format']
        said = [
            f'{key}: {show(node[key])}' for key in form.said if key in node and key not in out and node[key] is not None
        ]
        return noted(out, ', '.join(said)) if said else out

    def implied(self, node: _Node, path: str) -> tuple[str, ...]:
        if 'properties' in node:
            return ('object',)
        if node.keys() & {'items', 'prefixItems'}:
            return ('array',)
        raise self.rewriter.error(
            path, 'strict mode needs a type here; give one, or offer the tool without strict=True'
        )

    def array(self, node: _Node, path: str) -> _Node:
        first: list[Any] = node.get('prefixItems', [])
        rest = node.get('items', not first)
        parts = [*first, *([rest] if rest is not False else [])]
        distinct = list({show(part, 10**9): part for part in parts}.values())
        items = self.node(distinct[0] if len(distinct) == 1 else {'anyOf': distinct}, f'{path}/items')
        counted = first and rest is False and 'maxItems' in self.form.kept
        return {'items': items, **({'maxItems': len(first)} if counted else {})}

    def object(self, node: _Node, path: str) -> _Node:
        properties: _Node = {name: held for name, held in node.get('properties', {}).items() if held is not False}
        is_open = node.get('additionalProperties', not properties and 'properties' not in node)
        if is_open is not False or 'patternProperties' in node:
            raise self.rewriter.error(
                path,
                'strict mode has no object with names that are not listed; list the properties, or offer the tool '
                'without strict=True',
            )
        required = node.get('required', ())
        unknown = [name for name in required if name not in properties]
        if unknown:
            raise self.rewriter.error(
                path, f'{unknown[0]!r} is required but not described; describe it under properties'
            )
        made = {name: self.node(held, path + pointer('properties', name)) for name, held in properties.items()}
        if self.form.optional:
            return {'properties': made, 'required': list(required), 'additionalProperties': False}
        made = {
            name: held if name in required else self.nullable(properties[name], held) for name, held in made.items()
        }
        return {'properties': made, 'required': list(made), 'additionalProperties': False}

    def nullable(self, original: Any, made: _Node) -> _Node:
        """The property as one that may be null, which is how strict mode says that it may be left out."""
        if 'null' in self.rewriter.fitter.admitted(original):
            return made
        notes = {key: made[key] for key in ('title', 'description') if key in made}
        if 'anyOf' in made:
            return {**made, 'anyOf': [*made['anyOf'], {'type': 'null'}]}
        if made.keys() & {'$ref', 'const'} or 'type' not in made:
            bare = {key: held for key, held in made.items() if key not in notes}
            return {'anyOf': [bare, {'type': 'null'}], **notes}
        types = types_of(made)
        widened: _Node = {**made, 'type': [*types, 'null']}
        return {**widened, 'enum': [*made['enum'], None]} if 'enum' in made else widened
