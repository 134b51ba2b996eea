"""What the server answers -> our parts; and faults people met on the wire, through a whole Agent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ModelHTTPError, ModelProtocolError, ModelTimeout
from agent_graph.messages import (
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    dump_json,
    is_valid,
    load_json,
)
from agent_graph_providers.ollama import OllamaModel
from tests.providers.cost import calls_per_chunk
from tests.providers.loopback import Loopback, Reply, json_reply
from tests.providers.ollama.server import call, end, failure, got, lines, piece


class TestAnswers:
    @pytest.mark.parametrize('kind', ['application/x-ndjson', 'application/json'])
    def test_a_stream(self, kind: str) -> None:
        calls = [call('f', {'x': 1}, id='a'), call('f', {'x': 2})]
        items = [piece(thinking='h'), piece(thinking='m'), piece(content='I '), piece(content='call')]
        reply = lines(*items, piece(tool_calls=calls[:1]), piece(tool_calls=calls[1:]), end(), kind=kind, split=6)
        found = got(reply)
        assert found.parts == (
            ThinkingPart('hm'),
            TextPart('I call'),
            ToolCallPart('f', {'x': 1}, 'a'),
            ToolCallPart('f', {'x': 2}, ''),
        )
        message = {'content': 'I call', 'thinking': 'hm', 'tool_calls': calls}
        plain = got(json_reply(end(message=message)), watched=False)
        assert plain.parts == found.parts and plain.usage == found.usage
        assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.total_tokens) == (3, 2, 5)
        assert (found.model_name, found.finish_reason) == ('m:latest', 'tool_calls')
        assert found.provider_details == {'finish_reason': 'stop', 'timings': {'eval_duration': 9}}

    @pytest.mark.parametrize(
        ('word', 'reason'), [('stop', 'stop'), ('length', 'length'), ('load', 'other'), (None, 'stop')]
    )
    def test_why_it_ended(self, word: str | None, reason: str) -> None:
        assert got(lines(piece(content='x'), end(done_reason=word))).finish_reason == reason

    def test_log_probabilities(self) -> None:
        item = {'token': 'x', 'logprob': -0.1}
        found = got(lines({**piece(content='x'), 'logprobs': [item]}, end()))
        assert found.provider_details is not None and found.provider_details['logprobs'] == {'content': [item]}

    @pytest.mark.parametrize('split', [1, 3, 100])
    def test_thinking_tags_are_not_the_answer(self, split: int) -> None:
        text = '<think>secret plan</think>\nHello <thin'
        pieces = [piece(content=text[at : at + split]) for at in range(0, len(text), split)]
        assert got(lines(*pieces, end())).parts == (ThinkingPart('secret plan'), TextPart('\nHello <thin'))

    def test_half_pairs(self) -> None:
        raw = [f'{{"message":{{"content":"{text}"}},"done":false}}' for text in ('a\\ud83c', '\\udf78\\ud83c')]
        assert got(lines(*raw, end())).parts == (TextPart('a\U0001f378\ufffd'),)

    def test_numbers_beyond_every_bound_can_be_stored(self) -> None:
        raw = '{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"x":1e400}}}]},"done":false}'
        message = got(lines(raw, end(eval_duration=1)))
        assert isinstance(message.parts[0], ToolCallPart) and isinstance(message.parts[0].args, str)
        assert load_json(dump_json([message])) == [message]

    def test_an_image(self) -> None:
        (part,) = got(lines(piece(images=['AAAA']), end())).parts
        assert isinstance(part, FilePart) and part.url == 'data:image/*;base64,AAAA'


NONSENSE: list[Any] = [[], {}, {'message': {}}, {'message': {'tool_calls': 3}}, {'message': {'tool_calls': [{}]}}]


class TestErrors:
    def test_told_by_the_status(self) -> None:
        error = failure(json_reply({'error': "model 'm' not found"}, status=404))
        assert isinstance(error, ModelHTTPError) and error.status == 404 and 'not found' in str(error)

    def test_in_the_stream_and_within_a_200(self) -> None:
        assert 'died' in str(failure(lines(piece(content='x'), {'error': 'the runner died'})))
        assert isinstance(failure(json_reply({'error': 'the runner died'}), watched=False), ModelHTTPError)

    @pytest.mark.parametrize(
        'items', [[], [piece(content='x')], [piece(content='x'), '{"message":'], ['garbage'], ['[]']]
    )
    def test_a_stream_without_its_end(self, items: list[Any]) -> None:
        assert isinstance(failure(lines(*items)), ModelProtocolError)

    @pytest.mark.parametrize('data', NONSENSE)
    def test_nonsense(self, data: Any) -> None:
        assert isinstance(failure(json_reply(data), watched=False), ModelProtocolError)

    def test_a_stream_that_stands_still(self) -> None:
        assert isinstance(failure(lines(piece(content='x'), hang=True), event_timeout=0.1), ModelTimeout)


class TestAgent:
    def run(self, replies: list[Reply]) -> tuple[list[int], list[Any]]:
        async def main() -> tuple[list[int], list[Any]]:
            seen: list[int] = []
            async with Loopback(replies) as server:
                agent = Agent(OllamaModel('m', base_url=server.url))

                @agent.tool
                async def f(x: int) -> str:  # pyright: ignore[reportUnusedFunction]
                    seen.append(x)
                    return f'f{x}'

                async with agent.run_stream('go') as stream:
                    assert is_valid((await stream.result()).messages)
                return seen, [r.json['messages'] for r in server.requests]

        return asyncio.run(main())

    DONE = lines(piece(content='done'), end())

    @pytest.mark.parametrize('ids', [[{}, {}], [{'id': ''}, {'id': ''}], [{'id': 'same'}, {'id': 'same'}]])
    def test_calls_with_ids_that_are_missing_or_repeated(self, ids: list[dict[str, Any]]) -> None:
        calls = [call('f', {'x': n}, **i) for n, i in enumerate(ids)]
        seen, requests = self.run([lines(piece(tool_calls=calls), end()), self.DONE])
        assert seen == [0, 1]
        called = [c['id'] for c in requests[1][1]['tool_calls']]
        assert called == [m['tool_call_id'] for m in requests[1][2:]] and len(set(called)) == 2

    def test_calls_are_not_run_when_the_answer_is_cut_off(self) -> None:
        with pytest.raises(ModelProtocolError):
            self.run([lines(piece(tool_calls=[call('f', {'x': 1})]))])

    def test_arguments_that_are_text(self) -> None:
        seen, requests = self.run(
            [lines(piece(tool_calls=[call('f', '{"x": 1}'), call('f', '{"x": ')]), end()), self.DONE]
        )
        assert seen == [1] and requests[1][1]['tool_calls'][1]['function']['arguments'] == {
            'invalid_arguments': '{"x": '
        }


def chunks(count: int) -> list[bytes]:
    """A stream of `count` pieces of text."""
    return [(json.dumps(e) + '\n').encode() for e in [*(piece(content=f'tok{i} ') for i in range(count)), end()]]


def test_calls_per_streamed_chunk() -> None:
    """Engine and HTTP client included."""
    kind = 'application/x-ndjson'
    assert calls_per_chunk(lambda url: OllamaModel('m', base_url=url), chunks, kind) <= 250  # the bound is 350
