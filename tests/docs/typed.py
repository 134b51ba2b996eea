"""Types of the programs that README.md and docs/ show, strictly: `python -m tests.docs.typed`, a part of `make types`.

A program is a `python` block whose first line is a comment with a file name. Each page's programs lie in one folder, as
they do for its reader; what stands between them belongs to a session and is not looked at here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.docs.pages import ROOT, blocks_of

__all__ = ['PAGES', 'extract', 'main']

PAGES = ('README.md', 'docs/durable-graphs.md')
"""Pages that hold to strict types: where people begin, and where type checkers matter most."""

_NAME = re.compile(r'# (\w+\.py)\n')


def extract(page: Path, folder: Path) -> list[Path]:
    """Write the programs of a page into `folder`."""
    folder.mkdir(parents=True)
    written: list[Path] = []
    for block in blocks_of(page.read_text()):
        if block.language == 'python' and (name := _NAME.match(block.text)):
            written.append(folder / name[1])
            written[-1].write_text(block.text)
    return written


def main() -> int:
    """The exit code of pyright, run over all programs at once."""
    with TemporaryDirectory() as place:
        folders = [Path(place, re.sub(r'\W', '_', page)) for page in PAGES]
        for page, folder in zip(PAGES, folders, strict=True):
            if not extract(ROOT / page, folder):
                raise SystemExit(f'{page} shows no program; take it out of PAGES')
        config = {
            'typeCheckingMode': 'strict',
            'pythonVersion': '3.11',
            'executionEnvironments': [
                {'root': str(folder), 'extraPaths': [str(ROOT), str(ROOT / 'providers')]} for folder in folders
            ],
        }
        Path(place, 'pyrightconfig.json').write_text(json.dumps(config))
        command = [sys.executable, '-m', 'pyright', '--project', place, '--pythonpath', sys.executable]
        return subprocess.run(command, check=False).returncode


if __name__ == '__main__':
    raise SystemExit(main())
