"""The entries of a history -> system blocks and turns, by the rules Converse checks.

Turns alternate and begin with a user's; ids of calls and names of documents are there once; a document has a text beside
it. Nothing given is changed: what is kept for the next request stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agent_graph_providers.bedrock.families import Family
from agent_graph_providers.wire.ids import UniqueIds, renaming

__all__ = ['turns_of']

_NOTHING = {'text': '.'}
"""Stands where Converse insists on a turn and nobody said anything."""

_BESIDE_DOCUMENTS = {'text': 'See the attached documents.'}


def turns_of(
    entries: Iterable[list[dict[str, Any]]], family: Family
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(system blocks, messages) for these entries."""
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for group in entries:
        for entry in group:
            if entry['role'] == 'system':
                system += entry['content']
            else:
                _append(turns, entry, family)
    if not turns or turns[0]['role'] != 'user':
        turns.insert(0, {'role': 'user', 'content': [_NOTHING]})
    _make_ids_unique(turns)
    _settle_documents(turns)
    return system, turns


def _append(turns: list[dict[str, Any]], entry: dict[str, Any], family: Family) -> None:
    role, content = entry['role'], entry['content']
    if all('cachePoint' in block for block in content):
        if turns:
            turns[-1]['content'] = [*turns[-1]['content'], *content]
        return
    if not turns or turns[-1]['role'] != role:
        turns.append({'role': role, 'content': content})
        return
    last = turns[-1]
    if role == 'user' and not family.mixed_turns and _has_results(last['content']) != _has_results(content):
        turns.append({'role': 'assistant', 'content': [_NOTHING]})
        turns.append({'role': role, 'content': content})
        return
    last['content'] = [*last['content'], *content]


def _has_results(content: list[dict[str, Any]]) -> bool:
    return any('toolResult' in block for block in content)


def _make_ids_unique(turns: list[dict[str, Any]]) -> None:
    """Where an id is there again, call and result get another one: the same in every request."""
    unique = UniqueIds()
    for index, turn in enumerate(turns):
        if turn['role'] != 'assistant':
            continue
        ids = [b['toolUse']['toolUseId'] for b in turn['content'] if 'toolUse' in b]
        fresh = unique.take(ids)
        if fresh != ids:
            _rename(turn, 'toolUse', renaming(ids, fresh))
            if index + 1 < len(turns):
                _rename(turns[index + 1], 'toolResult', renaming(ids, fresh))


def _rename(turn: dict[str, Any], kind: str, rename: Callable[[str], str]) -> None:
    turn['content'] = [
        {kind: {**block[kind], 'toolUseId': rename(block[kind]['toolUseId'])}} if kind in block else block
        for block in turn['content']
    ]


def _settle_documents(turns: list[dict[str, Any]]) -> None:
    names: set[str] = set()
    for turn in turns:
        content = turn['content']
        if not any('document' in block or 'toolResult' in block for block in content):
            continue
        turn['content'] = content = [_named(block, names) for block in content]
        documents = [at for at, block in enumerate(content) if 'document' in block]
        if documents and not any('text' in block for block in content):
            content.insert(documents[0], _BESIDE_DOCUMENTS)


def _named(block: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """The block, its documents under names nobody had before."""
    if 'document' in block:
        document = block['document']
        name = _free(document['name'], names)
        return block if name == document['name'] else {'document': {**document, 'name': name}}
    if 'toolResult' in block:
        result = block['toolResult']
        content = [_named(inner, names) for inner in result['content']]
        changed = any(a is not b for a, b in zip(content, result['content'], strict=True))
        return {'toolResult': {**result, 'content': content}} if changed else block
    return block


def _free(name: str, names: set[str]) -> str:
    made, count = name, 1
    while made in names:
        count += 1
        made = f'{name[:190]} {count}'
    names.add(made)
    return made
