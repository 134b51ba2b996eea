"""Asking the person at the terminal, or the script in the pipe, for one line at a time, while the event loop goes on."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
from typing import TextIO

from agent_graph.cli.exits import CommandError
from agent_graph.cli.terminal import Terminal, printable

__all__ = ['Dialog', 'LineReader', 'open_dialog', 'read_input', 'read_prompt']


class LineReader:
    """The lines of a file descriptor. Waiting for one may be cancelled; what is typed later goes to the next wait.

    A thread reads, since neither files nor every system's terminals can be waited for. It is a daemon and touches no
    Python file object, so that a process can end while it waits.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b''
        self._ended = False
        self._reading: asyncio.Future[bytes] | None = None

    async def line(self) -> str | None:
        """The next line without its end; `None` when there are no more."""
        while b'\n' not in self._buffer and not self._ended:
            piece = await self._more()
            self._ended = not piece
            self._buffer += piece
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b'\n')
        return line.decode('utf-8', 'replace').rstrip('\r')

    async def _more(self) -> bytes:
        loop = asyncio.get_running_loop()
        if self._reading is None:
            self._reading = reading = loop.create_future()
            threading.Thread(target=_read, args=(self._fd, loop, reading), daemon=True).start()
        await asyncio.wait({self._reading})
        piece, self._reading = self._reading.result(), None
        return piece


def _read(fd: int, loop: asyncio.AbstractEventLoop, reading: asyncio.Future[bytes]) -> None:
    try:
        piece = os.read(fd, 65536)
    except OSError:  # the terminal is gone
        piece = b''
    with suppress(RuntimeError):  # so is the loop
        loop.call_soon_threadsafe(_hand_over, reading, piece)


def _hand_over(reading: asyncio.Future[bytes], piece: bytes) -> None:
    if not reading.done():
        reading.set_result(piece)


class Dialog:
    """Questions and answers, in between what a `Terminal` shows. With `echo` the answers are written out as well."""

    def __init__(self, out: Terminal, reader: LineReader, stream: TextIO, *, echo: bool) -> None:
        self.out = out
        self._reader = reader
        self._stream = stream
        self._echo = echo

    async def ask(self, question: str) -> str | None:
        """The answer, without blanks around it; `None` when nobody will give one."""
        self.out.close()  # nothing moves while a person types
        self._write(question)
        try:
            line = await self._reader.line()
        except asyncio.CancelledError:
            self._write('\n')
            raise
        if line is None:
            self._write('\n')
            return None
        if self._echo:
            self._write(f'{line}\n')
        return line.strip()

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed: the next read says so
            self._stream.write(printable(text))
            self._stream.flush()


def open_dialog(out: Terminal, *, pipe: bool = False) -> Dialog | None:
    """A dialog with standard input if that is a terminal, or any input with `pipe`; `None` if there is nobody to ask.

    Questions go to the terminal that can be seen: standard error where standard output is sent elsewhere.
    """
    stdin = sys.stdin
    if stdin is None or stdin.closed or not (pipe or stdin.isatty()):
        return None
    try:
        fd = stdin.fileno()
    except (OSError, ValueError):  # a stand-in for a file
        return None
    terminal = stdin.isatty()
    stream = sys.stderr if terminal and not sys.stdout.isatty() else sys.stdout
    return Dialog(out, LineReader(fd), stream, echo=not terminal)


def read_input(what: str) -> str:
    """All of standard input as text; `what` it is for is named in the `CommandError` for what is no text."""
    if sys.stdin is None or sys.stdin.closed:
        raise CommandError(f'there is no standard input to read {what} from')
    # Python lets broken characters of standard input through in some locales; here they are an error in each.
    encoding = sys.stdin.encoding or 'utf-8'
    try:
        return sys.stdin.buffer.read().decode(encoding).replace('\r\n', '\n')
    except UnicodeDecodeError as error:
        bad = f'byte 0x{error.object[error.start]:02x} at {error.start}'
        raise CommandError(
            f'standard input, which is to be {what}, is no text in {encoding.upper()} ({bad}: {error.reason}); '
            'convert it, for example with iconv'
        ) from error
    except OSError as error:
        raise CommandError(f'standard input, which is to be {what}, cannot be read: {error}') from error


def read_prompt(given: str) -> str:
    """The prompt that was typed, `-` for all of standard input; raises `CommandError` if it is empty."""
    text = read_input('the prompt') if given == '-' else given
    if not text:
        where = 'standard input, which is to be the prompt, is empty' if given == '-' else 'the prompt is empty'
        raise CommandError(f'{where}; say what to ask')
    return text
