"""Pictures of graphs and runs: what is drawn, and in which words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated
from xml.etree import ElementTree

import pytest
from pydantic_graph import BaseNode, Edge, End, Graph, GraphBuilder, GraphRunContext, StepContext

from agent_graph import render
from agent_graph.journal.entries import (
    Answered,
    CallFinished,
    CallStarted,
    Ended,
    Entered,
    Entry,
    Paused,
    Record,
    Started,
    StepDone,
)
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.pending import Pending
from agent_graph.render.diagram import Box, Diagram, Link, Mark
from agent_graph.render.walk import read
from agent_graph.render.wording import call_text, cost_text, seconds_text, short
from agent_graph.usage import Usage

Context = GraphRunContext[None, None]


@dataclass
class Draft(BaseNode[None, None, str]):
    async def run(self, ctx: Context) -> Annotated[Review, Edge(label='first "version"')]:
        return Review()


@dataclass
class Review(BaseNode[None, None, str]):
    async def run(
        self, ctx: Context
    ) -> Annotated[Draft, Edge(label='rejected')] | Annotated[End[str], Edge(label='ok')]:
        return End('done')


def build() -> Graph[None, None, Draft, str]:
    builder = GraphBuilder(name='review', input_type=Draft, output_type=str)
    builder.add(builder.edge_from(builder.start_node).to(Draft), builder.node(Draft), builder.node(Review))
    return builder.build()


class Journal:
    """Records of a made-up run, each so many seconds after the one before."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.time = 1000.0

    def add(self, entry: Entry, seconds: float = 0.0) -> Journal:
        self.time += seconds
        self.records.append(Record(len(self.records) + 1, self.time, entry))
        return self


PARIS = ToolReturnPart('weather', {'sky': 'clear'}, 'c1')
ROME = ToolReturnPart('weather', 'no "such" place', 'c2', 'retry')


def asked(upto_call: bool = False) -> Journal:
    """A run that asks for two tools, of which one has finished (`upto_call`) or both."""
    calls = [ToolCallPart('weather', {'city': 'Paris'}, 'c1'), ToolCallPart('weather', '{"city": "Rom"}', 'c2')]
    usage = Usage(input_tokens=1200, output_tokens=45)
    response = AssistantMessage([TextPart('I look.'), *calls], usage, 'gpt-5-mini', provider_name='openai')
    journal = Journal().add(Started('weather-agent', 'Paris and Rom?')).add(Entered('UserPrompt'))
    journal.add(Entered('ModelRequest', message=UserMessage('Paris and Rom?')), 0.0004)
    journal.add(Entered('HandleResponse', response=response), 0.8)
    journal.add(CallStarted('c1', 'weather', {'city': 'Paris'})).add(CallStarted('c2', 'weather', {'city': 'Rom'}))
    journal.add(CallFinished(PARIS), 0.25)
    return journal if upto_call else journal.add(CallFinished(ROME), 0.1)


def completed() -> Journal:
    journal = asked().add(Entered('ModelRequest', message=ToolMessage([PARIS, ROME])))
    answer = AssistantMessage([TextPart('Clear in Paris.')], Usage(input_tokens=1300, output_tokens=5), 'gpt-5-mini')
    return journal.add(Entered('HandleResponse', response=answer), 1.5).add(
        Ended('completed', output='Clear in Paris.')
    )


def box_of(diagram: Diagram, text: str) -> Box:
    found = [box for box in diagram.boxes if any(text in line for line in box.lines)]
    assert len(found) == 1, (text, found)
    return found[0]


# Graphs


def test_graph_has_every_node_and_every_label() -> None:
    picture = render.mermaid(build(), title='review')
    assert picture.splitlines() == [
        '---',
        'title: "review"',
        '---',
        'flowchart TD',
        '    Start((" "))',
        '    Draft["Draft"]',
        '    Review["Review"]',
        '    End(["End"])',
        '    Start --> Draft',
        '    Draft -->|"first #34;version#34;"| Review',
        '    Review -->|"rejected"| Draft',
        '    Review -->|"ok"| End',
    ]


def test_graph_as_text_says_where_each_node_leads() -> None:
    assert render.text(build()).splitlines() == [
        'start',
        '  -> Draft',
        'Draft',
        '  -> Review  first "version"',
        'Review',
        '  -> Draft   rejected',
        '  -> End     ok',
    ]


