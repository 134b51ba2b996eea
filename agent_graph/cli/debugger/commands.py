"""What can be typed into the debugger, and reading it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from agent_graph.cli.exits import CommandError
from agent_graph.cli.people import Verb, json_arguments

__all__ = ['HELP', 'Answer', 'Break', 'Clear', 'Command', 'Edit', 'Fork', 'Go', 'Help', 'Quit', 'Show', 'parse']

HELP = """\
next                 run the node it stopped before, and stop before the one that follows
continue             run on until a breakpoint, a pause or the end
break NODE           stop before a node of this name: UserPrompt, ModelRequest, HandleResponse
break tool NAME      stop before a response that calls this tool is handled
break                list the breakpoints;  clear, clear NODE, clear tool NAME: remove them
edit args CALL JSON  change the arguments of a call before it runs
show                 the state;  show messages, show usage, show node: those
fork here            make another run with the same past, and what it stopped before as it is now
approve CALL [JSON]  at a pause: allow a call, with other arguments if given
deny CALL [WHY]      at a pause: refuse it
answer CALL VALUE    at a pause: answer a question, or hand in a result
quit                 leave; the run can be resumed
Commands may be shortened to their first letters; in a script each stands on a line of its own, and the end of it is quit."""


@dataclass(frozen=True, slots=True)
class Go:
    """Run the next node; with `on`, those that follow too."""

    on: bool


@dataclass(frozen=True, slots=True)
class Break:
    """Stop before a node of this name, or before a tool is called; list the breakpoints when there is no name."""

    what: Literal['node', 'tool']
    name: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove a breakpoint, or all of them when there is no name."""

    what: Literal['node', 'tool']
    name: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Change the arguments of a call."""

    call: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Show:
    """Show something."""

    what: Literal['state', 'messages', 'usage', 'node']


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a call that waits."""

    verb: Verb
    call: str
    text: str


@dataclass(frozen=True, slots=True)
class Fork:
    """Make another run from here."""


@dataclass(frozen=True, slots=True)
class Help:
    """Show what can be typed."""


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave."""


Command: TypeAlias = Go | Break | Clear | Edit | Show | Answer | Fork | Help | Quit


def parse(line: str) -> Command | None:
    """The command in a line, `None` for an empty one or a comment (`#`); raises `CommandError` for anything else."""
    word, _, rest = line.strip().partition(' ')
    if not word or word.startswith('#'):
        return None
    names = [name for name in _COMMANDS if name.startswith(word.casefold())]
    name = word if word in _COMMANDS else names[0] if names else ''
    if not name:
        near = get_close_matches(word.casefold(), _COMMANDS, 1)
        hint = f'did you mean {near[0]!r}?' if near else f'there are: {", ".join(_COMMANDS)}'
        raise CommandError(f'{word!r} is not a command; {hint}')
    return _COMMANDS[name](rest.strip())


def _place(rest: str) -> tuple[Literal['node', 'tool'], str]:
    first, _, second = rest.partition(' ')
    if first == 'tool':
        if not second.strip():
            raise CommandError('which tool? write: break tool NAME')
        return 'tool', second.strip()
    return 'node', rest.removeprefix('node ').strip()


def _edit(rest: str) -> Command:
    parts = rest.split(None, 2)
    if len(parts) < 3 or parts[0] != 'args':
        raise CommandError('write: edit args CALL {"name": value}')
    return Edit(parts[1], json_arguments(parts[2]))


def _show(rest: str) -> Command:
    what = rest or 'state'
    for known in ('state', 'messages', 'usage', 'node'):
        if known.startswith(what):
            return Show(known)
    raise CommandError(f'{what!r} cannot be shown; there are: state, messages, usage, node')


def _fork(rest: str) -> Command:
    if rest not in ('', 'here'):
        raise CommandError(
            f'a fork is made here only, not at {rest!r}; for another place: agent-graph runs fork ID --at N'
        )
    return Fork()


def _answer(verb: Verb) -> Callable[[str], Command]:
    def read(rest: str) -> Command:
        call, _, text = rest.partition(' ')
        if not call:
            raise CommandError(f'which call? write: {verb} CALL')
        if verb == 'answer' and not text.strip():
            raise CommandError('and the answer? write: answer CALL VALUE')
        return Answer(verb, call, text.strip())

    return read


# In the order in which a shortened name is looked up.
_COMMANDS: dict[str, Callable[[str], Command]] = {
    'next': lambda _: Go(on=False),
    'continue': lambda _: Go(on=True),
    'break': lambda rest: Break(*_place(rest)),
    'clear': lambda rest: Clear(*_place(rest)),
    'edit': _edit,
    'show': _show,
    'fork': _fork,
    'approve': _answer('approve'),
    'answer': _answer('answer'),
    'deny': _answer('deny'),
    'quit': lambda _: Quit(),
    'help': lambda _: Help(),
}
