"""Finding what a command is to work on: `module:variable` or `path.py:variable`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pydantic_graph import Graph

from agent_graph.agent import Agent
from agent_graph.cli.exits import CommandError
from agent_graph.declaration import deps_wanted
from agent_graph.journal.entries import Entry, Started

__all__ = ['TARGET_HELP', 'check_owner', 'load_agent', 'load_deps', 'load_graph']

TARGET_HELP = 'What to work on: module:variable or path/to/file.py:variable.'

_SOME = 8
"""An error names so many variables of a module, the first."""


def load_agent(target: str) -> Agent[Any, Any]:
    """The agent `target` names; raises `CommandError` if there is none."""
    module, name = _load(target)
    return cast('Agent[Any, Any]', _pick(module, name, target, (Agent,), 'an Agent'))


def load_graph(target: str) -> Agent[Any, Any] | Graph[Any, Any, Any, Any]:
    """The agent or pydantic-graph `Graph` that `target` names; raises `CommandError` if there is none."""
    module, name = _load(target)
    return _pick(module, name, target, (Agent, Graph), 'an Agent or a pydantic-graph Graph')


def load_deps(agent: Agent[Any, Any] | None, target: str | None) -> Any:
    """What to pass as `deps`: the value `target` names, or what it returns if it is a function or a class.

    Raises `CommandError` if the agent says it needs deps and there is no target.
    """
    if target is None:
        wanted = None if agent is None else deps_wanted(agent.deps_type)
        if wanted is not None:
            raise CommandError(
                f'the agent needs deps of type {wanted}; '
                'pass --deps module:variable, the value or a function that makes it'
            )
        return None
    module, name = _load(target)
    value = _pick(module, name, target, (object,), 'a value')
    if not callable(value):
        return value
    try:
        return value()
    except Exception as error:  # the user's own code
        raise CommandError(f'--deps {target!r} could not be called: {type(error).__name__}: {error}') from error


def _load(target: str) -> tuple[ModuleType, str]:
    where, name = _split(target)
    is_file = where.endswith('.py') or '/' in where
    if is_file and not Path(where).is_file():
        raise CommandError(
            f'target {target!r}: there is no file {where!r}; give the path of a Python file, then :variable'
        )
    try:
        return _load_file(Path(where)) if is_file else _load_module(where), name
    except CommandError:
        raise
    except ModuleNotFoundError as error:
        if not is_file and error.name is not None and (where == error.name or where.startswith(f'{error.name}.')):
            raise CommandError(
                f'target {target!r}: there is no module {error.name!r} here or on the Python path; '
                'check the name, or give the path of a file: path/to/file.py:variable'
            ) from error
        raise _failed(target, error) from error
    except (Exception, SystemExit) as error:  # whatever the user's own code raises while it is imported
        raise _failed(target, error) from error


def _split(target: str) -> tuple[str, str]:
    where, _, name = target.rpartition(':')
    return (where, name) if where else (target, '')


def _load_module(name: str) -> ModuleType:
    if not name or not all(part.isidentifier() for part in name.split('.')):
        raise CommandError(f'target {name!r} is neither a module name nor a path that ends in .py')
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def _load_file(path: Path) -> ModuleType:
    """Load a file as a module of its own name, with its folder importable, as `python file.py` would."""
    path = path.resolve()
    name = f'agent_graph_target_{path.stem}'
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(path):
        return loaded  # named twice in one command: run once
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f'{str(path)!r} is not a Python file; its name must end in .py')
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations written as text are looked up there
    spec.loader.exec_module(module)
    return module


def _failed(target: str, error: BaseException) -> CommandError:
    """Names the user's own line, the last one that is not the import machinery."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if 'importlib' not in f.filename]
    last = frames[-1] if frames else None
    where = (
        f' ({Path(last.filename).name}, line {last.lineno})' if last is not None and last.filename != __file__ else ''
    )
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        text, where = error.msg, f' ({Path(error.filename).name}, line {error.lineno})'
    return CommandError(f'target {target!r} cannot be imported: {type(error).__name__}: {text}{where}')


def _pick(module: ModuleType, name: str, target: str, kinds: tuple[type, ...], wanted: str) -> Any:
    found = [
        key
        for key, value in vars(module).items()
        if isinstance(value, kinds) and not key.startswith('_') and not isinstance(value, ModuleType)
    ]
    where, _ = _split(target)
    choices = ', '.join(f'{where}:{key}' for key in found[:_SOME]) or f'none: assign {wanted} to a variable there'
    choices += f' and {len(found) - _SOME} more' if len(found) > _SOME else ''
    if not name:
        raise CommandError(f'target {target!r} does not say which variable; it has {choices}')
    value: Any = module
    for part in name.split('.'):
        if not hasattr(value, part):
            near = get_close_matches(name, found, 1)
            hint = f'did you mean {where}:{near[0]}?' if near else f'it has {choices}'
            raise CommandError(f'target {target!r}: there is no variable {name!r} in {where}; {hint}')
        value = getattr(value, part)
    if not isinstance(value, kinds):
        raise CommandError(f'target {target!r} is {_what(value)}, not {wanted}; {where} has {choices}')
    return value


def _what(value: object) -> str:
    return f'of type {type(value).__name__}' if not isinstance(value, type) else f'the class {value.__name__}'


def check_owner(
    target: Agent[Any, Any] | Graph[Any, Any, Any, Any], named: str, run_id: str, first: Entry, *, renamed: bool = False
) -> None:
    """Raise `CommandError` if a run is not one of this agent or graph, `named` so by the user; `first` is its first entry.

    With `renamed` it may have had another name. Whether its tools are the same is checked by going on with it.
    """
    if not isinstance(first, Started):
        return  # damaged; going on with it says so
    of_agent = 'tools' in (first.fingerprint or {})  # an agent's run and a graph's are different walks
    whose = f'run {run_id!r} is one of the {"agent" if of_agent else "graph"} {_name(first.agent)}'
    if of_agent and not isinstance(target, Agent):
        raise CommandError(f'{whose}, and {named} is a graph; pass that agent')
    if not of_agent and isinstance(target, Agent):
        raise CommandError(f'{whose}, not of an agent; pass that graph')
    other = target.name if isinstance(target, Agent) else target.name or 'graph'
    if other != first.agent and not renamed:
        raise CommandError(
            f'{whose}, and {named} is {_name(other)}; pass the right one, or, if it was renamed, use runs resume '
            '--on-change continue'
        )


def _name(name: str | None) -> str:
    return repr(name) if name else 'without a name'
