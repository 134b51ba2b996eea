"""The nodes and state of a user's graph as journal entries, and back."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_graph import BaseNode, End, Graph
from pydantic_graph.step import NodeStep, Step

from agent_graph.engine.fidelity import loss
from agent_graph.engine.fingerprint import shape_digest
from agent_graph.engine.graph import edges_of
from agent_graph.engine.state import RunState
from agent_graph.errors import CodecError, ConfigError
from agent_graph.messages import JsonValue
from agent_graph.text import json_form

__all__ = ['GraphData']


class GraphData:
    """Writes and reads the nodes, the state and the output of one graph through their pydantic schemas."""

    def __init__(self, graph: Graph[Any, Any, Any, Any]) -> None:
        self.graph = graph
        self.nodes: dict[str, TypeAdapter[Any]] = {}
        self.classes: dict[str, type] = {}
        for step in _checked(graph).nodes.values():
            if isinstance(step, NodeStep):
                self.classes[str(step.id)] = step.node_type
                self.nodes[str(step.id)] = _adapter(step.node_type, f'node {step.id}')
        self.state = _adapter(graph.state_type, 'the state')
        self.output = _adapter(graph.output_type, 'the output')

    def dump_node(self, node: BaseNode[Any, Any, Any]) -> JsonValue:
        """The node's fields."""
        if not isinstance(cast('object', node), BaseNode):
            raise ConfigError(
                f'{node!r} is no node; pass the node to begin with, an instance of one of: {", ".join(self.nodes)}'
            )
        name = node.get_node_id()
        if name not in self.nodes:
            raise ConfigError(f'{node!r} is not a node of this graph; its nodes are: {", ".join(self.nodes)}')
        return _dump(self.nodes[name], node, f'node {name}')

    def dump_state(self, state: Any) -> JsonValue:
        """The state as JSON data."""
        try:
            return _dump(self.state, state, 'the state')
        except ConfigError as error:
            if _is_a(state, self.graph.state_type):
                raise
            wanted = getattr(self.graph.state_type, '__name__', self.graph.state_type)
            raise ConfigError(
                f'state={state!r:.200} is no {wanted}, which is the state_type of this graph; pass state={wanted}(...)'
            ) from error

    def dump_output(self, output: Any) -> tuple[bool, JsonValue]:
        """Whether the output can be stored, and its stored form."""
        try:
            return True, _dump(self.output, output, 'the output')
        except ConfigError:
            return False, None

    def load_node(self, name: str, data: JsonValue) -> Any:
        """The node that was entered."""
        if name not in self.nodes:
            raise CodecError(
                f'the run stopped in node {name!r}, which this graph does not have: {", ".join(self.nodes)}'
            )
        return _load(self.nodes[name], data, f'node {name}')

    def node_at(self, run: RunState) -> Any:
        """The node the run is in; the error says whose run it is if it is none of this graph's."""
        held = run.at.data if run.at is not None else None
        if run.at is None or not isinstance(held, dict):
            raise CodecError(
                f'run {run.run_id} is not one of run_graph, but of the agent {run.agent!r}; resume it with that'
            )
        return self.load_node(run.at.node, held.get('node'))

    def fingerprint(self) -> dict[str, JsonValue]:
        """What a stored run depends on: the nodes with their fields, where each leads, and the types of state and output."""
        names = {kind: name for name, kind in self.classes.items()} | {End: 'End'}
        edges: dict[str, JsonValue] = {
            names[kind]: list[JsonValue](sorted(names[target] for target in targets if target in names))
            for kind, targets in edges_of(self.graph).items()
        }
        nodes: dict[str, JsonValue] = {name: _digest(adapter) for name, adapter in self.nodes.items()}
        return {'nodes': nodes, 'edges': edges, 'state': _digest(self.state), 'output': _digest(self.output)}

    def load_state(self, data: JsonValue) -> Any:
        """The state as it was."""
        return _load(self.state, data, 'the state')

    def load_output(self, data: JsonValue) -> Any:
        """The output as it was."""
        return _load(self.output, data, 'the output')


def _digest(adapter: TypeAdapter[Any]) -> str:
    try:
        return shape_digest(adapter.json_schema())
    except ValueError:  # pydantic's: a type that is stored by code of its own
        return shape_digest(str(adapter))


def _adapter(target: Any, what: str) -> TypeAdapter[Any]:
    try:
        if what.startswith('node ') and not is_dataclass(target):
            raise ConfigError(f'{what} is no dataclass, so its fields cannot be stored; make it one')
        made: TypeAdapter[Any] = TypeAdapter(cast('type[Any]', target))
        return made
    except ConfigError:
        raise
    except Exception as error:  # pydantic raises many types here, and all mean the same to the caller
        raise ConfigError(f'{what} ({target!r}) cannot be stored: {error}; use types pydantic can check') from error


def _checked(graph: Any) -> Graph[Any, Any, Any, Any]:
    """A graph that can be walked with a journal; `ConfigError` says what is wrong with another."""
    if not isinstance(graph, Graph):
        raise ConfigError(
            f'graph={graph!r:.200} is no pydantic_graph.Graph; build one of BaseNode classes with GraphBuilder'
        )
    made = cast('Graph[Any, Any, Any, Any]', graph)
    steps = [str(s.id) for s in made.nodes.values() if isinstance(s, Step) and not isinstance(s, NodeStep)]
    if steps:
        raise ConfigError(
            f'the graph has step functions ({", ".join(steps)}), whose calls cannot be recorded and resumed; make each a '
            'BaseNode class, a dataclass whose run() returns the next node, and add it with builder.node(...)'
        )
    return made


def _is_a(value: object, kind: Any) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a type that says nothing about instances, such as a TypedDict
        return value is not None


def _dump(adapter: TypeAdapter[Any], value: Any, what: str) -> JsonValue:
    try:
        data: JsonValue = json_form(adapter.dump_python(value, mode='json', by_alias=True, warnings=False))
    except Exception as error:  # a value of another type than declared fails in many ways
        raise ConfigError(f'{what} cannot be stored: {error}; {value!r} has something JSON cannot hold') from error
    try:
        found = loss(value, _load(adapter, data, what), what)
    except CodecError as error:
        raise ConfigError(
            f'{what} cannot be stored: {value!r} is not of the type it is declared as. {error}'
        ) from error
    if found is not None:
        raise ConfigError(f'{what} cannot be stored: {found}; declare the types of what it holds exactly')
    return data


def _load(adapter: TypeAdapter[Any], data: JsonValue, what: str) -> Any:
    try:
        return adapter.validate_json(json.dumps(data))
    except ValidationError as error:
        raise CodecError(f'{what} cannot be read from what was stored: {_problems(error)}') from error
    except ValueError as error:
        raise CodecError(f'{what} cannot be read from what was stored: {error}') from error


def _problems(error: ValidationError) -> str:
    """What pydantic has to say, in one line and without its addresses."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return '; '.join(f'{".".join(map(str, e["loc"])) or "the value"}: {e["msg"]}' for e in found)
