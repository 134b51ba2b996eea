"""Importing is light and without effect, and what a module says it offers is what it has."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import agent_graph
import agent_graph_providers

HEAVY = {
    'openai',
    'httpx',
    'httpx2',
    'logfire',
    'opentelemetry',
    'rich',
    'typer',
    'genai_prices',
    'agent_graph_providers',
}
MOST_MODULES = 260

CHILD = """
import sys

class PlainInstall:
    # Neither is a dependency. Where they are installed, pydantic-graph loads them by itself.
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('logfire', 'opentelemetry'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)

sys.meta_path.insert(0, PlainInstall())
import json, agent_graph
print(json.dumps(sorted(sys.modules)))
"""


def test_importing_is_light(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, '-c', CHILD], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ''
    loaded: list[str] = json.loads(done.stdout)
    assert {name.partition('.')[0] for name in loaded} & HEAVY == set()
    assert len(loaded) <= MOST_MODULES, f'{len(loaded)} modules: {loaded}'


def test_heavy_modules_are_imported_where_they_are_used() -> None:
    assert agent_graph.__file__ is not None
    for file in Path(agent_graph.__file__).parent.rglob('*.py'):
        if 'cli' not in file.parts:  # which is loaded by its own command only
            assert imported_at_once(ast.parse(file.read_text()).body) & HEAVY == set(), file


def imported_at_once(body: list[ast.stmt]) -> set[str]:
    """The packages that importing a module with this body imports."""
    found: set[str] = set()
    for node in body:
        match node:
            case ast.Import(names=names):
                found |= {alias.name.partition('.')[0] for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition('.')[0])
            case ast.If(test=test, body=inner, orelse=other):
                found |= imported_at_once(other if 'TYPE_CHECKING' in ast.unparse(test) else inner + other)
            case ast.Try(body=inner, handlers=handlers):
                found |= imported_at_once(inner + [s for h in handlers for s in h.body])
            case _:
                pass
    return found


def test_importing_starts_nothing(tmp_path: Path) -> None:
    code = (
        'import threading, agent_graph, asyncio\n'
        'assert threading.active_count() == 1\n'
        'assert asyncio._get_running_loop() is None\n'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    assert list(tmp_path.iterdir()) == []


def test_the_package_only_re_exports() -> None:
    assert agent_graph.__file__ is not None
    tree = ast.parse(Path(agent_graph.__file__).read_text())
    others = [n for n in tree.body if not isinstance(n, ast.ImportFrom)]
    assert len(others) == 2, [ast.unparse(n) for n in others]
    docstring, names = others
    assert isinstance(docstring, ast.Expr)
    assert isinstance(names, ast.Assign)
    assert ast.unparse(names.targets[0]) == '__all__'
    imported = {alias.asname or alias.name for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    assert imported == set(agent_graph.__all__)
    assert agent_graph.__all__ == sorted(agent_graph.__all__)


def modules() -> list[str]:
    found = [
        'agent_graph',
        *(f'agent_graph_providers.{m.name}' for m in pkgutil.iter_modules(agent_graph_providers.__path__)),
    ]
    for name in list(found):
        package = importlib.import_module(name)
        found += [m.name for m in pkgutil.walk_packages(package.__path__, f'{name}.')]
    return [name for name in found if not name.endswith('__main__')]


@pytest.mark.parametrize('name', modules())
def test_a_module_tells_the_truth(name: str) -> None:
    module = importlib.import_module(name)
    names: list[str] = module.__all__
    assert len(names) == len(set(names)), 'a name is there twice'
    assert [n for n in names if not hasattr(module, n)] == []
    unlisted = [n for n in defined_in(module) if not n.startswith('_') and n not in names]
    assert unlisted == [], 'list them in __all__, or begin their names with an underscore'


def defined_in(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
        and value.__name__ == name
    ]
