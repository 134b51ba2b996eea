"""Case 30: braces in text are text: everything is sent byte for byte."""

from __future__ import annotations

import pytest

from agent_graph import Agent, PromptedOutput, RunContext, SystemMessage, Tool, ToolOutput, UserMessage
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Way, answers_of, call, go

TEXTS = [
    '{}',
    '{x}',
    '{{x}}',
    '${x}',
    '%(x)s',
    '%s %d %%',
    '{{ 7*7 }}',
    '{x.__class__}',
    '{0}{1!r:>10}',
    '{"json": {"nested": [1, {"x": "{y}"}]}}',
    '$HOME ${HOME} `id` $(id)',
    '<% x %> #{x} {# x #} {% raw %}',
    '\\n \\{x\\} \t\r\n trailing  ',
    '  leading and trailing white space  \n',
    '{',
    '}',
    '{x' * 1000,
]
ALL = '\n'.join(TEXTS)


@pytest.mark.parametrize('text', TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize('way', [WAYS['run'], WAYS['run_stream']], ids=['run', 'run_stream'])
def test_in_every_place(text: str, way: Way) -> None:
    async def main() -> None:
        def retrieve(query: str) -> str:
            return text

        def about(ctx: RunContext[str]) -> str:
            return ctx.deps

        model = ScriptedModel([[call('retrieve', {'query': text})], text])
        tool = Tool(retrieve, description=text)
        agent = Agent(model, instructions=[text, about], tools=[tool], deps_type=str, name=text, description=text)
        result = await way(agent, text, deps=text, metadata={'x': 'secret', text: text})
        assert result.output == text
        first = model.requests[0]
        assert first.messages == (SystemMessage(text, True), SystemMessage(text, True), UserMessage(text))
        assert first.info.tools[0].description == text.strip() or first.info.tools[0].description == text
        assert answers_of(result.messages)[0].content == text
        assert model.requests[1].messages[:3] == first.messages

    go(main())


def test_in_output_descriptions_and_prompts() -> None:
    async def main() -> None:
        model = ScriptedModel([[call('final_result', {'response': 1})]])
        agent = Agent(model, output_type=ToolOutput(int, description=ALL))
        assert (await agent.run('go')).output == 1
        assert model.requests[0].info.tools[0].description == ALL
        model = ScriptedModel(['{"response": 1}'])
        agent = Agent(model, output_type=PromptedOutput(int, instructions=ALL))
        assert (await agent.run('go')).output == 1
        assert str(model.requests[0].messages[0].content).startswith(ALL)  # pyright: ignore

    go(main())


def test_a_state_value_is_inserted_once_by_a_function() -> None:
    """There is no templating; a function is the way, and what it returns is not looked at again."""

    async def main() -> None:
        agent = Agent(ScriptedModel(['ok'] * 2), deps_type=dict[str, str])

        @agent.instructions
        def state(ctx: RunContext[dict[str, str]]) -> str:
            return f'The note says: {ctx.deps["note"]}'

        result = await agent.run('go', deps={'note': '{secret} {note} {{x}}', 'secret': 'not this'})
        assert result.messages[0] == SystemMessage('The note says: {secret} {note} {{x}}', True)

    go(main())


def test_static_text_in_the_docstring_of_a_tool() -> None:
    def tool(x: int) -> str:
        """Call with {x}, {{x}} or ${x}; %(x)s is not a template.

        Args:
            x: a number such as {x} or {x.__class__}
        """
        return str(x)

    definition = Tool(tool).definition
    assert definition.description == 'Call with {x}, {{x}} or ${x}; %(x)s is not a template.'
    assert definition.parameters['properties']['x']['description'] == 'a number such as {x} or {x.__class__}'
