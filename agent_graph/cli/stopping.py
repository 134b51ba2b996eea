"""Turning Ctrl-C and SIGTERM into an orderly cancel."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from types import TracebackType
from typing import Self

from agent_graph.cli.exits import Exit

__all__ = ['Stopper']


class Stopper:
    """While its block is open, the first Ctrl-C or SIGTERM cancels the current task, and a second one ends the process.

    with Stopper() as stopper:
        try: ...
        except asyncio.CancelledError:
            if not stopper.caught(): raise
    """

    def __init__(self) -> None:
        self.exit: Exit | None = None
        self._stopped = False
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        try:
            loop.add_signal_handler(signal.SIGINT, self.stop, Exit.INTERRUPTED)
            loop.add_signal_handler(signal.SIGTERM, self.stop, Exit.TERMINATED)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not the main thread, or a loop without signals: Ctrl-C then arrives as KeyboardInterrupt
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def caught(self) -> bool:
        """True if a signal, or `stop`, asked for the cancel at hand; the task is then no longer being cancelled."""
        if self._stopped and self._task is not None:
            self._task.uncancel()
        return self._stopped

    def stop(self, code: Exit | None = None) -> None:
        """Cancel the task, once; `code` is what the command is to exit with."""
        if self._stopped:
            return
        self._stopped, self.exit = True, code
        self._release()  # a second signal finds the usual handler
        if self._task is not None:
            self._task.cancel()

    def _release(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)
