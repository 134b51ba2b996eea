"""Case 16: halves of surrogate pairs never get further than the door."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_graph.text import clean_json, clean_text

COCKTAIL = '\U0001f378'


@pytest.mark.parametrize(
    ('text', 'clean'),
    [
        ('plain', 'plain'),
        ('\ud83c\udf78', COCKTAIL),
        ('a\ud83cb', 'a\ufffdb'),
        ('\udc97', '\ufffd'),
        ('\ud83c', '\ufffd'),  # noqa: PT014 (another half)
        ('\udf78\ud83c', '\ufffd\ufffd'),
        ('\ud83c\ud83c\udf78', '\ufffd' + COCKTAIL),
    ],
)
def test_pairs_are_joined_and_halves_replaced(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    clean_text(text).encode()  # and it can be sent


@pytest.mark.parametrize(
    'text', ['', 'abc', '\U0001f469\u200d\U0001f469\u200d\U0001f467', 'x\u200f\u202ey', 'é', '\x00', '\ufffd']
)
def test_text_that_can_be_sent_is_returned_as_it_is(text: str) -> None:
    assert clean_text(text) is text


@given(st.text(st.characters() | st.sampled_from('\ud83c\udf78\udc97')))
def test_any_text_can_be_encoded_afterwards_and_cleaning_twice_changes_nothing(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert clean_text(clean) == clean


def test_json_is_cleaned_at_any_depth_and_left_alone_when_it_is_clean() -> None:
    assert clean_json({'k\udc97': ['\ud83c\udf78', {'a': '\ud83c'}, 1, None, True]}) == {
        'k\ufffd': [COCKTAIL, {'a': '\ufffd'}, 1, None, True]
    }
    clean = {'a': ['b', 10**400, 1.5]}
    assert clean_json(clean) is clean
