"""The embedded model for real: llama.cpp with the default weights."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from agent_graph import Agent, ConfigError, ModelHTTPError, RunContext
from agent_graph.messages import AssistantMessage, Message, TextPart, ToolCallPart, UserMessage
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.local import LocalModel, stop_servers

QUESTION = 'How high above the sea is Denver, in feet?'
CITY: dict[str, Any] = {
    'type': 'object',
    'properties': {'city': {'enum': ['Quito', 'Denver', 'Madrid']}},
    'required': ['city'],
}
LOOK = ToolDefinition('look_up_city', 'Look up the country of a city and its height in metres.', CITY)
CONVERT = ToolDefinition(
    'metres_to_feet',
    'Convert metres to feet.',
    {'type': 'object', 'properties': {'metres': {'type': 'number'}}, 'required': ['metres']},
)
SHORT = ModelSettings(max_tokens=12)


class Seen(list[Any]):
    """What a reader was shown."""

    def __init__(self) -> None:
        self.first = asyncio.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        self.first.set()


async def ask(
    model: LocalModel,
    info: RequestInfo,
    messages: Sequence[Message] = (UserMessage(QUESTION),),
    *,
    seen: list[Any] | None = None,
) -> AssistantMessage:
    async def sink(event: type[Any], **fields: Any) -> None:
        assert seen is not None
        seen.append(fields.get('delta') or fields.get('part'))

    out = ResponseBuilder(sink if seen is not None else None)
    await model.respond(messages, info, out)
    await out.finish()
    return out.build()


def only_call(response: AssistantMessage) -> ToolCallPart:
    (part,) = response.parts
    assert isinstance(part, ToolCallPart)
    return part


def args_of(call: ToolCallPart) -> Any:
    return call.args if isinstance(call.args, dict) else json.loads(call.args)


def test_one_tool_allowed_is_called(local: LocalModel) -> None:
    response = asyncio.run(ask(local, RequestInfo((LOOK, CONVERT), tool_choice=('look_up_city',))))
    call = only_call(response)
    assert (call.tool_name, args_of(call)) == ('look_up_city', {'city': 'Denver'})
    assert response.finish_reason == 'tool_calls'
    assert (response.model_name, response.provider_name) == ('SmolLM2-135M-Instruct.Q4_1', 'local')
    assert response.usage.input_tokens > 20
    assert response.usage.output_tokens > 5


@pytest.mark.parametrize(
    'info',
    [
        RequestInfo((LOOK, CONVERT), tool_choice=('look_up_city',)),
        RequestInfo((LOOK, CONVERT), tool_choice='required'),
        RequestInfo((LOOK,), SHORT, tool_choice='none'),
        RequestInfo(output_schema=OutputSchema('city', CITY)),
    ],
    ids=['call', 'choice', 'text', 'value'],
)
def test_streamed_and_plain_answers_are_the_same(local: LocalModel, info: RequestInfo) -> None:
    seen: list[Any] = []
    plain = asyncio.run(ask(local, info))
    streamed = asyncio.run(ask(local, info, seen=seen))
    assert streamed.parts == plain.parts != ()
    assert streamed.finish_reason == plain.finish_reason
    assert seen


def test_a_choice_is_a_call_that_fits_its_schema(local: LocalModel) -> None:
    call = only_call(asyncio.run(ask(local, RequestInfo((LOOK, CONVERT), allow_text=False))))
    args = args_of(call)
    if call.tool_name == 'look_up_city':
        assert args['city'] in CITY['properties']['city']['enum']
    else:
        assert call.tool_name == 'metres_to_feet'
        assert isinstance(args['metres'], int | float)


@pytest.mark.parametrize('streamed', [False, True])
def test_no_tool_gets_the_arguments_of_another(local: LocalModel, streamed: bool) -> None:
    """Whatever the model would rather write: here it has been shown the wrong call and is asked for it again."""
    texts: dict[str, Any] = {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}
    numbers: dict[str, Any] = {'type': 'object', 'properties': {'metres': {'type': 'number'}}, 'required': ['metres']}
    tools = tuple(
        ToolDefinition(name, 'A tool.', {**schema, 'additionalProperties': False})
        for name, schema in (('look', texts), ('convert', numbers))
    )
    wrong = '{"tool": "look", "arguments": {"metres": 3}}'
    prompt = UserMessage(f'Repeat exactly: {wrong}')
    history = [prompt, AssistantMessage([TextPart(wrong)]), prompt]
    for seed in range(4):
        settings = ModelSettings(temperature=1.2, seed=seed, max_tokens=60)
        info = RequestInfo(tools, settings, tool_choice='required')
        answer = asyncio.run(ask(local, info, history, seen=[] if streamed else None))
        if answer.finish_reason == 'length':
            continue
        call = only_call(answer)
        assert list(args_of(call)) == {'look': ['city'], 'convert': ['metres']}[call.tool_name]


def test_native_output_follows_its_schema(local: LocalModel) -> None:
    (part,) = asyncio.run(ask(local, RequestInfo(output_schema=OutputSchema('city', CITY)))).parts
    assert isinstance(part, TextPart)
    assert json.loads(part.content) == {'city': 'Denver'}


def test_recursive_and_referring_schemas_are_followed(local: LocalModel) -> None:
    node: dict[str, Any] = {
        'type': 'object',
        'properties': {
            'city': {'$ref': '#/$defs/City'},
            'next': {'anyOf': [{'type': 'null'}, {'$ref': '#/$defs/Node'}]},
        },
        'required': ['city', 'next'],
    }
    schema = {**node, '$defs': {'Node': node, 'City': CITY['properties']['city']}}
    chain = ToolDefinition('chain', 'Name cities in a row.', schema)
    settings = ModelSettings(max_tokens=120)
    call = only_call(
        asyncio.run(ask(local, RequestInfo((chain, LOOK), settings, tool_choice=('chain', 'look_up_city'))))
    )
    assert call.tool_name in ('chain', 'look_up_city')


def test_a_call_that_is_cut_off_says_so(local: LocalModel) -> None:
    info = RequestInfo((LOOK,), ModelSettings(max_tokens=5), tool_choice='required')
    response = asyncio.run(ask(local, info))
    call = only_call(response)
    assert response.finish_reason == 'length'
    with pytest.raises(json.JSONDecodeError):
        args_of(call)


def test_a_prompt_that_is_too_long_is_an_error_of_the_request(local: LocalModel) -> None:
    with pytest.raises(ModelHTTPError, match='context') as caught:
        asyncio.run(ask(local, RequestInfo(), [UserMessage('word ' * 9000)]))
    assert (caught.value.status, caught.value.provider) == (400, 'local')


def test_threads_and_loops_share_one_server(local: LocalModel) -> None:
    others = [local, LocalModel()]
    answers: list[AssistantMessage] = []

    def work(model: LocalModel) -> None:
        answers.append(asyncio.run(ask(model, RequestInfo(settings=SHORT))))

    threads = [threading.Thread(target=work, args=(model,)) for model in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0].parts == answers[1].parts != ()
    assert len({id(model._asked[0]) for model in others if model._asked}) == 1  # pyright: ignore[reportPrivateUsage]


def test_loading_does_not_stop_the_loop(local: LocalModel) -> None:
    async def main() -> tuple[float, float]:
        """The longest time the loop stood still, and how long it took until the model was there."""
        start = last = time.perf_counter()
        asking = asyncio.create_task(ask(local, RequestInfo(settings=ModelSettings(max_tokens=1))))
        longest = 0.0
        while not asking.done():
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        await asking
        return longest, last - start

    asyncio.run(ask(local, RequestInfo(settings=SHORT)))  # the SDK is imported by then, which does stop the loop
    stop_servers()
    longest, whole = asyncio.run(main())
    assert longest < whole / 2  # most of the time is loading


def test_proxies_are_for_others(local: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ('HTTP_PROXY', 'http_proxy', 'ALL_PROXY'):
        monkeypatch.setenv(name, 'http://127.0.0.1:9')
    assert asyncio.run(ask(LocalModel(), RequestInfo(settings=SHORT))).parts


def test_cancelling_stops_the_model(local: LocalModel) -> None:
    async def main() -> float:
        seen = Seen()
        long = ask(
            local, RequestInfo(settings=ModelSettings(max_tokens=3000)), [UserMessage('Tell a long story.')], seen=seen
        )
        asking = asyncio.create_task(long)
        await asyncio.wait_for(seen.first.wait(), 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        start = time.perf_counter()
        await ask(local, RequestInfo(settings=ModelSettings(max_tokens=2)))
        return time.perf_counter() - start

    assert asyncio.run(main()) < 10  # 3,000 tokens take 40 s, and there is one slot


def test_a_server_that_died_is_started_anew(local: LocalModel) -> None:
    asyncio.run(ask(local, RequestInfo(settings=SHORT)))
    assert local._asked is not None  # pyright: ignore[reportPrivateUsage]
    process = local._asked[0].process  # pyright: ignore[reportPrivateUsage]
    process.kill()
    process.wait()
    assert asyncio.run(ask(local, RequestInfo(settings=SHORT))).parts


CHILD = """
import asyncio, sys, time
from agent_graph.messages import UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph_providers.local import LocalModel

