"""The way an output is asked for follows what the model can do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from pydantic import BaseModel

from agent_graph import (
    Agent,
    AssistantMessage,
    ConfigError,
    RequestInfo,
    TextPart,
    ToolOutput,
    UnexpectedModelBehavior,
)
from agent_graph.capabilities import Capabilities, capabilities_of
from agent_graph.messages import Message
from agent_graph.testing import FunctionModel, ScriptedModel


class City(BaseModel):
    name: str
    people: int


PARIS = City(name='Paris', people=2_100_000)


class Able(FunctionModel):
    """A model with a record of its own, which answers with JSON and notes what it was asked."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.asked: list[tuple[str, RequestInfo]] = []
        super().__init__(self.answer)

    async def answer(self, messages: Sequence[Message], info: RequestInfo) -> AssistantMessage:
        text = ' '.join(str(getattr(m, 'content', '')) for m in messages)
        self.asked.append((text, info))
        wrapped = info.output_schema is not None and 'response' in info.output_schema.schema['properties']
        answer = {'response': PARIS.model_dump()} if wrapped else PARIS.model_dump()
        return AssistantMessage([TextPart(json.dumps(answer))])


def test_without_tools_the_provider_holds_the_answer_to_the_schema() -> None:
    model = Able(Capabilities(tools=False, native_output=True))
    agent = Agent(model, output_type=City)
    assert agent.run_sync('where').output == PARIS
    assert agent.run_sync('where').output == PARIS
    _, info = model.asked[0]
    assert info.tools == ()
    assert info.output_schema is not None and 'people' in json.dumps(info.output_schema.schema)


def test_without_tools_and_schemas_the_instructions_ask() -> None:
    model = Able(Capabilities(tools=False, native_output=False))
    assert Agent(model, output_type=City).run_sync('where').output == PARIS
    text, info = model.asked[0]
    assert info.tools == () and info.output_schema is None
    assert '"people"' in text


def test_a_model_with_tools_is_offered_the_output_tool() -> None:
    model = ScriptedModel(['{}'])
    assert capabilities_of(model).tools
    able = Able(Capabilities())
    with pytest.raises(UnexpectedModelBehavior):
        Agent(able, output_type=City, output_retries=0).run_sync('where')
    assert [t.name for t in able.asked[0][1].tools] == ['final_result']


def test_what_needs_a_tool_is_refused_before_anything_is_asked() -> None:
    model = Able(Capabilities(tools=False))
    with pytest.raises(ConfigError, match='cannot be offered tools'):
        asyncio.run(Agent(model, output_type=ToolOutput(City)).run('where'))
    with pytest.raises(ConfigError, match='cannot be offered tools'):
        asyncio.run(Agent(model, output_type=[str, City]).run('where'))
    assert model.asked == []


def test_several_types_are_one_schema() -> None:
    class Nothing(BaseModel):
        reason: str

    model = Able(Capabilities(tools=False))
    assert Agent(model, output_type=[City, Nothing]).run_sync('where').output == PARIS
