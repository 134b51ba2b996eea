"""Entries as JSON: an exact round trip, and nothing else is ever built."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import CodecError
from agent_graph.journal import CallFinished, CallStarted, Ended, Entered, Entry, Record, Started
from agent_graph.journal.codec import decode, decode_record, encode, encode_record
from agent_graph.journal.jsonl import export_run, import_run
from agent_graph.journal.large import LARGE, join, split
from agent_graph.messages import (
    AssistantMessage,
    JsonValue,
    TextPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.messages.versioned import VersionedJson
from agent_graph.testing.journal_suite import sample_entries, sample_records
from tests.journal.strategies import json_values, values_of

KINDS: tuple[type[Entry], ...] = get_args(get_args(Entry)[0])

entries: st.SearchStrategy[Entry] = values_of(Entry)


@given(entries)
@settings(max_examples=300, deadline=None)
def test_any_entry_comes_back_equal(entry: Entry) -> None:
    data = encode(entry)
    back = decode(data)
    assert back == entry
    assert repr(back) == repr(entry) or '-0.0' in repr(entry)
    assert encode(back) == data
    assert b'\n' not in data


@given(json_values | st.dictionaries(st.sampled_from(['v', 'entry', 'kind', 'x']), json_values))
@settings(max_examples=300, deadline=None)
def test_no_other_json_builds_anything(value: JsonValue) -> None:
    with pytest.raises(CodecError):
        decode(json.dumps(value))


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_changed_document_is_an_entry_or_an_error(data: st.DataObject) -> None:
    document = encode(data.draw(st.sampled_from(sample_entries())))
    place = data.draw(st.integers(0, len(document)))
    changed = document[:place] + data.draw(st.binary(max_size=3)) + document[place + data.draw(st.integers(0, 3)) :]
    try:
        found = decode(changed)
    except CodecError:
        return
    assert isinstance(found, KINDS)


def test_the_samples_hold_every_kind() -> None:
    assert {type(entry) for entry in sample_entries()} == set(KINDS)


@pytest.mark.parametrize('entry', sample_entries(), ids=lambda entry: type(entry).__name__)
def test_the_sample_entries(entry: Entry) -> None:
    assert decode(encode(entry)) == entry
    assert decode(encode(entry).decode()) == entry


def test_what_an_entry_looks_like() -> None:
    entry = Entered('HandleResponse', response=AssistantMessage([TextPart('hé')]))
    assert encode(entry).decode() == (
        '{"v":1,"entry":{"kind":"entered","node":"HandleResponse",'
        '"response":{"kind":"assistant","parts":[{"kind":"text","content":"hé"}]}}}'
    )


@pytest.mark.parametrize('value', [True, 1, 1.0, 0, False, None, '', [], {}, 10**40, 1e300, -0.0, [None], {'a': None}])
def test_json_values_keep_their_type(value: JsonValue) -> None:
    back = decode(encode(CallStarted('id', 'tool', value)))
    assert isinstance(back, CallStarted)
    assert repr(back.args) == repr(value)


class Unwilling:
    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


def recursive() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ('value', 'words'),
    [
        (math.nan, 'entry.args is nan'),
        ({'a': [0, math.inf]}, "entry.args['a'][1] is inf"),
        ({'a': {1: 2}}, "entry.args['a'] is {1: 2}"),
        ([(1, 2)], 'entry.args[0] is (1, 2) (tuple)'),
        (b'raw', "entry.args is b'raw' (bytes)"),
        (datetime(2030, 1, 1, tzinfo=UTC), 'entry.args is datetime.datetime(2030'),
        (Decimal(1), "entry.args is Decimal('1')"),
        ({'x': {1, 2}}, "entry.args['x'] is {1, 2} (set)"),
        (TextPart('x'), 'entry.args is TextPart('),
        ({'a': object()}, "entry.args['a'] is <object object"),
        (Unwilling(), 'Unwilling'),
        ('half \ud83c', 'entry.args is not valid text'),
        (nested(500), 'nested'),
        (recursive(), 'Circular'),
        (10**5000, 'number out of range'),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12].encode('ascii', 'replace'),
)
def test_what_json_cannot_hold_is_refused_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(CodecError) as raised:
        encode(CallStarted('id', 'tool', value))
    assert words in str(raised.value)
    with pytest.raises(CodecError):
        encode(CallFinished(ToolReturnPart('tool', 1, 'id'), output=value))


def test_a_field_of_a_wrong_type_is_refused() -> None:
    for entry in (
        Started('a', history=[UserMessage('x')]),  # pyright: ignore[reportArgumentType]
        Entered('n', message=UserMessage([1])),  # pyright: ignore[reportArgumentType]
        CallStarted('id', 'tool', None, attempt='2'),  # pyright: ignore[reportArgumentType]
        Ended('over'),  # pyright: ignore[reportArgumentType]
        'text',
    ):
        with pytest.raises(CodecError):
            encode(entry)  # pyright: ignore[reportArgumentType]


@dataclass
class Bomb:
    """Loading must never come here."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ('unpickled',))


