"""Cache points: where Converse takes them, and those that `auto_cache` sets."""

from __future__ import annotations

from typing import Any

from agent_graph_providers.bedrock.families import Family

__all__ = ['place_points']

_MOST = 4
_POINT = 'cachePoint'
_NOT_AFTER = ('document', 'video')
"""No point may follow these: it goes before them."""

Blocks = list[dict[str, Any]]


def place_points(
    system: Blocks, tools: Blocks, turns: Blocks, auto: str | None, family: Family
) -> tuple[Blocks, Blocks]:
    """(system, tools) with their points; the contents of `turns` are replaced where a point has to move.

    `auto` sets points after tools, instructions and the conversation so far. At most four are kept, the last ones; and none
    lasts longer than one before it.
    """
    if not family.can.prompt_cache:
        return system, tools
    if auto is not None:
        point = {_POINT: {'type': 'default', **({'ttl': '1h'} if auto == '1h' and family.cache_ttl else {})}}
        tools = [*tools, point] if tools and family.cached_tools else tools
        system = [*system, point] if system else system
        if turns[-1]['role'] == 'user' and _POINT not in turns[-1]['content'][-1]:
            turns[-1]['content'] = [*turns[-1]['content'], point]
    moved = _settle(turns)
    if moved is not None and system:
        system = [*system, moved]
    _limit(turns, sum(_POINT in block for block in (*system, *tools)))
    return _lengthen(system, tools, turns)


def _settle(turns: Blocks) -> dict[str, Any] | None:
    """Move the points of each turn to where they may be; the one that has nothing before it in any turn is returned."""
    first: dict[str, Any] | None = None
    for index, turn in enumerate(turns):
        if not any(_POINT in block for block in turn['content']):
            continue
        content, leading = _settled(turn['content'])
        turn['content'] = content
        if leading is not None and index:
            before = turns[index - 1]['content']
            if _POINT not in before[-1]:
                turns[index - 1]['content'] = [*before, leading]
        elif leading is not None:
            first = leading
    return first


def _settled(content: Blocks) -> tuple[Blocks, dict[str, Any] | None]:
    """The content with its points in place, and the point that came before everything else."""
    out: Blocks = []
    leading: dict[str, Any] | None = None
    for block in content:
        if _POINT not in block:
            out.append(block)
            continue
        at = len(out)
        while at and any(kind in out[at - 1] for kind in _NOT_AFTER):
            at -= 1
        if not at:
            leading = block
        elif _POINT not in out[at - 1]:
            out.insert(at, block)
    return out, leading


def _limit(turns: Blocks, others: int) -> None:
    """Drop the earliest points of the conversation beyond what is allowed."""
    surplus = others + sum(_POINT in block for turn in turns for block in turn['content']) - _MOST
    for turn in turns:
        if surplus <= 0:
            return
        content: Blocks = []
        for block in turn['content']:
            if _POINT in block and surplus > 0:
                surplus -= 1
            else:
                content.append(block)
        turn['content'] = content


def _lengthen(system: Blocks, tools: Blocks, turns: Blocks) -> tuple[Blocks, Blocks]:
    """A point before one that lasts an hour has to last as long: tools come first, then instructions, then turns."""
    long = False
    for turn in reversed(turns):
        turn['content'], long = _lengthened(turn['content'], long)
    system, long = _lengthened(system, long)
    tools, long = _lengthened(tools, long)
    return system, tools


def _lengthened(blocks: Blocks, long: bool) -> tuple[Blocks, bool]:
    if not any(_POINT in block for block in blocks):
        return blocks, long
    out: Blocks = []
    for block in reversed(blocks):
        if _POINT in block:
            long = long or block[_POINT].get('ttl') == '1h'
            block = {_POINT: {**block[_POINT], 'ttl': '1h'}} if long else block
        out.append(block)
    return out[::-1], long
