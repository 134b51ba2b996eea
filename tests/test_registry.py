"""`infer_model`: providers are found by entry points and loaded only when asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_graph.errors import ConfigError
from agent_graph.model import Model
from agent_graph.registry import GROUP, infer_model

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a distribution with providers on the path: an entry point each, and a module they live in."""

    def make(entries: dict[str, str], module: str = '', extras: tuple[str, ...] = ()) -> None:
        info = tmp_path / 'acme_models-1.0.dist-info'
        info.mkdir()
        lines = [f'Provides-Extra: {extra}' for extra in extras]
        (info / 'METADATA').write_text(
            '\n'.join(['Metadata-Version: 2.1', 'Name: acme-models', 'Version: 1.0', *lines, ''])
        )
        points = [f'{name} = {target}' for name, target in entries.items()]
        text = [f'[{GROUP}]', *points, '[another.group]', 'stranger = acme_models_module:acme', '']
        (info / 'entry_points.txt').write_text('\n'.join(text))
        (tmp_path / 'acme_models_module.py').write_text(module)
        monkeypatch.setattr(sys, 'path', [str(tmp_path), *sys.path])
        monkeypatch.delitem(sys.modules, 'acme_models_module', raising=False)

    return make


MODULE = """
from agent_graph.testing.scripted import ScriptedModel
made = []
def acme(name):
    made.append(name)
    return ScriptedModel(['hi'])
def wrong(name):
    return 42
def needs(name):
    import module_that_nobody_has
"""


def test_the_name_after_the_first_colon_is_handed_over(install: Install) -> None:
    install({'acme': 'acme_models_module:acme'}, MODULE)
    assert isinstance(infer_model('acme:a:b/c'), Model)
    assert sys.modules['acme_models_module'].made == ['a:b/c']
    infer_model('acme:')
    assert sys.modules['acme_models_module'].made[-1] == '', 'a provider may have a default model'


@pytest.mark.parametrize('name', ['gpt-5', ':x', ''])
def test_a_name_of_another_shape(name: str) -> None:
    with pytest.raises(ConfigError, match='write provider:name'):
        infer_model(name)


def test_an_unknown_provider_names_those_installed_and_the_extra(install: Install) -> None:
    install({'acme': 'acme_models_module:acme'}, MODULE, extras=('zenith',))
    with pytest.raises(ConfigError, match=r"no provider 'zenith'.*acme.*pip install 'acme-models\[zenith\]'"):
        infer_model('zenith:x')


def test_other_groups_are_none_of_its_business(install: Install) -> None:
    install({'acme': 'acme_models_module:acme'}, MODULE)
    with pytest.raises(ConfigError, match="no provider 'stranger'"):
        infer_model('stranger:x')


def test_a_near_miss_is_suggested(install: Install) -> None:
    install({'acme': 'acme_models_module:acme'}, MODULE)
    with pytest.raises(ConfigError, match="did you mean 'acme'"):
        infer_model('acmee:x')


@pytest.mark.parametrize('target', ['acme_models_module:needs', 'module_that_nobody_has:x'])
def test_a_missing_module_names_the_extra(install: Install, target: str) -> None:
    install({'acme': target}, MODULE, extras=('acme',))
    with pytest.raises(ConfigError, match=r"needs the module 'module_that_nobody_has'.*'acme-models\[acme\]'"):
        infer_model('acme:x')


def test_a_broken_entry_point_and_a_wrong_result(install: Install) -> None:
    install({'broken': 'acme_models_module:nothing', 'wrong': 'acme_models_module:wrong'}, MODULE)
    with pytest.raises(ConfigError, match='cannot be loaded'):
        infer_model('broken:x')
    with pytest.raises(ConfigError, match='made 42'):
        infer_model('wrong:x')


def test_nothing_is_imported_before_it_is_used() -> None:
    code = (
        'import sys, agent_graph.registry\n'
        'heavy = {"openai", "httpx", "httpx2", "agent_graph_providers"}\n'
        'print(sorted(heavy & set(sys.modules)))'
    )
    path = {'PYTHONPATH': ':'.join(sys.path)}
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.strip() == '[]'
