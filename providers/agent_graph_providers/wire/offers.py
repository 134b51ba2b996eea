"""What is sent again and again is mapped once: tools per model, messages per run.

`Offers` lives with the model and keeps the wire form of tools, told by identity: an agent's tools are the same tuple in all
its runs. `Memory` lives in a run's scratch space and keeps every message already mapped, also told by identity: a run of n
steps maps n messages, not n * n.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from agent_graph.messages import AssistantMessage, Message, ToolCallPart
from agent_graph.model import ToolDefinition
from agent_graph.tools.names import wire_names

__all__ = ['MapMessage', 'MapTool', 'Memory', 'Offer', 'Offers', 'memory_of']

MapTool: TypeAlias = Callable[[ToolDefinition, str], dict[str, Any]]
"""`(tool, its name as sent)` -> its wire form."""

MapMessage: TypeAlias = Callable[[Message, Mapping[str, str]], list[dict[str, Any]]]
"""`(message, tools' own names -> names as sent where they differ)` -> the list entries it takes. Pure."""

_MOST_OFFERS = 16
_ANY = '[A-Za-z0-9_-]'


@dataclass(frozen=True, slots=True)
class Offer:
    """Tools as they are offered to a server."""

    tools: tuple[ToolDefinition, ...]
    wire: list[dict[str, Any]]
    names: dict[str, str]
    """The tools' own names -> names as sent, where they differ."""
    back: dict[str, str]
    """The other way round."""
    known: frozenset[str]
    """All names as sent."""

    def chosen(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The wire forms of these tools, in the order offered."""
        return [wire for wire, tool in zip(self.wire, self.tools, strict=True) if tool.name in names]


class Offers:
    """The wire forms of tools, made on first use by `map_tool`.

    Character classes say what a name may begin with (`start`) and what may be in it (`pattern`).
    """

    __slots__ = ('_made', '_map_tool', '_pattern', '_start')

    def __init__(self, map_tool: MapTool, *, start: str = _ANY, pattern: str = _ANY) -> None:
        self._map_tool = map_tool
        self._start = start
        self._pattern = pattern
        self._made: dict[int, Offer] = {}

    def of(self, tools: tuple[ToolDefinition, ...]) -> Offer:
        """The offer for these tools; the same object for as long as they are the same object."""
        offer = self._made.get(id(tools))
        if offer is None or offer.tools is not tools:  # the id may be that of a tuple which is gone
            if len(self._made) >= _MOST_OFFERS:
                self._made = {}  # tools that change from step to step leave one after the other behind
            offer = self._made[id(tools)] = self._make(tools)
        return offer

    def unknown(self, name: str) -> str | None:
        """The name under which a call to something that is no tool (any more) goes back; `None` if its own will do."""
        if re.fullmatch(f'{self._start}{self._pattern}{{0,63}}', name):
            return None
        return self._names([name])[name] if name.strip() else 'unnamed'

    def _make(self, tools: tuple[ToolDefinition, ...]) -> Offer:
        sent = self._names([t.name for t in tools])
        names = {name: wire for name, wire in sent.items() if name != wire}
        wire = [self._map_tool(t, sent[t.name]) for t in tools]
        return Offer(tools, wire, names, {wire: name for name, wire in names.items()}, frozenset(sent.values()))

    def _names(self, names: Sequence[str]) -> dict[str, str]:
        return wire_names(names, pattern=self._pattern, start=self._start)


class Memory:
    """What one run has already mapped for one model."""

    __slots__ = ('_map', '_names', '_offers', '_sent', '_sources', 'offer')

    def __init__(self, offers: Offers, map_message: MapMessage) -> None:
        self._offers = offers
        self._map = map_message
        self._names: dict[str, str] = {}
        self._sources: list[Message] = []
        self._sent: list[list[dict[str, Any]]] = []
        self.offer = offers.of(())

    def take(self, tools: tuple[ToolDefinition, ...]) -> Offer:
        """Offer these tools from now on."""
        if tools is not self.offer.tools:
            before, self.offer = self.offer.names, self._offers.of(tools)
            if self.offer.names != before:
                self._names = dict(self.offer.names)
                self._sources, self._sent = [], []  # they were written under the names before
        return self.offer

    def messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The wire form of a history; messages seen before at their place are not mapped again."""
        return list(chain.from_iterable(self.each(messages)))

    def each(self, messages: Sequence[Message]) -> list[list[dict[str, Any]]]:
        """The wire form of each message of a history. The lists are kept: do not change them."""
        sources, sent = self._sources, self._sent
        known = len(sources)
        for index, message in enumerate(messages):
            if index < known:
                if sources[index] is not message:
                    sources[index], sent[index] = message, self._mapped(message)
            else:
                sources.append(message)
                sent.append(self._mapped(message))
        del sources[len(messages) :], sent[len(messages) :]
        return sent

    def _mapped(self, message: Message) -> list[dict[str, Any]]:
        if isinstance(message, AssistantMessage):
            for part in message.parts:
                if isinstance(part, ToolCallPart) and part.tool_name not in self._names:
                    sent = self._offers.unknown(part.tool_name)
                    if sent is not None:
                        self._names[part.tool_name] = sent
        return self._map(message, self._names)


def memory_of(scratch: dict[Any, Any], owner: object, offers: Offers, map_message: MapMessage) -> Memory:
    """This run's memory for `owner` (the model, or what all models of one mapping share), made when it is missing."""
    key = (Memory, id(owner))
    kept = scratch.get(key)
    if kept is None or kept[0] is not owner:  # the id may be that of something which is gone
        kept = scratch[key] = (owner, Memory(offers, map_message))
    return kept[1]
