"""`"openai:gpt-5-mini"` -> Model: the only loader of providers.

A provider is an entry point of the group `agent_graph.providers`, named by the prefix it serves. What it names is a
callable that takes the model's name and returns a `Model`. Nothing of a provider is imported before it is asked for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent_graph.errors import ConfigError
from agent_graph.model import Model

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ['GROUP', 'infer_model', 'installed']

GROUP = 'agent_graph.providers'
"""The entry point group."""


def infer_model(name: str) -> Model:
    """The model a `"provider:name"` text means. The first colon parts the two, so names may hold more of them.

    Raises `ConfigError` for a text of another shape, for a provider that is not installed (naming those that are, and the
    extra to install where one is known), and when the provider cannot be loaded.
    """
    provider, colon, model_name = name.partition(':')
    if not colon or not provider:  # an empty model name is the provider's business: `local:` means its default
        raise ConfigError(f'{name!r} is no model name; write provider:name, such as "openai:gpt-5-mini"')
    found = installed()
    entry = found.get(provider)
    if entry is None:
        raise ConfigError(_not_installed(provider, name, found))
    model = _made(entry, name, model_name)
    if not isinstance(model, Model):
        raise ConfigError(f'the provider {provider!r} ({entry.value}) made {model!r} for {name!r}, which is no Model')
    return model


def installed() -> dict[str, EntryPoint]:
    """The providers on the Python path by the prefix they serve. Nothing of them is imported."""
    import sys

    return _installed(tuple(sys.path))


@lru_cache(maxsize=8)
def _installed(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The providers found along `path`, by name; looking takes milliseconds, so it is done once for each path."""
    from importlib.metadata import distributions

    found: dict[str, EntryPoint] = {}
    for dist in distributions(path=list(path)):
        for entry in dist.entry_points:
            if entry.group == GROUP:
                found.setdefault(entry.name, entry)
    return found


def _made(entry: EntryPoint, name: str, model_name: str) -> Any:
    try:
        make = entry.load()
    except ModuleNotFoundError as error:
        raise ConfigError(_lacking(entry, name, error)) from error
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f'the provider {entry.name!r} of {name!r} cannot be loaded from {entry.value!r} ({error}); reinstall it'
        ) from error
    try:
        return make(model_name)
    except ModuleNotFoundError as error:  # providers import their SDK late
        raise ConfigError(_lacking(entry, name, error)) from error


def _lacking(entry: EntryPoint, name: str, error: ModuleNotFoundError) -> str:
    remedy = _remedy(entry.name, [entry])
    return f'the provider {entry.name!r} of {name!r} needs the module {error.name!r}, which is not installed; {remedy}'


def _not_installed(provider: str, name: str, found: dict[str, EntryPoint]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(provider, found, n=1)
    hint = f'did you mean {near[0]!r}? ' if near else ''
    known = ', '.join(sorted(found)) or 'none'
    remedy = _remedy(provider, list(found.values()))
    return f'no provider {provider!r} (of {name!r}) is installed; {hint}Installed: {known}. To add one, {remedy}'


def _remedy(provider: str, entries: list[EntryPoint]) -> str:
    """What to install: the extra of that name where a distribution has one."""
    for dist in {e.dist.name: e.dist for e in entries if e.dist is not None}.values():
        if provider in (dist.metadata.get_all('Provides-Extra') or ()):
            return f"pip install '{dist.name}[{provider}]'"
    return f'install the package that brings it (an entry point {provider!r} in the group {GROUP!r})'