model = LocalModel()
asyncio.run(model.respond([UserMessage('Hi')], RequestInfo(settings={'max_tokens': 1}), ResponseBuilder()))
print(model._asked[0].process.pid, flush=True)
if len(sys.argv) > 1:
    time.sleep(60)
"""


@pytest.mark.parametrize('killed', [False, True])
def test_the_server_ends_with_the_process(local: LocalModel, killed: bool) -> None:
    child = subprocess.Popen([sys.executable, '-c', CHILD, *['wait'] * killed], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    server = int(child.stdout.readline())
    if killed:
        child.kill()
    assert child.wait(20) == (-signal.SIGKILL if killed else 0)
    child.stdout.close()
    deadline = time.monotonic() + 10
    while runs(server):
        assert time.monotonic() < deadline, 'the server outlived its process'
        time.sleep(0.05)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f'/proc/{pid}/stat')
    return not state.exists() or state.read_text().rpartition(')')[2].split()[0] != 'Z'


def test_a_damaged_model_is_a_typed_error(local: LocalModel, tmp_path: Path) -> None:
    damaged = tmp_path / 'damaged.gguf'
    damaged.write_bytes(b'GGUF' + bytes(100))
    with pytest.raises(ConfigError, match=r"llama\.cpp cannot load '.*damaged\.gguf': .+; check the file"):
        asyncio.run(ask(LocalModel(damaged), RequestInfo()))


def test_native_leaves_the_tools_to_the_models_own_template(local: LocalModel) -> None:
    # This model's template knows none, so they are not seen: it answers in words.
    response = asyncio.run(ask(LocalModel(tools='native'), RequestInfo((LOOK,), SHORT)))
    (part,) = response.parts
    assert isinstance(part, TextPart)
    assert (response.finish_reason, response.provider_name) == ('length', 'local')


City = Literal['Quito', 'La Paz', 'Denver', 'Bogota', 'Kathmandu', 'Nairobi', 'Madrid']
HEIGHTS = {
    'Quito': ('Ecuador', 2850),
    'La Paz': ('Bolivia', 3640),
    'Denver': ('United States', 1609),
    'Bogota': ('Colombia', 2640),
    'Kathmandu': ('Nepal', 1400),
    'Nairobi': ('Kenya', 1795),
    'Madrid': ('Spain', 667),
}


class Height(BaseModel):
    city: City
    country: str
    metres: int
    feet: int


def in_order(ctx: RunContext[Any]) -> list[str]:
    """The application leads: first one tool, then the other, then the answer."""
    return [['look_up_city', 'metres_to_feet', 'final_result'][ctx.usage.tool_calls]]


def height_agent(model: LocalModel) -> Agent[None, Height]:
    agent = Agent(model, output_type=Height, model_settings={'tool_choice': in_order})

    @agent.tool
    def look_up_city(city: City) -> dict[str, str | int]:  # pyright: ignore[reportUnusedFunction]
        """Look up the country of a city and its height in metres."""
        country, metres = HEIGHTS[city]
        return {'city': city, 'country': country, 'metres': metres}

    @agent.tool
    def metres_to_feet(metres: float) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        """Convert metres to feet."""
        return {'feet': round(metres * 3.28084)}

    return agent


@pytest.mark.parametrize(
    ('question', 'city'),
    [
        ('How high above the sea is Quito, in feet?', 'Quito'),
        ('I am flying to Bogota. How high is it, in feet?', 'Bogota'),
        ('what height has madrid (ft)', 'Madrid'),
    ],
)
def test_an_agent_with_two_tools_and_a_structured_output(local: LocalModel, question: str, city: str) -> None:
    result = height_agent(local).run_sync(question)
    country, metres = HEIGHTS[city]
    assert result.output.model_dump() == {
        'city': city,
        'country': country,
        'metres': metres,
        'feet': round(metres * 3.28084),
    }
    assert (result.usage.requests, result.usage.tool_calls, result.cost) == (3, 2, None)
