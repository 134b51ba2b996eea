"""Standard output whose reader may go away: what is written then is dropped, and the command does the rest of its work."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

__all__ = ['Outlet', 'is_closed', 'open_outlets', 'watch_reader', 'write_problem']


class Outlet(io.FileIO):
    """A file descriptor that goes on taking data when it cannot be written any more.

    `problem` is why, once that has happened: a `BrokenPipeError` if nobody reads it any more, as after `| head -1`.
    """

    problem: OSError | None = None

    def __init__(self, fd: int) -> None:
        super().__init__(fd, 'w', closefd=False)

    def write(self, data: Any, /) -> int:
        """Everything, or nothing that would be noticed."""
        if self.problem is None:
            try:
                return super().write(data)
            except BlockingIOError:
                raise
            except OSError as error:
                self.problem = error
                _drop_all(self.fileno())
        return len(data)


def _drop_all(fd: int) -> None:
    """Whatever else writes there, such as the program behind a tool, finds an open file as well."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, fd)
        os.close(nowhere)


@contextmanager
def open_outlets() -> Generator[None]:
    """While its block is open, standard output and standard error are outlets, and there at all; any text can be written.

    Streams that somebody has put in their place are left as they are.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _outlet(sys.stdout, sys.__stdout__), _outlet(sys.stderr, sys.__stderr__)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _outlet(stream: TextIO | None, original: TextIO | None) -> TextIO:
    if stream is None:  # the process was started without it
        return Path(os.devnull).open('w', encoding='utf-8')
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if stream is not original:
        stream.reconfigure(errors='backslashreplace')
        return cast('TextIO', stream)
    stream.flush()
    unbuffered = not hasattr(cast('Any', stream).buffer, 'raw')  # as with `python -u`
    raw: Any = Outlet(stream.fileno())
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors='backslashreplace',
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _raw(stream: object) -> Outlet | None:
    buffer = getattr(stream, 'buffer', None)
    raw = getattr(buffer, 'raw', buffer)
    return raw if isinstance(raw, Outlet) else None


def is_closed() -> bool:
    """Whether nobody reads standard output any more, as far as that has been noticed by writing to it."""
    outlet = _raw(sys.stdout)
    return outlet is not None and outlet.problem is not None


def write_problem() -> OSError | None:
    """Why standard output is not complete, such as for a full disk; a reader that went away wanted no more of it."""
    outlet = _raw(sys.stdout)
    problem = None if outlet is None else outlet.problem
    return None if isinstance(problem, BrokenPipeError) else problem


@contextmanager
def watch_reader(gone: Callable[[], object]) -> Generator[None]:
    """While its block is open, `gone` is called when the reader of a pipe closes it, also while nothing is written."""
    outlet, loop = _raw(sys.stdout), asyncio.get_running_loop()
    watched = outlet is not None and stat.S_ISFIFO(os.fstat(outlet.fileno()).st_mode)
    fd = cast('Outlet', outlet).fileno() if watched else -1

    def tell() -> None:
        loop.remove_reader(fd)
        gone()

    try:
        if watched:
            loop.add_reader(fd, tell)  # the writing end of a pipe has nothing to read: it only tells of its end
    except (NotImplementedError, OSError):  # not every system tells; writing does
        watched = False
    try:
        yield
    finally:
        if watched:
            loop.remove_reader(fd)
