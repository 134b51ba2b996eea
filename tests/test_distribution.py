"""What an installed distribution offers: providers, the command, and the right dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import entry_points, requires
from pathlib import Path

import pytest

from agent_graph.model import Model
from agent_graph.registry import GROUP, infer_model
from agent_graph_providers.openai import SERVERS
from agent_graph_providers.responses import SERVERS as RESPONSES

ROOT = Path(__file__).parent.parent
ROWS = {'openai.servers': set(SERVERS), 'responses.servers': {row.name for row in RESPONSES.values()}}


def test_every_server_has_an_entry_point() -> None:
    for module, names in ROWS.items():
        found = {entry.name for entry in entry_points(group=GROUP) if entry.module == f'agent_graph_providers.{module}'}
        assert found == names, 'pyproject.toml and SERVERS differ; after a change, install again'


@pytest.mark.parametrize('name', [*SERVERS, *(row.name for row in RESPONSES.values()), 'local'])
def test_every_provider_makes_its_models(name: str) -> None:
    model = infer_model(f'{name}:some-model')
    assert isinstance(model, Model)
    assert model.name == 'some-model'


def test_the_command_is_installed(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / 'agent-graph'
    done = subprocess.run([command, '--help'], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert 'graph' in done.stdout


def test_every_provider_is_marked_as_typed() -> None:
    """The marker of a namespace package's root is not enough: type checkers look into the package that is imported."""
    packages = {'agent_graph'} | {
        f'agent_graph_providers/{path.parent.name}' for path in (ROOT / 'providers').glob('*/*/__init__.py')
    }
    assert len(packages) > 5
    for package in packages:
        place = ROOT / package if package == 'agent_graph' else ROOT / 'providers' / package
        assert (place / 'py.typed').is_file(), f'{package} has no py.typed'


def test_what_is_imported_is_declared() -> None:
    """Third-party packages the code imports, apart from those an extra or a dependency of ours stands for."""
    brought = {'pydantic_core': 'pydantic', 'httpx2': 'openai', 'opentelemetry': 'logfire', 'griffe': 'griffelib'}
    declared = {
        re.split(r'[^\w-]', line, maxsplit=1)[0].lower().replace('-', '_') for line in requires('agent-graph') or ()
    }
    imported: set[str] = set()
    for folder in ('agent_graph', 'providers'):
        for file in (ROOT / folder).rglob('*.py'):
            imported |= imports_of(ast.parse(file.read_text()))
    ours = {'agent_graph', 'agent_graph_providers'} | sys.stdlib_module_names
    assert {brought.get(name, name) for name in imported - ours} - declared == set()


def imports_of(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition('.')[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition('.')[0])
    return found
