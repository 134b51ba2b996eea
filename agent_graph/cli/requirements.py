"""What a distribution needs, and whether that is installed, from the metadata pip has left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, version

__all__ = ['Requirement', 'extra_of', 'installed_version', 'requirements', 'satisfies']

_LINE = re.compile(r'(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<spec>[^;)]*)\)?\s*(?:;\s*(?P<marker>.*))?')
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w.-]+)['"]""")
_CLAUSE = re.compile(r'(~=|===?|!=|<=|>=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?')


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that is needed, in the versions `spec` allows, such as `>=3,<4`."""

    name: str
    spec: str = ''

    def __str__(self) -> str:
        return f'{self.name}{self.spec}'

    @property
    def fault(self) -> str:
        """What is wrong with it, in words; `''` when the right version is installed."""
        found = installed_version(self.name)
        if found is None:
            return 'is not installed'
        return '' if satisfies(found, self.spec) else f'is {found}, and {self.spec} is needed'


def installed_version(name: str) -> str | None:
    """The version of an installed package; `None` if it is not there, or nothing is known of it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def requirements(dist: Distribution, extra: str = '') -> list[Requirement]:
    """What a distribution needs by itself, or what one of its extras adds.

    Requirements for some systems or Python versions only are left out: whoever installed it has judged them.
    """
    return [found for found, needed_by in _read(dist) if needed_by == extra]


def _read(dist: Distribution) -> Iterator[tuple[Requirement, str]]:
    for line in dist.requires or ():
        parts = _LINE.fullmatch(line.strip())
        if parts is None:
            continue
        marker = parts['marker'] or ''
        extra = _EXTRA.search(marker)
        if marker and (extra is None or _EXTRA.sub('', marker).strip('() ')):
            continue
        spec = ','.join(sorted((c.strip() for c in parts['spec'].split(',') if c.strip()), reverse=True))
        yield Requirement(parts['name'], spec), extra[1] if extra else ''


def extra_of(dist: Distribution | None, name: str) -> str:
    """`name` if the distribution has an extra called so, else `''`."""
    extras = dist.metadata.get_all('Provides-Extra') or [] if dist is not None else []
    return name if name in extras else ''


def satisfies(found: str, spec: str) -> bool:
    """Whether a version is one of those a specifier allows; what cannot be read is allowed."""
    have = _numbers(found)
    return all(_holds(have, *clause) for clause in _CLAUSE.findall(spec)) if have else True


def _numbers(text: str) -> tuple[int, ...]:
    release = re.match(r'(?:\d+!)?(\d+(?:\.\d+)*)', text)
    return tuple(map(int, release[1].split('.'))) if release else ()


def _holds(have: tuple[int, ...], sign: str, text: str, wild: str) -> bool:
    want = _numbers(text)
    if wild or sign == '~=':
        family = want if wild else want[:-1]
        same = have[: len(family)] == family
        if sign == '!=':
            return not same
        return same and (sign != '~=' or have >= want)
    size = max(len(have), len(want))
    left, right = have + (0,) * (size - len(have)), want + (0,) * (size - len(want))
    return {
        '==': left == right,
        '===': left == right,
        '!=': left != right,
        '<': left < right,
        '<=': left <= right,
        '>': left > right,
        '>=': left >= right,
    }[sign]
