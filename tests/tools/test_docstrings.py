"""Descriptions from docstrings of three styles; text without sections is untouched."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agent_graph.tools.docstrings import read_docstring

GOOGLE = """Find a {place}.

    More about {{it}}, in
    two lines.

    Args:
        city: Where to
            look.
        limit (int): At most this many.
        *rest: Others.

    Returns:
        The places found.

    Raises:
        ValueError: Never shown to a model.
    """

NUMPY = """Find a {place}.

    More about {{it}}, in
    two lines.

    Parameters
    ----------
    city : str
        Where to
        look.
    limit, other : int, optional
        At most this many.
    **rest
        Others.

    Returns
    -------
    list
        The places found.
    """

SPHINX = """Find a {place}.

    More about {{it}}, in
    two lines.

    :param city: Where to
        look.
    :param int limit: At most this many.
    :param rest: Others.
    :returns: The places found.
    :rtype: list
    """


@pytest.mark.parametrize('text', [GOOGLE, NUMPY, SPHINX], ids=['google', 'numpy', 'sphinx'])
def test_the_three_styles_say_the_same(text: str) -> None:
    read = read_docstring(text)
    assert read.description == 'Find a {place}.\n\nMore about {{it}}, in\ntwo lines.\n\nReturns: The places found.'
    assert read.parameters['city'] == 'Where to\nlook.'
    assert read.parameters['limit'] == 'At most this many.'
    assert read.parameters['rest'] == 'Others.'
    assert 'Never shown' not in read.description


def test_numpy_can_describe_two_parameters_at_once() -> None:
    assert read_docstring(NUMPY).parameters['other'] == 'At most this many.'


@pytest.mark.parametrize(
    'text', ['Sum.\n\n:param a: first', 'Sum.\n\nArgs:\n    a: first', 'Sum.\n\nParameters\n---\na\n    first']
)
def test_a_section_may_end_the_docstring(text: str) -> None:
    read = read_docstring(text)
    assert (read.description, read.parameters) == ('Sum.', {'a': 'first'})


@pytest.mark.parametrize('text', [None, '', '   \n  '])
def test_nothing_is_an_empty_description(text: str | None) -> None:
    assert read_docstring(text).description == ''


@pytest.mark.parametrize('text', ['{x} {{y}} ${z} %(a)s {{ 7*7 }}', 'Use Args: inline,\n  - a list\nof {things}'])
def test_text_without_sections_is_kept_byte_for_byte(text: str) -> None:
    assert read_docstring(text).description == text


def test_the_parser_is_only_loaded_for_sections() -> None:
    code = (
        'import sys; from agent_graph.tools.docstrings import read_docstring; read_docstring("Just text.");'
        'assert "griffe" not in sys.modules; read_docstring("A.\\n\\nArgs:\\n    a: b\\n"); assert "griffe" in sys.modules'
    )
    subprocess.run([sys.executable, '-c', code], check=True, timeout=60)
