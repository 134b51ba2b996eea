"""How a command ends: its exit codes, and the error that becomes one line on standard error."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from agent_graph.errors import AnswerError, ConfigError
from agent_graph.journal.entries import CallStarted, Entered, Record, RunStatus

__all__ = ['CommandError', 'Exit', 'exit_of', 'file_problem', 'one_line']


class Exit(IntEnum):
    """The exit codes of every command."""

    COMPLETED = 0
    """The command did what it was asked; a run completed."""
    FAILED = 1
    """The run failed or was cancelled; it is in the journal, with what was done. `runs diff`: the runs differ."""
    USAGE = 2
    """Wrong arguments, no such run, or a set-up that lacks something: nothing was run and nothing written.

    Also a run that failed for its set-up before any model had answered, such as for a key that is missing.
    """
    PAUSED = 3
    """The run waits for people or other systems, or was left before its end: it can be resumed."""
    INTERRUPTED = 130
    """Ctrl-C: the run was cancelled and recorded as cancelled."""
    TERMINATED = 143
    """The process was asked to end (SIGTERM): as with Ctrl-C."""


def exit_of(status: RunStatus, error: BaseException | None, records: Sequence[Record]) -> Exit:
    """How a run that stands so ended; `error` is what it ended with."""
    if status == 'completed':
        return Exit.COMPLETED
    if status == 'paused':
        return Exit.PAUSED
    set_up = status == 'failed' and isinstance(error, ConfigError) and not any(map(_is_something_done, records))
    return Exit.USAGE if set_up else Exit.FAILED


def _is_something_done(record: Record) -> bool:
    """A model has answered, or a tool was called."""
    entry = record.entry
    return isinstance(entry, CallStarted) or (isinstance(entry, Entered) and entry.response is not None)


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


def file_problem(error: Exception) -> str:
    """Why a file that has been named already cannot be used, without its name once more."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