def test_labels_given_to_the_builder_are_drawn() -> None:
    builder = GraphBuilder(name='g', input_type=Draft, output_type=str)
    builder.add(
        builder.edge_from(builder.start_node).label('begin').to(Draft), builder.node(Draft), builder.node(Review)
    )
    assert 'Start -->|"begin"| Draft' in render.mermaid(builder.build())


def test_steps_of_the_builder_api_are_drawn_too() -> None:
    builder = GraphBuilder(name='g', input_type=int, output_type=int)

    async def double(ctx: StepContext[None, None, int]) -> int:
        return 2 * ctx.inputs

    double_step = builder.step(double)
    builder.add(
        builder.edge_from(builder.start_node).to(double_step), builder.edge_from(double_step).to(builder.end_node)
    )
    assert 'n1["double"]' in render.mermaid(builder.build())
    assert render.text(builder.build()).splitlines() == ['start', '  -> double', 'double', '  -> End']


def test_picture_shows_itself_in_every_form() -> None:
    picture = render.Picture(build(), title='review')
    bundle = picture._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert set(bundle) == {'text/plain', 'text/vnd.mermaid', 'image/svg+xml'}
    assert bundle['text/plain'] == str(picture) == render.text(build())
    assert bundle['text/vnd.mermaid'] == render.mermaid(build(), title='review')
    assert ElementTree.fromstring(bundle['image/svg+xml']).tag.endswith('svg')


# Runs


def test_the_path_has_steps_calls_times_tokens_and_cost() -> None:
    diagram = render.RunPicture(completed().records).diagram
    assert [box.lines[0] for box in diagram.boxes if box.shape == 'step'] == [
        '1 · UserPrompt', '2 · ModelRequest', '3 · HandleResponse', '4 · ModelRequest', '5 · HandleResponse',
    ]  # fmt: skip
    assert box_of(diagram, '2 · ModelRequest').lines[2] == '800 ms · 1,200 + 45 tokens · $0.00039'
    assert box_of(diagram, "city='Paris'") == Box(
        'S3C1', ("weather(city='Paris')", "→ {'sky': 'clear'}", '250 ms'), 'tool'
    )
    assert box_of(diagram, "city='Rom'").lines[1:] == ('asked to retry: no "such" place', '350 ms')
    assert Link('S3', 'S3C1', dashed=True) in diagram.links and Link('S3C1', 'S4') in diagram.links
    assert diagram.boxes[-1] == Box('End', ('End', 'Clear in Paris.'), 'end')
    assert diagram.title == 'weather-agent'


def test_run_is_the_mermaid_of_the_path() -> None:
    records = completed().records
    assert render.run(records) == render.RunPicture(records).render()
    assert 'S2["2 · ModelRequest<br/>' in render.run(records)


def test_the_tree_tells_the_same() -> None:
    lines = render.tree(completed().records).splitlines()
    assert lines[0] == 'weather-agent · completed · 2.65 s · 2 requests, 2 tool calls · 2,500 + 50 tokens'
    assert lines[1:] == [
        '├─ 1 UserPrompt  Paris and Rom?  0.4 ms',
        '├─ 2 ModelRequest  Paris and Rom?  800 ms  1,200 + 45 tokens  $0.00039',
        '├─ 3 HandleResponse  I look. · 2 tool calls  350 ms',
        "│  ├─ weather(city='Paris')  → {'sky': 'clear'}  250 ms",
        '│  └─ weather(city=\'Rom\')  asked to retry: no "such" place  350 ms',
        '├─ 4 ModelRequest  2 tool results  1.50 s  1,300 + 5 tokens',
        '├─ 5 HandleResponse  Clear in Paris.  0.0 ms',
        '└─ End  Clear in Paris.',
    ]


def test_a_price_that_is_not_known_is_not_guessed() -> None:
    walk = read(completed().records)
    assert walk.cost is None, 'the second response names no provider'
    assert walk.steps[1].cost == Decimal('0.00039')


def test_where_the_run_is_stands_out() -> None:
    diagram = render.RunPicture(asked(upto_call=True).records).diagram
    marks = {box.lines[0]: box.mark for box in diagram.boxes if box.mark}
    assert marks == {'3 · HandleResponse': 'current', "weather(city='Rom')": 'current'}
    assert box_of(diagram, "city='Rom'").lines[1] == 'running'
    tree = render.tree(asked(upto_call=True).records).splitlines()
    assert tree[0].startswith('weather-agent · running')
    assert tree[3] == '└─ 3 HandleResponse  I look. · 2 tool calls  <- here'


