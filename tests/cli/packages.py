"""Packages that look installed: the metadata pip leaves, in a folder that is put on the Python path."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ['install']


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    version: str = '1.0',
    *,
    requires: Sequence[str] = (),
    extras: Sequence[str] = (),
    providers: Sequence[str] = (),
    files: Sequence[str] = (),
) -> None:
    """A package of this name, before all others and in place of an earlier one. `providers` are lines of entry points, `files` what it has brought."""
    short = name.replace('-', '_')
    for old in (folder / 'packages').glob(f'{short}-*.dist-info'):
        shutil.rmtree(old)
    info = folder / 'packages' / f'{short}-{version}.dist-info'
    info.mkdir(parents=True)
    head = [f'Name: {name}', f'Version: {version}', 'Requires-Python: >=3.11']
    head += [f'Requires-Dist: {line}' for line in requires] + [f'Provides-Extra: {extra}' for extra in extras]
    (info / 'METADATA').write_text('\n'.join(['Metadata-Version: 2.4', *head, '']))
    (info / 'entry_points.txt').write_text('\n'.join(['[agent_graph.providers]', *providers, '']))
    (info / 'RECORD').write_text('\n'.join(f'{file},,' for file in files))
    monkeypatch.setattr(sys, 'path', [str(folder / 'packages'), *[p for p in sys.path if Path(p).name != 'packages']])