def stored(entry: str) -> str:
    return '{"v":1,"entry":' + entry + '}'


@pytest.mark.parametrize(
    'document',
    [
        b'',
        b'null',
        b'{}',
        pickle.dumps({'v': 1}),
        pickle.dumps(Bomb()),
        b'!!python/object/apply:os.system ["true"]',
        '\ud800',
        stored('{"kind":"builtins.eval","node":"x"}'),
        stored('{"kind":"entered"}'),
        stored('{"node":"x"}'),
        stored('{"kind":"entered","node":"x","__class__":"os.system"}'),
        stored('{"kind":"entered","node":"x","message":{"kind":"assistant","parts":[]}}'),
        stored('{"kind":"entered","node":"x","message":{"kind":"user","content":"x","py/object":"os.system"}}'),
        stored('{"kind":"entered","node":"x","message":{"kind":"user","content":[{"kind":"file","media_type":"a"}]}}'),
        stored('{"kind":"call_started","tool_call_id":"1","tool_name":"t","args":NaN}'),
        stored('{"kind":"call_started","tool_call_id":"1","tool_name":"t","args":[-Infinity]}'),
        stored('{"kind":"call_started","tool_call_id":1,"tool_name":"t","args":1}'),
        stored('{"kind":"call_started","tool_call_id":"1","tool_name":"t","args":' + '[' * 9999 + ']' * 9999 + '}'),
        stored('{"kind":"call_started","tool_call_id":"1","tool_name":"t","args":' + '9' * 5000 + '}'),
        '{"v":1}',
        '{"v":1,"entry":{"kind":"entered","node":"x"},"more":1}',
        '{"v":0,"entry":{"kind":"entered","node":"x"}}',
        '{"v":-1,"entry":{"kind":"entered","node":"x"}}',
        '{"v":"1","entry":{"kind":"entered","node":"x"}}',
        '{"v":true,"entry":{"kind":"entered","node":"x"}}',
        '{"v":1.5,"entry":{"kind":"entered","node":"x"}}',
    ],
)
def test_foreign_documents_are_refused(document: bytes | str) -> None:
    with pytest.raises(CodecError):
        decode(document)


def test_type_markers_inside_content_stay_data() -> None:
    marker: JsonValue = {
        '__class__': 'os.system',
        'py/object': 'os.system',
        '!!python/object': ['true'],
        'kind': 'file',
    }
    entry = decode(encode(Entered('n', message=ToolMessage([ToolReturnPart('t', marker, 'id')]))))
    assert isinstance(entry, Entered)
    assert isinstance(entry.message, ToolMessage)
    assert entry.message.parts[0].content == marker
    assert type(entry.message.parts[0].content) is dict


def test_a_newer_format_says_what_to_do() -> None:
    with pytest.raises(CodecError, match=r'format 2.*upgrade agent_graph'):
        decode('{"v":2,"entry":{"kind":"started","agent":null,"colour":"red"}}')


@dataclass(frozen=True, slots=True)
class Third:
    v: int
    name: str
    size: int = 0