@pytest.mark.parametrize(('status', 'mark'), [('failed', 'failed'), ('cancelled', 'stopped')])
def test_what_failed_or_was_stopped_stands_out(status: str, mark: Mark) -> None:
    cut = ToolReturnPart('weather', 'stopped', 'c2', 'interrupted')
    end = Ended(status, message=ToolMessage([PARIS, cut]), error='disk full', error_type='ToolFailed')  # type: ignore[arg-type]
    journal = asked(upto_call=True).add(end, 1.0)
    diagram = render.RunPicture(journal.records).diagram
    assert box_of(diagram, '3 · HandleResponse').mark == mark
    assert box_of(diagram, "city='Rom'").mark == 'stopped'
    assert diagram.boxes[-1] == Box('End', (status, 'ToolFailed: disk full'), 'end', mark)
    assert f'<- {status}' in render.tree(journal.records)


def test_a_paused_run_says_what_it_waits_for() -> None:
    waits = Pending('r', 'c2', 'weather', {'city': 'Rom'}, 'approval', 'Really Rom?')
    journal = asked(upto_call=True).add(Paused((waits,)), 0.1)
    diagram = render.RunPicture(journal.records).diagram
    assert box_of(diagram, "city='Rom'").lines[1] == 'waits for approval: Really Rom?'
    assert box_of(diagram, "city='Rom'").mark == 'current'
    assert render.tree(journal.records).startswith('weather-agent · paused')
    journal.add(Answered('c2', 'approved')).add(CallStarted('c2', 'weather', {'city': 'Rom'}, 2), 5.0).add(
        CallFinished(ROME), 1
    )
    assert read(journal.records).status == 'running'
    assert '1.00 s' in render.tree(journal.records)
    assert 'waits' not in render.tree(journal.records)


def test_effects_of_a_node_itself_are_shown() -> None:
    journal = Journal().add(Entered('Publish', data={'draft': 3})).add(StepDone('Publish', 'send', 'sent'))
    assert render.tree(journal.records).splitlines()[1:] == [
        "└─ 1 Publish  {'draft': 3}  <- here",
        '   └─ send()  → sent',
    ]


def _graph_walk(*entries: Entry) -> list[str]:
    journal = Journal().add(Started('news')).add(Entered('Draft', data={'node': {'topic': 'x'}, 'state': {'n': 1}}))
    usage = Usage(requests=2, input_tokens=30, output_tokens=4)
    journal.add(Entered('Decide', data={'node': {'text': 'A text.', 'by': None}}, usage=usage), 1.0)
    for entry in entries:
        journal.add(entry, 2.0)
    return render.tree(journal.records).splitlines()


ASKS = Pending('r', 'Decide#2', 'Decide', None, 'question', 'Publish?', {'type': 'boolean'})
INSIDE = Pending('r:Decide#2:1', 'c1', 'pay', {'euros': 5}, path=('Decide#2',))


def test_what_a_node_asks_and_is_answered() -> None:
    asked = _graph_walk(Paused((ASKS,)))
    assert asked == [
        'news · paused · 3.00 s · 2 requests, 0 tool calls · 30 + 4 tokens',
        "├─ 1 Draft  topic='x'  1.00 s  30 + 4 tokens",
        "└─ 2 Decide  text='A text.', by=None  <- here",
        '   └─ ask()  waits for an answer: Publish?',
    ]
    answer = Answered('Decide#2', 'answer', value=True)
    answered = _graph_walk(Paused((ASKS,)), answer)
    assert answered[0].startswith('news · running')
    assert answered[3] == '   └─ ask(Publish?)  → True'
    assert _graph_walk(answer)[3] == '   └─ ask()  → True', 'answered at once: the question is not recorded'
    no = Answered('Decide#2', 'denied', None, 'Decide', 'not today')
    assert _graph_walk(Paused((ASKS,)), no)[3] == '   └─ ask(Publish?)  denied: not today'
    assert _graph_walk(Paused((ASKS,)), Ended('cancelled'))[3] == '│  └─ ask(Publish?)  interrupted: never answered'


