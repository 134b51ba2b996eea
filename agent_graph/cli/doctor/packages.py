"""Python and the installed packages."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from agent_graph.cli.doctor.findings import Finding, fine, note, problem
from agent_graph.cli.requirements import Requirement, installed_version, requirements, satisfies

__all__ = ['packages', 'python']

_PACKAGE = 'agent-graph'


def python() -> Iterator[Finding]:
    """The interpreter, and the parts of it that some builds leave out."""
    found, where = platform.python_version(), f'{platform.python_implementation()} in {sys.prefix}'
    wanted = _wanted_python()
    if satisfies(found, wanted):
        yield fine('Python', f'{found} ({where})')
    else:
        yield problem('Python', f'{found} ({where}) is not {wanted}', f'use Python {wanted}')
    for module, use in (('ssl', 'no provider can be reached over https'), ('sqlite3', 'no run can be kept in a file')):
        if importlib.util.find_spec(f'_{module}') is None:
            yield problem('Python', f'it was built without {module}: {use}', 'use another build of Python')


def _wanted_python() -> str:
    try:
        return distribution(_PACKAGE).metadata['Requires-Python'] or ''
    except (PackageNotFoundError, KeyError):
        return ''


def packages() -> Iterator[Finding]:
    """Versions of what agent-graph needs, of its extras as far as they are there, and of what brings other providers."""
    try:
        dist = distribution(_PACKAGE)
    except PackageNotFoundError:
        yield problem(
            'packages',
            f'{_PACKAGE} is imported from {sys.path[0] or "."!r}, but not installed: no provider is found',
            'pip install . in its folder',
        )
        return
    yield fine('packages', f'{_PACKAGE} {dist.version}')
    faults = [need for need in requirements(dist) if need.fault]
    yield from (_lack(need) for need in faults)
    extras = [(extra, need) for extra in _extras(dist) for need in requirements(dist, extra)]
    there = [(extra, need) for extra, need in extras if installed_version(need.name) is not None]
    yield from (_lack(need, f'the extra {extra!r}') for extra, need in there if need.fault)
    if not faults and not any(need.fault for _, need in there):
        names = ', '.join(f'{need.name} {installed_version(need.name)}' for need in requirements(dist))
        yield fine('packages', f'all versions fit: {names}')
    if missing := sorted({extra for extra, _ in extras} - {extra for extra, _ in there}):
        yield note('packages', f'extras that are not installed: {", ".join(missing)}')


def _extras(dist: Distribution) -> list[str]:
    return dist.metadata.get_all('Provides-Extra') or []


def _lack(need: Requirement, who: str = _PACKAGE) -> Finding:
    return problem('packages', f'{need.name} {need.fault} (for {who})', f"pip install '{need}'")
