"""What is assumed of a model behind Chat Completions, and how to say otherwise."""

from __future__ import annotations

import asyncio
import json

from pydantic import BaseModel

from agent_graph import Agent, FilePart
from agent_graph.capabilities import Capabilities
from agent_graph_providers.openai import OpenAIModel
from tests.providers.loopback import Loopback, Reply, json_reply
from tests.providers.openai.test_model import plain


class City(BaseModel):
    name: str


def test_families() -> None:
    assert OpenAIModel('gpt-5-mini').capabilities.native_output
    assert not OpenAIModel('gpt-3.5-turbo').capabilities.native_output
    assert not OpenAIModel('deepseek-chat', server='deepseek').capabilities.images
    assert OpenAIModel('gpt-4o-audio-preview').capabilities.audio
    assert OpenAIModel('a-model-of-next-year').capabilities == OpenAIModel('gpt-5').capabilities
    assert OpenAIModel('x', capabilities=Capabilities(video=True)).capabilities.video


def test_a_server_without_tools_is_asked_for_text_that_follows_the_schema() -> None:
    async def main() -> None:
        async with Loopback([json_reply(plain({'content': json.dumps({'name': 'Rome'})}))]) as server:
            model = OpenAIModel('sonar', server='perplexity', base_url=server.url, api_key='key')
            result = await Agent(model, output_type=City).run('Which city?')
            assert result.output == City(name='Rome')
            assert 'tools' not in server.requests[0].json
            assert server.requests[0].json['response_format']['type'] == 'json_schema'

    asyncio.run(main())


def test_a_file_in_a_local_network_is_fetched_for_the_server() -> None:
    async def main() -> None:
        picture = Reply([b'picture'], 200, {'content-type': 'image/png'}, framing='length')
        async with Loopback([picture]) as files, Loopback([json_reply(plain({'content': 'a cat'}))]) as server:
            model = OpenAIModel('gpt-5', base_url=server.url, api_key='key')
            far = FilePart.from_url('https://example.com/a.png')
            near = FilePart.from_url(files.url + '/a.png', allow_local=True)
            await Agent(model).run(['What is this?', far, near])
            sent = [p['image_url']['url'] for p in server.requests[0].json['messages'][0]['content'][1:]]
            assert sent == ['https://example.com/a.png', 'data:image/png;base64,cGljdHVyZQ==']

    asyncio.run(main())