def test_a_node_that_waits_again_shows_what_it_waits_for_now() -> None:
    again = replace(ASKS, question='Really?', nth=1)
    answer = Answered('Decide#2', 'answer', value=True)
    lines = _graph_walk(Paused((ASKS,)), answer, Paused((again, INSIDE)))
    assert [line.strip(' │├└─') for line in lines[3:]] == [
        'ask(Publish?)  → True',
        'ask()  waits for an answer: Really?',
        'pay(euros=5)  waits for approval',
    ]
    # An answer to a call of an agent inside is in the journal of that; here the node just goes on.
    lines = _graph_walk(Paused((INSIDE,)), Entered('Publish', data={'node': {}}))
    assert lines[2:] == ["├─ 2 Decide  text='A text.', by=None  4.00 s", '└─ 3 Publish  <- here']


def test_a_hundred_parallel_calls_stay_readable() -> None:
    calls = [ToolCallPart('f', {'i': i}, f'c{i}') for i in range(100)]
    journal = Journal().add(Entered('HandleResponse', response=AssistantMessage(calls)))
    answers = [ToolReturnPart('f', i, f'c{i}', 'success' if i != 50 else 'failed') for i in range(100)]
    journal.add(Entered('ModelRequest', message=ToolMessage(answers)))
    boxes = [box for box in render.RunPicture(journal.records).diagram.boxes if box.shape == 'tool']
    assert len(boxes) == 12 and boxes[-1].lines == ('… 89 more calls', '1 without success')
    assert len(render.tree(journal.records).splitlines()) == 103


@pytest.mark.parametrize(
    ('entry', 'words'),
    [
        (Entered('HandleResponse', response=AssistantMessage([])), 'empty'),
        (Entered('HandleResponse', response=AssistantMessage([ThinkingPart('hm')])), 'reasoning only'),
        (
            Entered('HandleResponse', response=AssistantMessage([TextPart('ab')], finish_reason='length')),
            'ab · (length)',
        ),
        (
            Entered('HandleResponse', response=AssistantMessage([TextPart('ab')], interrupted=True)),
            'ab · (interrupted)',
        ),
        (Entered('ModelRequest', message=UserMessage('Try again'), retry=True), 'again: Try again'),
        (Entered('UserPrompt', prompt=('look:', FilePart('image/png', data=b'', name='a.png'))), 'look: [a.png]'),
        (Entered('Approve', data={'by': 'Ada'}), "{'by': 'Ada'}"),
        (Entered('Approve'), ''),
    ],
)
def test_each_step_says_what_it_brings(entry: Entered, words: str) -> None:
    line = render.tree(Journal().add(entry).records).splitlines()[1]
    assert line == '  '.join(filter(None, (f'└─ 1 {entry.node}', words, '<- here')))


def test_records_may_end_anywhere() -> None:
    records = completed().records
    for upto in range(len(records) + 1):
        picture = render.RunPicture(records[:upto])
        assert picture.text and ElementTree.fromstring(picture.svg()).tag.endswith('svg')


def test_usage_of_agents_inside_a_tool_is_counted() -> None:
    journal = asked(upto_call=True).add(
        CallFinished(ROME, usage=Usage(requests=2, input_tokens=7, output_tokens=3)), 0.1
    )
    assert read(journal.records).usage == Usage(3, 2, input_tokens=1207, output_tokens=48)


# Words


@pytest.mark.parametrize(
    ('seconds', 'text'),
    [
        (0.0, '0.0 ms'),
        (0.00042, '0.4 ms'),
        (0.0123, '12 ms'),
        (0.9996, '1.00 s'),
        (1.239, '1.24 s'),
        (185.2, '3 min 5 s'),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ('cost', 'text'),
    [(None, ''), ('0', '$0.00'), ('1.234', '$1.23'), ('0.1', '$0.10'), ('0.0234', '$0.023'), ('0.00042', '$0.00042')],
)
def test_cost(cost: str | None, text: str) -> None:
    assert cost_text(Decimal(cost) if cost is not None else None) == text


def test_short_is_quick_with_megabytes_and_never_too_long() -> None:
    assert short('x' * 5_000_000, 10) == 'x' * 9 + '…'
    assert short('  a \n\n b  ') == 'a b'
    assert short('a' + ' ' * 1000 + 'b', 10) == 'a…'
    assert len(call_text('f', {'x': 'y' * 1_000_000}, 40)) == 40
    assert call_text('f', '') == call_text('f', None) == 'f()'
    assert call_text('f', '{"cut') == 'f({"cut)'
