"""How a command ends: its exit codes, and the error that becomes one line on standard error."""

from __future__ import annotations

from enum import IntEnum

from agent_graph.errors import AnswerError, ConfigError

__all__ = ['CommandError', 'Exit', 'one_line']


class Exit(IntEnum):
    """The exit codes of every command."""

    COMPLETED = 0
    """The command did what it was asked; a run completed."""
    FAILED = 1
    """The run failed or was cancelled; it is in the journal, with what was done. `runs diff`: the runs differ."""
    USAGE = 2
    """Wrong arguments, no such run, or a set-up that lacks something: nothing was run and nothing written."""
    PAUSED = 3
    """The run waits for people or other systems, or was left before its end: it can be resumed."""
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


def one_line(error: BaseException) -> str:
    """An error as one line; the name of its type where the text alone does not say what went wrong."""
    text = ' '.join(str(error).split())
    if isinstance(error, ConfigError | AnswerError):
        return text  # says what is wrong and what to do; the type adds nothing
    return f'{type(error).__name__}: {text}' if text else type(error).__name__
