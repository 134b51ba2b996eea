"""Errors in what was typed, and in the set-up, as they are shown: for people on standard error, or as JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from agent_graph.cli.exits import Exit
from agent_graph.cli.machine import write_json
from agent_graph.cli.terminal import printable

__all__ = ['is_misuse', 'misuse_text', 'show_error', 'show_misuse']


def show_error(message: str, code: Exit, *, as_json: bool) -> None:
    """One line on standard error; with `--json` an object on standard output, where a program reads."""
    if as_json:
        write_json({'kind': 'error', 'error': message, 'exit_code': int(code)})
    else:
        print(f'agent-graph: {printable(message)}', file=sys.stderr)


def is_misuse(error: Exception) -> bool:
    """Whether the command line itself could not be understood. Typer has brought its errors from two packages by now."""
    return hasattr(error, 'format_message') and hasattr(error, 'exit_code')


def show_misuse(error: Any, *, as_json: bool) -> int:
    """Show what was wrong about a command line, and what would be right; the exit code."""
    code, context = Exit.USAGE, getattr(error, 'ctx', None)
    if type(error).__name__ == 'NoArgsIsHelpError':
        if as_json:
            show_error('no command was given', code, as_json=True)
        return code  # the help has been printed when the error was made
    if not as_json and context is not None:
        print(printable(context.get_usage()), file=sys.stderr)
    show_error(misuse_text(error), code, as_json=as_json)
    return code


def misuse_text(error: Any) -> str:
    """What is wrong, and what there is instead."""
    context = getattr(error, 'ctx', None)
    command = getattr(context, 'command', None)
    said = _one_line(str(error.message))
    if command is not None and type(error).__name__ == 'NoSuchOption':
        return f'{said}; {_instead(str(error.option_name), sorted(_options(command)), "options")}'
    if unknown := re.match(r"No such command '(.*?)'", said):
        return f'{unknown[0]}; {_instead(unknown[1], sorted(getattr(command, "commands", ())), "commands")}'
    said = _one_line(str(error.format_message()))
    return said if context is None else f'{said}; `{context.command_path} --help` explains it'


def _one_line(text: str) -> str:
    return ' '.join(text.split()).rstrip('.')


def _options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if getattr(parameter, 'param_type_name', '') == 'option' and not getattr(parameter, 'hidden', False):
            yield max(parameter.opts, key=len)
    yield '--help'


def _instead(given: str, there: list[str], what: str) -> str:
    near = get_close_matches(given, there, n=1)
    begin = f'did you mean {near[0]}? The' if near else 'the'
    return f'{begin} {what} are {", ".join(there)}'
