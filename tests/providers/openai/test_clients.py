"""One model object in several event loops and threads, and with clients from outside."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import warnings
from typing import Any

import httpx
import httpx2
import openai
import pytest

from agent_graph.errors import ConfigError, ModelUnreachable
from agent_graph.messages import TextPart, UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph_providers.openai import OpenAIModel
from tests.providers.loopback import Loopback, Request, in_thread, json_reply, sse_reply
from tests.providers.openai.test_model import KEY, Watcher, piece, plain


def echo(request: Request) -> Any:
    """Answers with what was asked, as a stream when asked for one."""
    text = request.json['messages'][-1]['content']
    if request.json.get('stream'):
        return sse_reply([piece({'content': text}), piece(finish='stop')])
    return json_reply(plain({'content': text}))


async def ask(model: OpenAIModel, text: str, *, watched: bool = False) -> str:
    out = ResponseBuilder(Watcher() if watched else None)
    await model.respond([UserMessage(text)], RequestInfo(), out)
    (part,) = out.build().parts
    assert isinstance(part, TextPart)
    return part.content


class TestLoops:
    def test_five_loops_in_a_row(self) -> None:
        with in_thread([echo]) as server, warnings.catch_warnings():
            warnings.simplefilter('error')
            model = OpenAIModel('m', base_url=server.url, api_key=KEY)
            for number in range(5):
                assert asyncio.run(ask(model, f'run {number}', watched=bool(number % 2))) == f'run {number}'
                assert len(model._clients) == 1  # pyright: ignore[reportPrivateUsage]
            gc.collect()
            assert server.connections == 5
            assert eventually(lambda: server.open == 0)

    def test_eight_threads_at_once(self) -> None:
        with in_thread([echo]) as server:
            model = OpenAIModel('m', base_url=server.url, api_key=KEY)
            barrier, got, failed = threading.Barrier(8), dict[int, list[str]](), list[BaseException]()

            async def several(number: int) -> list[str]:
                return [await ask(model, f'{number}/{k}', watched=bool(k % 2)) for k in range(5)]

            def work(number: int) -> None:
                barrier.wait()
                try:
                    got[number] = asyncio.run(several(number))
                except BaseException as error:
                    failed.append(error)

            threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
            assert failed == []
            assert got == {n: [f'{n}/{k}' for k in range(5)] for n in range(8)}
            assert eventually(lambda: server.open == 0)

    def test_loops_closed_without_ending_in_good_order(self) -> None:
        with in_thread([echo]) as server, warnings.catch_warnings():
            warnings.simplefilter('ignore', ResourceWarning)
            model = OpenAIModel('m', base_url=server.url, api_key=KEY)
            for number in range(4):
                loop = asyncio.new_event_loop()
                assert loop.run_until_complete(ask(model, f'run {number}')) == f'run {number}'
                loop.close()
            assert asyncio.run(ask(model, 'last')) == 'last'
            assert len(model._clients) == 1  # pyright: ignore[reportPrivateUsage]
            for _ in range(3):  # a generator in a cycle takes more than one turn
                gc.collect()

    def test_a_thousand_at_once(self) -> None:
        async def main() -> None:
            async with Loopback([echo]) as server:
                model = OpenAIModel('m', base_url=server.url, api_key=KEY)
                got = await asyncio.gather(*(ask(model, f'n{k}', watched=bool(k % 2)) for k in range(1000)))
                assert got == [f'n{k}' for k in range(1000)]

        asyncio.run(main())

    def test_a_client_whose_model_is_gone_is_closed_by_the_next_request(self) -> None:
        async def main() -> None:
            async with Loopback([echo]) as server:
                for number in range(5):
                    await ask(OpenAIModel('m', base_url=server.url, api_key=KEY), f'{number}')
                    gc.collect()
                assert server.connections == 5
                for _ in range(20):
                    await asyncio.sleep(0.01)
                assert server.open == 1

        asyncio.run(main())

    def test_a_model_that_goes_with_its_loop(self) -> None:
        async def main(url: str) -> None:
            model = OpenAIModel('m', base_url=url, api_key=KEY)
            await asyncio.gather(*(ask(model, f'{k}') for k in range(20)))

        with in_thread([echo]) as server, warnings.catch_warnings():
            warnings.simplefilter('error')
            asyncio.run(main(server.url))
            gc.collect()
            assert eventually(lambda: server.open == 0)


class TestClientsFromOutside:
    @pytest.mark.parametrize('kind', [httpx.AsyncClient, httpx2.AsyncClient])
    def test_both_http_clients(self, kind: Any) -> None:
        async def main() -> None:
            async with Loopback([echo]) as server, kind(headers={'x-mine': '1'}) as http_client:
                model = OpenAIModel('m', base_url=server.url, api_key=KEY, http_client=http_client)
                assert await ask(model, 'a') == 'a'
                assert await ask(model, 'b', watched=True) == 'b'
                assert [r.headers['x-mine'] for r in server.requests] == ['1', '1']
                assert not http_client.is_closed
                del model
                gc.collect()
                await asyncio.sleep(0.05)
                assert not http_client.is_closed

        asyncio.run(main())

    @pytest.mark.parametrize('kind', [httpx.AsyncClient, httpx2.AsyncClient])
    def test_their_errors_are_ours_too(self, kind: Any) -> None:
        async def main() -> None:
            async with kind() as http_client:
                model = OpenAIModel('m', base_url='http://127.0.0.1:9/v1', api_key=KEY, http_client=http_client)
                with pytest.raises(ModelUnreachable):
                    await ask(model, 'a', watched=True)

        asyncio.run(main())

    def test_a_closed_one(self) -> None:
        async def main() -> None:
            http_client = httpx2.AsyncClient()
            await http_client.aclose()
            model = OpenAIModel('m', base_url='http://127.0.0.1:9/v1', api_key=KEY, http_client=http_client)
            with pytest.raises(ConfigError, match=r'http_client .* is closed'):
                await ask(model, 'a')

        asyncio.run(main())

    def test_a_client_made_by_the_user(self) -> None:
        async def main() -> None:
            async with Loopback([echo]) as server:

                def make() -> openai.AsyncOpenAI:
                    return openai.AsyncOpenAI(base_url=server.url, api_key='made-elsewhere', max_retries=0)

                assert await ask(OpenAIModel('m', make_client=make), 'a') == 'a'
                assert server.requests[0].headers['authorization'] == 'Bearer made-elsewhere'

        asyncio.run(main())


def test_a_model_object_loads_nothing() -> None:
    code = (
        'import sys\n'
        'from agent_graph_providers.openai import SERVERS, OpenAIModel\n'
        'models = [row.model("m") for row in SERVERS.values()]\n'
        'print(sorted({"openai", "httpx", "httpx2"} & set(sys.modules)))'
    )
    path = {'PYTHONPATH': ':'.join(sys.path)}
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.strip() == '[]'


def eventually(true: Any, seconds: float = 2.0) -> bool:
    """Wait for something another thread does."""
    done = threading.Event()
    for _ in range(int(seconds * 100)):
        if true():
            return True
        done.wait(0.01)
    return False
