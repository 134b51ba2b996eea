"""Runs the blocks of a page as a reader would, and compares what they print."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT, Block

__all__ = ['Reader', 'same_output']

_FILE = re.compile(r'# (?P<name>[\w/]+\.py)\s*')
_MODULE = 'page_of_the_documentation'
_SECONDS = 60


class Reader:
    """Somebody who types the examples of one page into one session, in one folder."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._module = types.ModuleType(_MODULE)
        shutil.copytree(ROOT / 'examples', folder / 'examples', ignore=shutil.ignore_patterns('__pycache__', '*.db*'))

    def run(self, block: Block) -> str:
        """Run one block; what it printed. Errors have the page's own line numbers."""
        if block.language == 'console':
            return self._console(block)
        if name := _FILE.match(block.text):
            path = self._folder / name['name']
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        return self._python(block)

    def _python(self, block: Block) -> str:
        code = compile(
            '\n' * (block.line - 1) + block.text,
            str(self._page),
            'exec',
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        printed = io.StringIO()
        sys.modules[_MODULE] = self._module  # annotations are looked up here
        try:
            with contextlib.redirect_stdout(printed):
                running: Any = eval(code, self._module.__dict__)
                if inspect.iscoroutine(running):
                    asyncio.run(asyncio.wait_for(running, _SECONDS))
        finally:
            del sys.modules[_MODULE]
        return printed.getvalue()

    def _console(self, block: Block) -> str:
        """Each command with what it printed, as a terminal shows it."""
        shown: list[str] = []
        for line in block.text.splitlines():
            if line.startswith('$ '):
                shown += [line, *self._shell(line[2:], block).splitlines()]
        expected = block.text.strip()
        assert same_output('\n'.join(shown), expected) or not _has_output(block), _differ(expected, '\n'.join(shown))
        return '\n'.join(shown)

    def _shell(self, command: str, block: Block) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get('PATH', '')])
        done = subprocess.run(
            ['bash', '-c', command],
            cwd=self._folder,
            env={**os.environ, 'PATH': path, 'NO_COLOR': '1', 'COLUMNS': '120'},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        killed = 'kill' in command
        assert done.returncode == 0 or killed, (
            f'line {block.line}: {command!r} ended with {done.returncode}:\n{done.stdout}'
        )
        return done.stdout


def same_output(actual: str, expected: str) -> bool:
    """Whether they are the same but for white space at line ends; `...` stands for anything, over lines as well."""
    pattern = '.*'.join(re.escape(part) for part in _trimmed(expected).split('...'))
    return re.fullmatch(pattern, _trimmed(actual), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return '\n'.join(line.rstrip() for line in text.strip().splitlines())


def _has_output(block: Block) -> bool:
    return any(line and not line.startswith('$ ') for line in block.text.splitlines())


def _differ(expected: str, actual: str) -> str:
    return f'expected:\n{expected}\n\nprinted:\n{actual}'
