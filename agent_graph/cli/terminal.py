"""Writing to the terminal: `RichTerminal` with colours and a live tail, `PlainTerminal` in whole lines."""

from __future__ import annotations

import os
import re
import sys
from typing import Protocol, TextIO

from rich.console import Console
from rich.panel import Panel
from rich.status import Status
from rich.text import Text

__all__ = ['PlainTerminal', 'RichTerminal', 'Terminal', 'open_terminal', 'printable']

# A model or a tool may send anything: what would move the cursor, ring or recolour the terminal is not passed on.
_CONTROL = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]')


def printable(text: str) -> str:
    """`text` without anything a terminal would act on; line breaks and tabs stay."""
    return _CONTROL.sub('\N{REPLACEMENT CHARACTER}', text.replace('\r\n', '\n'))


class Terminal(Protocol):
    """Where a view writes. `style` is a rich style; a plain terminal has none."""

    def line(self, text: str, style: str = '', *, indent: int = 0, note: str = '') -> None:
        """Write whole lines; `note` is put behind them, less bright."""
        ...

    def piece(self, text: str, style: str = '', *, indent: int = 0) -> None:
        """Write more of a text that is still coming in; `line` and `end_piece` end it."""
        ...

    def end_piece(self) -> None:
        """The text that was coming in is complete."""
        ...

    def wait(self, text: str) -> None:
        """Show that something is awaited, until the next thing is written or awaited."""
        ...

    def block(self, title: str, text: str) -> None:
        """Write a text that matters, under a title."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


def open_terminal(stream: TextIO | None = None) -> Terminal:
    """Colours and a live tail on a terminal; plain lines in a pipe, with `NO_COLOR` set, or on a dumb terminal."""
    out: TextIO = sys.stdout if stream is None else stream
    if not out.isatty() or os.environ.get('NO_COLOR') or os.environ.get('TERM') == 'dumb':
        return PlainTerminal(out)
    return RichTerminal(out)


class PlainTerminal:
    """Whole lines, no control codes: for pipes, files, logs and screen readers."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._tail = ''
        self._indent = 0

    def line(self, text: str, style: str = '', *, indent: int = 0, note: str = '') -> None:
        self.end_piece()
        for line in printable(text + note).split('\n'):
            self._write(line, indent)

    def piece(self, text: str, style: str = '', *, indent: int = 0) -> None:
        self._indent = indent
        *lines, self._tail = (self._tail + printable(text)).split('\n')
        for line in lines:
            self._write(line, indent)

    def end_piece(self) -> None:
        if self._tail:
            tail, self._tail = self._tail, ''
            self._write(tail, self._indent)

    def wait(self, text: str) -> None:
        self.end_piece()

    def block(self, title: str, text: str) -> None:
        self.line(f'{title}:')
        self.line(text)

    def close(self) -> None:
        self.end_piece()

    def _write(self, line: str, indent: int) -> None:
        print(' ' * indent + line if line else '', file=self._stream, flush=True)


class RichTerminal:
    """Colours, text as it streams in, and a spinner while a model is awaited."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._open = False

    def line(self, text: str, style: str = '', *, indent: int = 0, note: str = '') -> None:
        self._settle()
        pad = ' ' * indent
        shown = Text('\n'.join(pad + line for line in printable(text).split('\n')), style)
        self._console.print(Text.assemble(shown, (printable(note), 'dim')))

    def piece(self, text: str, style: str = '', *, indent: int = 0) -> None:
        pad = ' ' * indent
        if not self._open:
            self._settle()
            self._open = True
            text = pad + text
        self._console.print(Text(printable(text).replace('\n', '\n' + pad), style), end='')

    def end_piece(self) -> None:
        if self._open:
            self._open = False
            self._console.print()

    def wait(self, text: str) -> None:
        shown = Text(printable(text), 'dim', overflow='ellipsis', no_wrap=True)
        if self._status is not None:
            self._status.update(shown)
            return
        self._settle()
        self._status = self._console.status(shown, spinner='dots')
        self._status.start()

    def block(self, title: str, text: str) -> None:
        self._settle()
        self._console.print(
            Panel(Text(printable(text)), title=title, title_align='left', border_style='green'), soft_wrap=False
        )

    def close(self) -> None:
        self._settle()

    def _settle(self) -> None:
        """End what is on the current line, so that the next thing begins on its own."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self.end_piece()
