"""Drawing a diagram: any text survives in mermaid and in SVG, and nothing lies on anything else."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.render.diagram import Box, Diagram, Link, Shape
from agent_graph.render.layout import Wire, lay_out
from agent_graph.render.mermaid import flowchart
from agent_graph.render.svg import svg

# Any text survives

NASTY = [
    '"quoted" [x] {y} (z) <b>bold</b> | pipe', 'end', '1. item', '- item', '# head', '**b** _i_ ~~s~~ `c`', 'a\nb\r\nc',
    '%%{init: {"theme":"dark"}}%%', 'ünï 日本語 🎉', '&amp; #35; $$x$$', '\\n \\', '\x00\x1b[31m\x7f', '\ud83d',
    'fa:fa-car', '<script>alert(1)</script>', '"]', '', ' ', 'A --> B; click', '\u2028x', 'Start', 'End', 'n3', 'get_weather',
]  # fmt: skip

_LABEL = re.compile(r'"([^"\n]*)"')


def first_word(line: str) -> str:
    found = re.match(r'    (\w+)', line)
    assert found is not None, line
    return found[1]


def shown(label: str) -> str:
    """What mermaid shows for a quoted label: entities and line breaks decoded."""
    assert not re.search(r'[<>&`*~\\]', label.replace('<br/>', '')), label
    lines = label.split('<br/>')
    return '\n'.join(re.sub(r'#(\d+);', lambda m: chr(int(m.group(1))), line) for line in lines)


def readable(text: str) -> str:
    text = '\n'.join(text.splitlines()).replace('\t', ' ')
    return re.sub('[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]', '\N{REPLACEMENT CHARACTER}', text)


texts = st.one_of(st.sampled_from(NASTY), st.text(st.characters(), max_size=30))


@given(st.lists(texts, min_size=1, max_size=8, unique=True))
@settings(max_examples=200, deadline=None)
def test_mermaid_shows_any_text_as_it_is(names: list[str]) -> None:
    shapes: list[Shape] = ['step', 'end', 'tool', 'other', 'start']
    boxes = tuple(Box(name, (name,), shapes[i % 5], 'failed') for i, name in enumerate(names))
    links = tuple(Link(names[i - 1], name, name, i % 2 == 0) for i, name in enumerate(names))
    lines = flowchart(Diagram(boxes, links)).splitlines()
    assert len(lines) == 1 + len(boxes) + len(links) + 2, 'no text may break out of its line'
    ids = [first_word(line) for line in lines[1 : 1 + len(boxes)]]
    assert len(set(ids)) == len(ids) and not any(i in ('end', 'graph', 'style', 'click') for i in ids)
    for name, line in zip(names, lines[1 : 1 + len(boxes)], strict=True):
        label = _LABEL.search(line)
        assert label is not None and (shown(label[1]) == readable(name) or not readable(name).strip())
    for name, line in zip(names, lines[1 + len(boxes) : 1 + 2 * len(boxes)], strict=True):
        label = _LABEL.search(line)
        assert (label is None and not name) or (label is not None and shown(label[1]) == readable(name))


def test_mermaid_ids_stay_apart() -> None:
    boxes = (Box('x', (), 'start'), Box('Start'), Box('End'), Box('y', (), 'end'), Box('n0'), Box('z', (), 'end'))
    ids = [first_word(line) for line in flowchart(Diagram(boxes, ())).splitlines()[1:]]
    assert ids == ['n0', 'Start', 'End', 'n3', 'n4', 'n5']


@given(st.lists(texts, min_size=1, max_size=6, unique=True))
@settings(max_examples=100, deadline=None)
def test_svg_is_xml_whatever_the_text(names: list[str]) -> None:
    boxes = tuple(Box(name, (name, 'second')) for name in names)
    links = tuple(Link(names[0], name, name) for name in names)
    root = ElementTree.fromstring(svg(Diagram(boxes, links, names[0])))
    drawn = [''.join(element.itertext()) for element in root.iter('{http://www.w3.org/2000/svg}text')]
    assert drawn.count('second') == len(names)
    assert not root.findall('.//{http://www.w3.org/2000/svg}script')


def test_a_title_stays_one_line_of_yaml() -> None:
    assert flowchart(Diagram((), (), 'a "b"\n\\ c: d\x00')).splitlines()[1] == 'title: "a \\"b\\" \\\\ c: d\ufffd"'


# Layout

graphs = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.just([f'b{i}' for i in range(n)]),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.booleans()), max_size=14),
    )
)


@given(graphs)
@settings(max_examples=150, deadline=None)
def test_boxes_and_labels_never_overlap(graph: tuple[list[str], list[tuple[int, int, bool]]]) -> None:
    names, pairs = graph
    wires = [Wire(names[a], names[b], 60.0 if named else 0.0, 18.0 if named else 0.0) for a, b, named in pairs]
    layout = lay_out(dict.fromkeys(names, (80.0, 32.0)), wires)
    rectangles = [(p.x, p.y, p.width, p.height) for p in layout.places.values()]
    rectangles += [
        (*route.label, wire.width, wire.height)
        for wire, route in zip(wires, layout.routes, strict=True)
        if wire.width and wire.source != wire.target
    ]
    for i, (x, y, w, h) in enumerate(rectangles):
        assert x - w / 2 >= -0.01 and x + w / 2 <= layout.width + 0.01 and y + h / 2 <= layout.height + 0.01
        for ox, oy, ow, oh in rectangles[:i]:
            assert abs(x - ox) >= (w + ow) / 2 or abs(y - oy) >= (h + oh) / 2


@given(graphs)
@settings(max_examples=100, deadline=None)
def test_arrows_run_from_their_source_to_their_target(graph: tuple[list[str], list[tuple[int, int, bool]]]) -> None:
    names, pairs = graph
    wires = [Wire(names[a], names[b]) for a, b, _ in pairs]
    layout = lay_out(dict.fromkeys(names, (80.0, 32.0)), wires)
    for wire, route in zip(wires, layout.routes, strict=True):
        for name, (x, y) in ((wire.source, route.points[0]), (wire.target, route.points[-1])):
            place = layout.places[name]
            assert abs(x - place.x) <= place.width / 2 + 0.01 and abs(y - place.y) <= place.height / 2 + 0.01


def test_a_long_chain_is_laid_out_without_recursion() -> None:
    names = [f'b{i}' for i in range(3000)]
    layout = lay_out(dict.fromkeys(names, (50.0, 20.0)), [Wire(a, b) for a, b in pairwise(names)])
    assert layout.places['b0'].y < layout.places['b2999'].y
