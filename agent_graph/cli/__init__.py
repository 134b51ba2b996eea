"""The command line: `agent-graph run`, `graph`, `step` and the group `runs`, one file a command. Typer and rich load only here.

Exit codes of all commands: 0 done, a run completed; 1 a run failed (`runs diff`: they differ); 2 wrong arguments or
set-up, nothing was done; 3 a run waits for people, or was left before its end; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ['main']


def main(args: Sequence[str] | None = None) -> None:
    """The entry point of `agent-graph`: errors a user can mend are one line on standard error, an object with `--json`.

    `args` are the arguments without the program's name, those of the process by default. Always ends in `SystemExit`.
    """
    try:
        from agent_graph.cli.app import call  # loading takes long enough for a Ctrl-C

        code = call(sys.argv[1:] if args is None else args)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
