"""Names a provider accepts: any name is mapped to a wire-safe one and back, and no two names become one.

A name that is already fine is sent as it is. Otherwise each run of characters the provider refuses becomes `_`; what is
too long is cut in the middle, where the least is lost; and where that would make two names equal, or the name was cut or
has nothing left, a short hash of the original tells them apart. The result depends on the set of names only, not on
their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from agent_graph.errors import ToolDefinitionError

__all__ = ['wire_names']

_HASH = 8  # hex digits: a set of names is small, and a clash is looked for anyway


def wire_names(
    names: Sequence[str], *, pattern: str = '[A-Za-z0-9_-]', start: str = '[A-Za-z0-9_-]', limit: int = 64
) -> dict[str, str]:
    """Map each of `names` to the name to send, distinct and at most `limit` characters long.

    `pattern` is a character class of what a name may contain, `start` of what it may begin with. Raises
    `ToolDefinitionError` for an empty or repeated name, since no mapping can be undone then.
    """
    for name, count in Counter(names).items():
        if not name.strip():
            raise ToolDefinitionError(
                f'a tool cannot be called {name!r}; give it a name with at least one letter or digit', tool_name=name
            )
        if count > 1:
            raise ToolDefinitionError(f'{count} tools are called {name!r}; give each tool its own name', tool_name=name)
    fine = re.compile(f'{start}{pattern}*')
    out = {name: name for name in names if len(name) <= limit and fine.fullmatch(name)}
    taken = set(out)
    cleaned = {name: _clean(name, pattern, start) for name in names if name not in out}
    wanted = Counter(cleaned.values())
    for name in sorted(cleaned):
        wire = cleaned[name]
        if not wire.strip('_') or len(wire) > limit or wire in taken or wanted[wire] > 1:
            wire = _hashed(name, wire, limit, taken)
        taken.add(wire)
        out[name] = wire
    return {name: out[name] for name in names}


def _clean(name: str, pattern: str, start: str) -> str:
    """Only accepted characters; a clash with another name is the caller's matter."""
    wire = ''.join(char if re.fullmatch(pattern, char) else '\0' for char in name)
    wire = re.sub('\0+', '_', wire)
    return wire if re.match(start, wire) else f'_{wire}'


def _hashed(name: str, wire: str, limit: int, taken: set[str]) -> str:
    """`wire` with a hash of `name` in it: at the end, or in place of the middle that has to go."""
    digest = sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()
    for offset in range(len(digest) - _HASH):
        mark = digest[offset : offset + _HASH]
        room = limit - len(mark) - 2
        if not wire.strip('_'):
            made = f'tool_{mark}'
        elif len(wire) <= room + 1:
            made = f'{wire}_{mark}'
        else:  # the beginning is usually a server's name, the end says what the tool does
            head = room // 4
            made = f'{wire[:head]}_{mark}_{wire[-(room - head) :]}'
        if made not in taken:
            return made
    raise ToolDefinitionError(f'no distinct name could be made for {name!r}; rename the tool', tool_name=name)
