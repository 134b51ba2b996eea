"""Texts that match a regular expression, for samples: short ones, as far as the expression can be followed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

__all__ = ['matching_texts']

_CLASSES = {
    'CATEGORY_DIGIT': '0123456789',
    'CATEGORY_WORD': 'abcdefghijklmnopqrstuvwxyz0123456789_',
    'CATEGORY_SPACE': ' ',
    'CATEGORY_NOT_DIGIT': 'abcdefghijklmnopqrstuvwxyz',
    'CATEGORY_NOT_WORD': '-. ',
    'CATEGORY_NOT_SPACE': 'abcdefghijklmnopqrstuvwxyz0123456789',
}
_ANY = 'abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ -_.:/@#'
_TRIES = 40


def matching_texts(pattern: str, at_least: int, turn: int) -> Iterator[str]:
    """Texts made from the pattern, the shortest first; the caller checks them, since look-arounds are not followed.

    `at_least` is a length to reach; `turn` chooses among characters and alternatives.
    """
    try:
        parsed = importlib.import_module('re._parser').parse(pattern, re.ASCII)  # the only reader of patterns there is
    except (re.error, OverflowError, RecursionError):
        return
    for extra in dict.fromkeys([*range(min(at_least, _TRIES)), at_least]):
        for shift in (turn, 0, 1):
            yield _Maker(extra, shift).sequence(parsed)


class _Maker:
    """Makes one text; repeats take `extra` more than their least number where they may."""

    def __init__(self, extra: int, turn: int) -> None:
        self.extra = extra
        self.turn = turn
        self.groups: dict[int, str] = {}

    def sequence(self, parsed: Any) -> str:
        return ''.join(self.piece(str(operation), argument) for operation, argument in parsed)

    def piece(self, operation: str, argument: Any) -> str:
        match operation:
            case 'LITERAL':
                return chr(argument)
            case 'NOT_LITERAL':
                return self.one([char for char in _ANY if char != chr(argument)])
            case 'ANY':
                return self.one(_ANY)
            case 'IN':
                return self.one(_members(argument))
            case 'MAX_REPEAT' | 'MIN_REPEAT' | 'POSSESSIVE_REPEAT':
                least, most, inner = argument
                return ''.join(self.sequence(inner) for _ in range(min(least + self.extra, int(most))))
            case 'SUBPATTERN':
                group, _, _, inner = argument
                self.groups[group] = text = self.sequence(inner)
                return text
            case 'ATOMIC_GROUP':
                return self.sequence(argument)
            case 'BRANCH':
                branches = argument[1]
                return self.sequence(branches[self.turn % len(branches)])
            case 'GROUPREF':
                return self.groups.get(argument, '')
            case _:  # anchors take no room; look-arounds are left to luck
                return ''

    def one(self, characters: Any) -> str:
        return characters[self.turn % len(characters)] if characters else ''


def _members(argument: Any) -> list[str]:
    """The characters of a class, at most a few of each range."""
    found: list[str] = []
    negated = False
    for operation, value in argument:
        match str(operation):
            case 'NEGATE':
                negated = True
            case 'LITERAL':
                found.append(chr(value))
            case 'RANGE':
                found.extend(chr(code) for code in range(value[0], min(value[1], value[0] + 40) + 1))
            case 'CATEGORY':
                found.extend(_CLASSES.get(str(value), ''))
            case _:
                pass
    return [char for char in _ANY if char not in found] if negated else found