def test_older_formats_are_brought_up_to_date_one_by_one() -> None:
    codec = VersionedJson(
        Third,
        name='the thing',
        version=3,
        upgrades={1: lambda d: {'title': d['nom']}, 2: lambda d: {'name': d['title'], 'size': 1}},
    )
    assert codec.load('{"v":1,"nom":"a"}') == Third(3, 'a', 1)
    assert codec.load('{"v":2,"title":"b"}') == Third(3, 'b', 1)
    assert codec.load(codec.dump(Third(3, 'c'))) == Third(3, 'c')
    for bad in ('{"v":1,"title":"a"}', '{"v":2,"title":2}', '{"v":4,"name":"a"}', '{"v":0}'):
        with pytest.raises(CodecError):
            codec.load(bad)


def test_size_is_bounded_both_ways() -> None:
    codec = VersionedJson(Third, name='the thing', version=3, max_bytes=100)
    with pytest.raises(CodecError, match='more than 100'):
        codec.dump(Third(3, 'x' * 100))
    with pytest.raises(CodecError, match='more than 100'):
        codec.load('{"v":3,"name":"' + 'x' * 100 + '"}')


# -- records and JSONL -----------------------------------------------------------------------------------------------


@given(st.builds(Record, st.integers(1, 2**40), st.floats(allow_nan=False, allow_infinity=False), entries))
@settings(max_examples=50, deadline=None)
def test_any_record_comes_back_equal(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_run_as_jsonl() -> None:
    records = sample_records()
    text = export_run(records)
    assert text.count('\n') == len(records)
    assert import_run(text) == records
    assert export_run(import_run(text)) == text
    assert import_run(text.replace('\n', '\r\n\r\n')) == records
    assert [json.loads(line)['seq'] for line in text.split('\n') if line] == list(range(1, len(records) + 1))
    assert import_run('') == []


def test_a_bad_line_is_named() -> None:
    lines = export_run(sample_records()).split('\n')
    with pytest.raises(CodecError, match='line 3'):
        import_run('\n'.join([*lines[:2], '{"v":1}', *lines[3:]]))
    with pytest.raises(CodecError, match='line 2 has seq 3, expected 2'):
        import_run('\n'.join([lines[0], *lines[2:]]))
    with pytest.raises(CodecError, match='not valid text'):
        export_run([Record(1, 0.0, Ended('failed', error='\udc97'))])


# -- large values ----------------------------------------------------------------------------------------------------

big = 'ü' * LARGE


@pytest.mark.parametrize(
    ('content', 'count'),
    [
        (big, 1),
        ([big, 'small', big + '!', {'deep': {'er': [big]}}], 3),
        ({'a': 1.5e300, 'b"\\': [10**40, None, True, big], 'c': {}}, 1),
        ([{'row': n} for n in range(20_000)], 1),
        ([['x' * 1000] * 100, ['y' * 1000] * 100], 2),
    ],
    ids=['text', 'several', 'odd keys', 'rows', 'two lists'],
)
def test_large_values_come_out_and_go_in_again(content: JsonValue, count: int) -> None:
    entry = CallFinished(ToolReturnPart('t', content, 'id'))
    rest, pieces = split(encode(entry))
    assert len(pieces) == count
    assert len(rest) < 1000
    assert all(len(piece) > LARGE for _, piece in pieces)
    assert decode(join(rest, pieces)) == entry


def test_the_same_value_is_the_same_piece_wherever_it_is() -> None:
    part = ToolReturnPart('t', {'rows': [{'n': n} for n in range(20_000)]}, 'id')
    documents = [
        encode(CallFinished(part)),
        encode(Entered('ModelRequest', message=ToolMessage([ToolReturnPart('u', 1, 'other'), part]))),
        encode(Started(None, history=(UserMessage('x' * 1000), ToolMessage([part])))),
    ]
    pieces = [split(document)[1] for document in documents]
    assert len({piece for found in pieces for _, piece in found}) == 1


def test_a_missing_piece_is_an_error() -> None:
    rest, pieces = split(encode(CallFinished(ToolReturnPart('t', big, 'id'))))
    with pytest.raises(CodecError, match='missing'):
        join(rest, [(place, None) for place, _ in pieces])
