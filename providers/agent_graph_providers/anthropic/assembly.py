"""The entries of all messages -> `system` and `messages` as Anthropic takes them, with at most four cache marks.

Neighbours of one role become one message, tool results first in theirs, and the first message is the user's, if need be one that says so. System texts
at the beginning are the `system` field; later ones stand right after the user's next to them, where the model's family
knows such messages, else they join the `system` field; where no user message is next to them, they become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agent_graph_providers.anthropic.blocks import CACHE_POINT

__all__ = ['Conversation', 'assemble', 'mark_caches']

_MOST_MARKS = 4
_THINKING = frozenset({'thinking', 'redacted_thinking'})
"""Blocks that carry no cache mark, and cannot be the last of an answer."""

_FIRST = '(The conversation begins with the answer below.)'
_NOTHING = '(no message)'
"""Anthropic wants a user message with something in it, also where the prompt is empty."""

_Blocks: TypeAlias = list[dict[str, Any]]
_Place: TypeAlias = tuple[_Blocks, int]
"""A list of blocks and an index in it."""


@dataclass(slots=True)
class Conversation:
    """What becomes of a list of messages. Its blocks are shared with the mapping's memory: replace them, change none."""

    system: _Blocks = field(default_factory=list[dict[str, Any]])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    marked: bool = False
    """Some block carries a cache mark."""


def assemble(entries: Iterable[Sequence[dict[str, Any]]], *, system_inside: bool) -> Conversation:
    """Put the entries of all messages together."""
    work = _Assembly(system_inside)
    out, messages = work.out, work.out.messages
    for one in entries:  # few calls a message: this is walked in every step of a run
        for entry in one:
            blocks = entry['content']
            if entry['role'] == 'system':
                (work.late if messages else out.system).extend(blocks)
            elif entry['role'] == 'user':
                work.user(blocks)
            else:
                if work.late or work.unsorted or not messages:
                    work.settle(first=_FIRST)
                if messages[-1]['role'] == 'assistant':
                    messages[-1]['content'] += blocks
                else:
                    messages.append({'role': 'assistant', 'content': [*blocks]})
                work.thoughtful = blocks[-1]['type'] in _THINKING
    return work.end()


class _Assembly:
    def __init__(self, system_inside: bool) -> None:
        self.out = Conversation()
        self.system_inside = system_inside
        self.late: _Blocks = []
        """System texts after the first message, until the user's turn they belong to is over."""
        self.unsorted = False
        """A tool result stands after something else in the last message."""
        self.thoughtful = False
        """The last message is an answer that ends in thinking."""

    def user(self, blocks: _Blocks) -> None:
        messages = self.out.messages
        if self.thoughtful:
            self.strip_thinking()
        content: _Blocks = messages[-1]['content'] if messages and messages[-1]['role'] == 'user' else []
        for block in blocks:
            kind = block['type']
            if kind == CACHE_POINT:
                self.mark(block['ttl'])
                continue
            if not content:
                messages.append({'role': 'user', 'content': content})
            elif kind == 'tool_result' and content[-1]['type'] != kind:
                self.unsorted = True
            content.append(block)

    def mark(self, ttl: str) -> None:
        """Mark the last thing said so far."""
        out = self.out
        lists = (self.late, *(message['content'] for message in reversed(out.messages)), out.system)
        for blocks in lists:
            if (place := _last_place(blocks)) is not None:
                _mark(place, ttl)
                out.marked = True
                return

    def settle(self, *, first: str) -> None:
        """The user's turn is over: put its results first, and its late system texts where they belong."""
        messages = self.out.messages
        if self.thoughtful:
            self.strip_thinking()
        if not messages:
            messages.append({'role': 'user', 'content': [{'type': 'text', 'text': first}]})
        if self.unsorted:
            content: _Blocks = messages[-1]['content']
            content.sort(key=_after_results)
            self.unsorted = False
        late, self.late = self.late, []
        if not late:
            return
        if messages[-1]['role'] != 'user':
            messages.append({'role': 'user', 'content': [_as_user(block) for block in late]})
        elif self.system_inside:
            messages.append({'role': 'system', 'content': late})
        else:
            self.out.system += late

    def strip_thinking(self) -> None:
        """Leave out the thinking an answer ends in: it was all there was of it, or a cut came after it."""
        self.thoughtful = False
        messages = self.out.messages
        content: _Blocks = messages[-1]['content']
        while content and content[-1]['type'] in _THINKING:
            content.pop()
        if not content:
            messages.pop()
            if messages and messages[-1]['role'] == 'system':  # the user's turn before it goes on
                self.late = [*messages.pop()['content'], *self.late]

    def end(self) -> Conversation:
        messages = self.out.messages
        self.settle(first=_NOTHING)
        if messages[-1]['role'] == 'assistant':
            _strip(messages[-1]['content'])
        return self.out


def _after_results(block: dict[str, Any]) -> bool:
    return block['type'] != 'tool_result'


def _as_user(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, 'text': f'<system>\n{block["text"]}\n</system>'}


def _strip(content: _Blocks) -> None:
    """Anthropic takes no answer to go on with that ends in white space."""
    block = content[-1]
    if block['type'] == 'text':
        content[-1] = {**block, 'text': block['text'].rstrip()}


# Cache marks


def mark_caches(tools: _Blocks, conversation: Conversation, auto: str | None) -> None:
    """Add the marks of `auto_cache` (tools, system, last message), keep at most four, and put the longer-lived first."""
    system, messages = conversation.system, conversation.messages
    if auto is not None:
        for blocks in (tools, system, messages[-1]['content']):
            place = _last_place(blocks)
            if place is not None and 'cache_control' not in blocks[place[1]]:
                _mark(place, auto)
    in_tools, in_system = [*_marked(tools)], [*_marked(system)]
    in_messages = [place for message in messages for place in _marked(message['content'])]
    surplus = len(in_tools) + len(in_system) + len(in_messages) - _MOST_MARKS
    if surplus > 0:
        # A mark in the system text keeps the tools as well, and a later point of the conversation what an older one keeps.
        first = [*(in_tools if in_system else ()), *in_messages[:-1]]
        for place in [*first, *(() if in_system else in_tools), *in_system][:surplus]:
            _unmark(place)
    _longest_first([*_marked(tools), *_marked(system), *(p for m in messages for p in _marked(m['content']))])


def _last_place(blocks: _Blocks) -> _Place | None:
    """The last block that can carry a mark: thinking cannot, and no tool that is only loaded when searched for."""
    for index in range(len(blocks) - 1, -1, -1):
        block = blocks[index]
        if block.get('type') not in _THINKING and not block.get('defer_loading'):
            return blocks, index
    return None


def _marked(blocks: _Blocks) -> Iterator[_Place]:
    return ((blocks, index) for index, block in enumerate(blocks) if block.get('cache_control') is not None)


def _mark(place: _Place, ttl: str) -> None:
    blocks, index = place
    blocks[index] = {**blocks[index], 'cache_control': {'type': 'ephemeral', 'ttl': ttl}}


def _unmark(place: _Place) -> None:
    blocks, index = place
    blocks[index] = {name: value for name, value in blocks[index].items() if name != 'cache_control'}


def _longest_first(places: list[_Place]) -> None:
    """What is before an hour's mark is kept for an hour as well: Anthropic refuses it the other way round."""
    hour = False
    for place in reversed(places):
        if place[0][place[1]]['cache_control'].get('ttl') == '1h':
            hour = True
        elif hour:
            _mark(place, '1h')
