"""The commands of `agent-graph`, put together, and calling one: what it exits with."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from agent_graph.cli.doctor import doctor
from agent_graph.cli.exits import CommandError, Exit
from agent_graph.cli.graph import graph
from agent_graph.cli.misuse import is_misuse, show_error, show_misuse
from agent_graph.cli.models import models
from agent_graph.cli.outlet import open_outlets, write_problem
from agent_graph.cli.requirements import installed_version
from agent_graph.cli.run import run
from agent_graph.cli.runs import runs
from agent_graph.cli.step import step

__all__ = ['app', 'call']

app = typer.Typer(
    name='agent-graph',
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode='markdown',  # flows paragraphs; docstrings are written in it anyway
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(step)
app.command()(graph)
app.command()(models)
app.command()(doctor)
app.add_typer(runs, name='runs')


def _show_version(wanted: bool) -> None:
    if wanted:
        print(
            f'agent-graph {installed_version("agent-graph") or "(not installed)"}, Python {platform.python_version()}'
        )
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[  # pyright: ignore[reportUnusedParameter]
        bool, typer.Option('--version', callback=_show_version, is_eager=True, help='Show the version and exit.')
    ] = False,
) -> None:
    """Run agents, watch them, and see the graph they walk.

    Exit codes: 0 done, a run completed; 1 a run failed; 2 wrong arguments or set-up, nothing was run; 3 a run waits for
    people; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
    """


def call(given: Sequence[str]) -> int:
    """Call a command; the exit code. Errors a user can mend are one line on standard error, an object with `--json`."""
    with open_outlets():
        code = _called(given, as_json='--json' in given)
        sys.stdout.flush()
        if (problem := write_problem()) is not None:
            show_error(f'the output could not be written: {problem.strerror}', Exit.FAILED, as_json=False)
            code = code or Exit.FAILED
    return code


def _called(given: Sequence[str], *, as_json: bool) -> int:
    try:
        code = app(args=list(given), standalone_mode=False)
    except CommandError as error:
        show_error(error.message, error.code, as_json=as_json)
        return error.code
    except typer.Abort:  # Ctrl-C outside of a run
        return Exit.INTERRUPTED
    except Exception as error:
        if not is_misuse(error):
            raise
        return show_misuse(error, as_json=as_json)
    return code if isinstance(code, int) else 0
