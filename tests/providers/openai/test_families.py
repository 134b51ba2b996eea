"""What is assumed of a model behind Chat Completions, and how to say otherwise."""

from __future__ import annotations

import asyncio
import json

from pydantic import BaseModel

from agent_graph import Agent
from agent_graph.capabilities import Capabilities
from agent_graph_providers.openai import OpenAIModel
from tests.providers.loopback import Loopback, json_reply
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
