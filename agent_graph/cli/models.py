"""`agent-graph models`: the providers that are installed, what they need, and what a model can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from rich.cells import cell_len

from agent_graph.capabilities import UNKNOWN, Capabilities, capabilities_of
from agent_graph.cli.exits import CommandError, one_line
from agent_graph.cli.machine import write_json
from agent_graph.cli.providers import Provider, all_providers, provider_of
from agent_graph.cli.terminal import Terminal, open_terminal, printable
from agent_graph.model import Model
from agent_graph.registry import installed

__all__ = ['models']

_ANY_MODEL = 'some-model'
"""A name no provider knows: what it assumes of it is what its newest models can do."""


def models(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar='[MODEL]', help='A provider, or a model: openai, openai:gpt-5-mini.', show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option('--json', help='For programs: one JSON object a line.')] = False,
) -> None:
    """List the installed providers: whether their key is found, where they are, and what they lack.

    With a provider or a model: what is known of that one, and what the model can do (of a provider alone, what its
    newest models can). Keys are never shown. Nothing is asked over the network.

    With --json one object for each provider: `provider`, `package`, `entry_point`, `ready`, `error` (why it cannot be
    loaded), `key` (`variable`, `found`, `optional`, `others`, `elsewhere`, `faults`, `told`), `address`, `address_variable`,
    `extra`, `lacking`, `install`. With a MODEL also `model`, `priced_as` and `capabilities`.

    Exit codes: 0 listed; 2 no such provider, or a MODEL that cannot be made.
    """
    if which is not None:
        _show_one(which, as_json)
        return
    found = all_providers()
    if as_json:
        for provider in found:
            write_json(_data(provider))
        return
    _show_all(found)


def _show_all(found: Sequence[Provider]) -> None:
    out = open_terminal()
    if not found:
        out.line('no provider is installed; agent-graph itself brings some: install it with `pip install .`')
        return
    head = ('provider', 'key', 'address', '')
    rows = [tuple(map(printable, (p.name, p.key.text, _where(p), _lack(p)))) for p in found]
    widths = [max(cell_len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for style, row in (('bold', head), *((_style(p), row) for p, row in zip(found, rows, strict=True))):
        padded = [cell + ' ' * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        out.line('  '.join(padded).rstrip(), style)
    ready = sum(p.usable for p in found)
    out.line(f'{ready} of {len(found)} ready; `agent-graph models PROVIDER:MODEL` tells more', 'dim')


def _style(provider: Provider) -> str:
    if provider.error or provider.key.faults:
        return 'red'
    return 'green' if provider.key.found and provider.usable else '' if provider.usable else 'dim'


def _where(provider: Provider) -> str:
    return provider.address or (f'{provider.address_variable} not set' if provider.address_variable else '-')


def _lack(provider: Provider) -> str:
    return provider.install or (f'cannot be loaded: {provider.error}' if provider.error else '')


def _show_one(which: str, as_json: bool) -> None:
    name, colon, model_name = which.partition(':')
    provider = _find(name, which)
    model, error = _model(provider, model_name if colon else '')
    if colon and error:
        raise CommandError(error)
    can = None if model is None else capabilities_of(model)
    if as_json:
        told = {} if model is None or can is None else _model_data(model, can, known=bool(model_name))
        write_json({**_data(provider), **told})
        return
    out = open_terminal()
    _show_facts(out, provider, model if model_name else None)
    if can is not None:
        _show_capabilities(out, can, f'{which}' if model_name else f'the newest models of {name}')


def _find(name: str, which: str) -> Provider:
    found = installed()
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f'did you mean {near[0]!r}? ' if near else ''
        raise CommandError(
            f'no provider {name!r} (of {which!r}) is installed; {hint}Installed: {", ".join(sorted(found))}'
        )
    return provider_of(found[name])


def _model(provider: Provider, name: str) -> tuple[Model | None, str]:
    """The model of this name, or why there is none. Without a name, what stands for the newest."""
    if provider.load is None:
        return None, f'the provider {provider.name!r} cannot be loaded: {provider.error}; {provider.install}'.rstrip(
            '; '
        )
    reason = ''
    for attempt in (name,) if name else ('', _ANY_MODEL):
        try:
            made = provider.load(attempt)
        except Exception as error:  # whatever somebody else's package raises
            reason = one_line(error)
            continue
        return (made, '') if isinstance(made, Model) else (None, f'{provider.name!r} made {made!r}, which is no Model')
    return None, reason


def _show_facts(out: Terminal, provider: Provider, model: Model | None) -> None:
    facts = {
        'provider': f'{provider.name}  ({provider.package}, {provider.entry.value})',
        'model': '' if model is None else f'{model.name}, priced as {model.provider}',
        'key': provider.key.text,
        'address': provider.address + (f'  (from {provider.address_variable})' if provider.address_set else ''),
        'lacks': ', '.join(map(str, provider.lacking)) + (f'; {provider.install}' if provider.install else ''),
        'error': provider.error,
    }
    for name, text in facts.items():
        if text:
            out.line(f'{name:<9}{text}')
    for fault in provider.key.faults:
        out.line(f'         {provider.key.variable} {fault}', 'red')


def _show_capabilities(out: Terminal, can: Capabilities, whose: str) -> None:
    out.line(f'what {whose} can do{" (nothing is known: this is assumed)" if can is UNKNOWN else ""}:')
    for name, value in asdict(can).items():
        out.line(f'  {"✓" if value else "✗"} {name.replace("_", " ")}', 'green' if value else 'dim')


def _data(provider: Provider) -> dict[str, Any]:
    return {
        'provider': provider.name,
        'package': provider.package,
        'entry_point': provider.entry.value,
        'ready': provider.usable,
        'error': provider.error or None,
        'key': asdict(provider.key),
        'address': provider.address or None,
        'address_variable': provider.address_variable or None,
        'extra': provider.extra or None,
        'lacking': [str(need) for need in provider.lacking],
        'install': provider.install or None,
    }


def _model_data(model: Model, can: Capabilities, *, known: bool) -> dict[str, Any]:
    return {
        'model': model.name if known else None,
        'priced_as': model.provider,
        'capabilities': asdict(can),
        'assumed': can is UNKNOWN,
    }
