"""Every example of README.md and docs/ runs, and prints what the page says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DATA, ROOT, RUN, blocks_of, pages
from tests.docs.provider import Provider, pretended
from tests.docs.running import Reader, same_output
from tests.docs.typed import PAGES, extract


@pytest.fixture(scope='module')
def provider() -> Iterator[Provider]:
    with pretended() as provider:
        yield provider


@pytest.fixture
def folder(tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and a pretended OpenAI."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('OPENAI_BASE_URL', provider.url)
    monkeypatch.setenv('OPENAI_API_KEY', 'sk-pretended')
    monkeypatch.setattr(sys, 'path', [str(tmp_path), *sys.path])
    return tmp_path


@pytest.mark.parametrize('page', pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of(page: Path, folder: Path, provider: Provider) -> None:
    reader = Reader(page, folder)
    provider.replies.clear()
    for block in blocks_of(page.read_text()):
        where = f'{page.name}, line {block.line}'
        assert block.language in RUN + DATA, f'{where}: {block.language!r} is not run; use one of {RUN + DATA}'
        assert block.excuse is None or block.excuse, f'{where}: say why it is not run'
        if block.language not in RUN or block.excuse:
            continue
        provider.replies += block.replies
        printed = reader.run(block)
        if block.output is not None:
            assert same_output(printed, block.output), f'{where} says:\n{block.output}\nbut printed:\n{printed}'
    assert not provider.replies, 'replies that nobody asked for'


@pytest.mark.parametrize('page', PAGES)
def test_the_programs_that_are_typed(page: str, tmp_path: Path) -> None:
    """`make types` reads these; without any it would find nothing wrong."""
    programs = extract(ROOT / page, tmp_path / 'programs')
    assert programs and all(compile(p.read_text(), p.name, 'exec') for p in programs)


SAMPLE = """
# Page

<!-- setup
secret = 41
-->

```python
# part.py
async def more(): return secret + 1
print(await more(), 'and', 'more')
```

```output
42 ... more
```

```console
$ python -c 'print(40 + 2)'
42
```

<!-- not run: needs a network -->
```console
$ curl example.com
```
"""


def test_blocks_run_in_order(tmp_path: Path) -> None:
    blocks = blocks_of(SAMPLE)
    assert [b.language for b in blocks] == ['python', 'python', 'console', 'console']
    assert blocks[1].line == SAMPLE.splitlines().index('# part.py') + 1
    reader = Reader(Path('page.md'), tmp_path)
    printed = [reader.run(block) for block in blocks if not block.excuse]
    assert printed == ['', '42 and more\n', "$ python -c 'print(40 + 2)'\n42"]
    assert blocks[1].output is not None
    assert same_output(printed[1], blocks[1].output)
    assert blocks[3].excuse == 'needs a network'
    assert (tmp_path / 'part.py').exists()


def test_a_wrong_output_is_seen(tmp_path: Path) -> None:
    (block,) = blocks_of("```console\n$ python -c 'print(1)'\n2\n```\n")
    with pytest.raises(AssertionError, match='expected'):
        Reader(Path('page.md'), tmp_path).run(block)
    assert not same_output('43 and more', '42 ... more')


def test_an_error_names_the_line_of_the_page(tmp_path: Path) -> None:
    (block,) = blocks_of('text\n\n```python\nx = 1\nraise KeyError(x)\n```\n')
    with pytest.raises(KeyError) as caught:
        Reader(Path('page.md'), tmp_path).run(block)
    assert caught.traceback[-1].lineno == 4  # counted from 0


def test_a_fence_that_is_not_closed_is_seen() -> None:
    with pytest.raises(ValueError, match='line 2: the fence'):
        blocks_of('text\n```python\nx = 1\n')
