"""`agent-graph runs`: what is in a journal, and what to do with it; one file for each kind of command."""

from __future__ import annotations

import typer

from agent_graph.cli.runs import answering, comparing, forking, listing, moving, removing, resuming, showing, tailing

__all__ = ['runs']

runs = typer.Typer(no_args_is_help=True)

for name, command in {
    'list': listing.list_runs,
    'show': showing.show,
    'steps': showing.steps,
    'graph': showing.graph,
    'tail': tailing.tail,
    'resume': resuming.resume,
    'approve': answering.approve,
    'deny': answering.deny,
    'answer': answering.answer,
    'cancel': removing.cancel,
    'fork': forking.fork,
    'diff': comparing.diff,
    'export': moving.export,
    'import': moving.import_,
    'delete': removing.delete,
    'vacuum': removing.vacuum,
}.items():
    runs.command(name)(command)


@runs.callback()
def _commands() -> None:  # pyright: ignore[reportUnusedFunction]
    """Look at stored runs, answer them, go on with them, fork, compare, move and delete them.

    An ID may be shortened to a beginning that only one run has. Exit codes: 0 done; 1 `resume` and the commands that go
    on with a run: it failed or was cancelled, `diff`: the runs differ; 2 wrong arguments, no such run, or a journal that
    cannot be used: nothing was done; 3 the run waits for people.
    """
