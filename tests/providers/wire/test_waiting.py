"""How long a server asks to wait: every way the servers tell it."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_graph_providers.wire.waiting import wait_in, wait_told

NOW = 1_764_633_600.0  # 2025-12-02T00:00:00Z


@pytest.mark.parametrize(
    ('headers', 'seconds'),
    [
        ({'Retry-After': '7'}, 7.0),
        ({'retry-after': ' 1.5 '}, 1.5),
        ({'retry-after': '-3'}, 0.0),
        ({'retry-after-ms': '250', 'retry-after': '9'}, 0.25),
        ({'retry-after': formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({'retry-after': formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({'retry-after': 'soon'}, None),
        ({'retry-after': 'nan'}, None),
        ({}, None),
        # OpenAI, Azure and Groq: durations as Go writes them; only what is used up counts
        ({'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1s'}, 1.0),
        ({'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '6m0s'}, 360.0),
        ({'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '20ms'}, 0.02),
        ({'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '2m59.56s'}, 179.56),
        (
            {
                'x-ratelimit-remaining-requests': '0',
                'x-ratelimit-reset-requests': '8s',
                'x-ratelimit-remaining-tokens': '149000',
                'x-ratelimit-reset-tokens': '1h2m3s',
            },
            8.0,
        ),
        (
            {
                'x-ratelimit-remaining-requests': '499',
                'x-ratelimit-reset-requests': '2m',
                'x-ratelimit-remaining-tokens': '150',
                'x-ratelimit-reset-tokens': '4s',
            },
            4.0,  # nothing is used up: the request was too large for what is left
        ),
        ({'x-ratelimit-remaining-requests': '3', 'x-ratelimit-reset-requests': '5s'}, None),
        # Anthropic: ISO times
        (
            {
                'anthropic-ratelimit-input-tokens-remaining': '0',
                'anthropic-ratelimit-input-tokens-reset': '2025-12-02T00:00:12Z',
                'anthropic-ratelimit-requests-remaining': '49',
                'anthropic-ratelimit-requests-reset': '2025-12-02T00:05:00Z',
            },
            12.0,
        ),
        ({'anthropic-ratelimit-unified-reset': '1764633610'}, 10.0),
        # others: seconds, with and without what is left; Unix seconds and milliseconds
        ({'x-ratelimit-remaining-tokens-minute': '0', 'x-ratelimit-reset-tokens-minute': '32.15'}, 32.15),
        ({'RateLimit-Reset': '11', 'RateLimit-Remaining': '0'}, 11.0),
        ({'x-ratelimitbysize-reset': '3'}, 3.0),
        ({'X-RateLimit-Reset': '1764633640000'}, 40.0),
        ({'X-RateLimit-Reset': '1764633599'}, 0.0),
        ({'x-ratelimit-reset': 'inf'}, None),
        ({'x-ratelimit-reset-tokens': '5 apples'}, None),
        ({'x-ratelimit-reset-tokens': f'{"9" * 400}s'}, None),
        ({'x-preset': '5', 'x-ratelimit-resettled': '4'}, None),
    ],
)
def test_headers(headers: dict[str, str], seconds: float | None) -> None:
    told = wait_told(headers, NOW)
    assert told is None if seconds is None else told == pytest.approx(seconds)


def test_limits_say_nothing_about_other_errors() -> None:
    used_up = {'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '9s'}
    left = {'x-ratelimit-remaining-tokens': '5', 'x-ratelimit-reset-tokens': '9s'}
    assert wait_told(used_up, NOW, 429) == 9
    assert wait_told(used_up, NOW, 503) == 9
    assert wait_told(used_up, NOW, 500) is None
    assert wait_told(left, NOW, 429) == 9
    assert wait_told(left, NOW, 503) is None
    assert wait_told({**left, 'retry-after': '2'}, NOW, 500) == 2


@pytest.mark.parametrize(
    ('body', 'seconds'),
    [
        (
            {
                'error': {
                    'code': 429,
                    'message': 'You exceeded your current quota.',
                    'details': [
                        {'@type': 'type.googleapis.com/google.rpc.QuotaFailure', 'violations': [{'quotaId': 'q'}]},
                        {'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '34.4s'},
                    ],
                }
            },
            34.4,
        ),
        ({'error': {'message': 'Rate limit reached for gpt-5: Limit 3, Used 3. Please try again in 20s.'}}, 20.0),
        ({'message': 'Please try again in 6ms. Visit https://example.com'}, 0.006),
        ({'message': 'Please try again in 1m12.5s.'}, 72.5),
        ({'error': {'message': 'Requests exceeded the limit. Please retry after 52 seconds.'}}, 52.0),
        ({'error': {'message': 'Retry in 2 minutes'}}, 120.0),
        ('slow down, try again in 3 seconds', 3.0),
        ({'error': {'message': 'Please try again later.'}}, None),
        ({'error': {'message': 'Please retry after 52.'}}, None),
        ({'error': {'retryDelay': 'soon', 'message': None}}, None),
        (None, None),
        (b'try again in 3 seconds', None),
        ([[[[[[[{'retryDelay': '1s'}]]]]]]], None),
    ],
)
def test_bodies(body: Any, seconds: float | None) -> None:
    told = wait_in(body)
    assert told is None if seconds is None else told == pytest.approx(seconds)


NAMES = st.sampled_from(
    ['retry-after', 'retry-after-ms', 'x-ratelimit-reset-requests', 'x-ratelimit-remaining-requests']
)


@given(st.dictionaries(NAMES | st.text(max_size=20), st.text(max_size=30)), st.integers(0, 999))
def test_any_header_is_read_without_error(headers: dict[str, str], status: int) -> None:
    told = wait_told(headers, NOW, status)
    assert told is None or told >= 0


JSON = st.recursive(
    st.none() | st.text() | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(JSON)
def test_any_body_is_read_without_error(body: Any) -> None:
    told = wait_in(body)
    assert told is None or told >= 0
