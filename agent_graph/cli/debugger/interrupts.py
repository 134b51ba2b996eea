"""Ctrl-C in the debugger: it stops a run before its next node, not in the middle of one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from agent_graph.cli.exits import Exit

__all__ = ['Interrupts']


class Interrupts:
    """While its block is open: Ctrl-C at a prompt leaves; while a node runs it asks to stop before the next one, and a
    second time cancels the run. SIGTERM leaves a prompt, and cancels the run while a node runs.

    `stop` is true once a stop has been asked for, `exit` is set once the debugger is to be left. `notify` is told, in
    words, what a Ctrl-C has been taken for.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.stop = False
        self.exit: Exit | None = None
        self._notify = notify
        self._asking: asyncio.Task[Any] | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelled = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, RuntimeError, ValueError):  # a loop without signals: Ctrl-C ends the process
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            loop.add_signal_handler(signal.SIGTERM, self._end, Exit.TERMINATED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)

    async def wait(self, asking: Coroutine[Any, Any, str | None]) -> str | None:
        """The line that is asked for; `None` if there is none, or if a signal comes first."""
        self._asking = task = asyncio.create_task(asking)
        try:
            return await task
        except asyncio.CancelledError:
            if self.exit is None:
                raise
            return None
        finally:
            self._asking = None

    def caught(self) -> bool:
        """True if a signal asked for the cancel at hand; it is then over."""
        if self._cancelled and self._task is not None:
            self._task.uncancel()
        return self._cancelled

    def _interrupt(self) -> None:
        if self._asking is None and not self.stop:
            self.stop = True
            self._notify('stopping before the next node; Ctrl-C once more cancels the run')
        else:
            self._end(Exit.INTERRUPTED)

    def _end(self, code: Exit) -> None:
        """Leave the prompt; where a node runs, cancel the run."""
        self.exit = code
        if self._asking is not None:
            self._asking.cancel()
        elif self._task is not None:
            self._cancelled = True
            self._task.cancel()
