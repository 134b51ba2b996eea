"""Closing what must not be open while the process forks.

SQLite keeps in memory which locks its process holds. A child would inherit that as it was, and take locks of its parent
for its own: it would wait for ever for some, and not take others that it needs. So connections are closed before a fork,
and each side opens its own at its next use. Threads do not live on in a child either, and locks stay as they were: so
those that matter are held by the thread that forks.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ['Forkable', 'take_part_in_forks']


class Forkable(Protocol):
    """Something that prepares for `os.fork()`."""

    def before_fork(self) -> None: ...

    def after_fork(self, *, in_child: bool) -> None: ...


_members: weakref.WeakSet[Forkable] = weakref.WeakSet()
_prepared: list[Forkable] = []
_registered = False


def take_part_in_forks(member: Forkable) -> None:
    """Call `member` before and after every fork, as long as it lives."""
    global _registered  # hooks cannot be taken back, so they are registered once
    if not _registered and hasattr(os, 'register_at_fork'):
        os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
        _registered = True
    _members.add(member)


def _before() -> None:
    for member in list(_members):
        member.before_fork()
        _prepared.append(member)


def _after_in_parent() -> None:
    while _prepared:
        _prepared.pop().after_fork(in_child=False)


def _after_in_child() -> None:
    while _prepared:
        _prepared.pop().after_fork(in_child=True)
