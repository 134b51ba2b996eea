"""How a command ends: its exit codes, and the error that becomes one line on standard error."""

from __future__ import annotations

from enum import IntEnum

__all__ = ['CommandError', 'Exit']


class Exit(IntEnum):
    """The exit codes of every command."""

    COMPLETED = 0
    """The command did what it was asked; a run completed."""
    FAILED = 1
    """The run failed; it is in the journal, with what was done."""
    USAGE = 2
    """Wrong arguments, a target that cannot be loaded, or a set-up that lacks something: nothing was run."""
    PAUSED = 3
    """The run waits for people or other systems."""
    INTERRUPTED = 130
    """Ctrl-C: the run was cancelled and recorded as cancelled."""
    TERMINATED = 143
    """The process was asked to end (SIGTERM): as with Ctrl-C."""


class CommandError(Exception):
    """Something the user can mend. `message` says what happened and what to do, on one line."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = ' '.join(message.split())
        self.code = code
