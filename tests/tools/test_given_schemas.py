"""Every published tool schema goes through registration and every dialect, and still means what it meant.

The schemas are not part of the project: set `AGENT_GRAPH_TOOL_SCHEMAS` to a folder of JSON Lines files, each line with
`id`, `name`, `description` and `parameters`. Without the folder these tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_graph.errors import ArgumentsError, ToolDefinitionError
from agent_graph.tools.dialects import DIALECTS
from agent_graph.tools.names import wire_names
from agent_graph.tools.sample import sample_arguments
from agent_graph.tools.schema import FunctionSchema, schema_from_json

FOLDER = Path(os.environ.get('AGENT_GRAPH_TOOL_SCHEMAS', Path(__file__).parents[3] / 'shared' / 'tool_schemas'))
FILES = sorted(FOLDER.glob('*.jsonl'))

pytestmark = pytest.mark.skipif(not FILES, reason=f'no tool schemas at {FOLDER}; set AGENT_GRAPH_TOOL_SCHEMAS')
EACH_FILE = pytest.mark.parametrize('file', FILES, ids=[file.stem for file in FILES])
jsonschema: Any = pytest.importorskip('jsonschema', reason='the independent checker is not installed')


def call(**arguments: Any) -> dict[str, Any]:
    return arguments


@cache
def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text('utf-8').splitlines() if line.strip()]


@cache
def registered(file: Path) -> tuple[list[tuple[str, FunctionSchema]], list[ToolDefinitionError]]:
    """What could be registered, by record id, and the refusals."""
    made: list[tuple[str, FunctionSchema]] = []
    refused: list[ToolDefinitionError] = []
    for record in records(file):
        try:
            schema = schema_from_json(record['name'], record['description'], record['parameters'], call)
        except ToolDefinitionError as error:
            refused.append(error)
        else:
            made.append((record['id'], schema))
    return made, refused


def rewritten(name: str, schema: FunctionSchema) -> dict[str, Any] | ToolDefinitionError:
    try:
        return DIALECTS[name](schema.parameters, tool_name=schema.name)
    except ToolDefinitionError as error:
        return error


def validated(schema: FunctionSchema, arguments: dict[str, Any]) -> dict[str, Any] | ArgumentsError:
    try:
        return schema.validate(json.dumps(arguments))
    except ArgumentsError as error:
        return error


@cache  # most dialects leave most schemas as they are, and this is the slowest check
def assert_legal(text: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def parts(schema: Any, path: str = '') -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in a schema with its place."""
    if isinstance(schema, dict):
        yield path, schema  # pyright: ignore[reportUnknownVariableType]
        for name, held in schema.items():  # pyright: ignore[reportUnknownVariableType]
            yield from parts(held, f'{path}/{name}')
    elif isinstance(schema, list):
        for index, held in enumerate(schema):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from parts(held, f'{path}/{index}')


def schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects that are schemas: not the maps of names, not values."""
    values = re.compile(r'/(const|enum|default|examples)(/|$)')
    for path, part in parts(schema):
        steps = path.split('/')
        if not values.search(path) and not (steps[-1] in ('properties', '$defs') and _is_map(steps)):
            yield part


def _is_map(steps: list[str]) -> bool:
    """Whether the last step is the keyword and not a property of that name."""
    return len(steps) < 3 or not (steps[-2] in ('properties', '$defs') and _is_map(steps[:-1]))


def assert_references_resolve(schema: dict[str, Any], where: str) -> None:
    for _, part in parts(schema):
        ref = part.get('$ref')
        if isinstance(ref, str):
            assert ref.removeprefix('#/$defs/') in schema['$defs'], (where, ref)


@EACH_FILE
def test_registration_gives_a_legal_schema_or_a_typed_refusal(file: Path) -> None:
    made, refused = registered(file)
    assert len(made) + len(refused) == len(records(file))
    for error in refused:
        assert error.tool_name and error.path.startswith('/') and error.path in str(error)
    assert len(refused) * 50 <= len(records(file)), [str(error) for error in refused]
    by_id = {record['id']: record for record in records(file)}
    for key, schema in made:
        assert_legal(json.dumps(schema.parameters))
        assert schema.parameters['type'] == 'object'
        assert_references_resolve(schema.parameters, key)
        assert schema.name == by_id[key]['name']
        assert schema.description == (by_id[key]['description'] or '')


@EACH_FILE
def test_legal_schemas_keep_their_meaning(file: Path) -> None:
    """Where the published schema is legal, both say the same of the samples and of spoilt samples."""
    published = {record['id']: record['parameters'] for record in records(file)}
    for key, schema in registered(file)[0]:
        try:
            jsonschema.Draft202012Validator.check_schema(published[key])
        except jsonschema.SchemaError:
            continue
        theirs = jsonschema.Draft202012Validator(published[key])
        ours = jsonschema.Draft202012Validator(schema.parameters)
        sample = sample_arguments(schema.parameters, tool_name=schema.name)
        for value in [sample, *spoilt(sample, schema.parameters)]:
            if 'enum": []' not in json.dumps(published[key]):  # which nothing could satisfy
                assert theirs.is_valid(value) == ours.is_valid(value), (key, value)


@EACH_FILE
@pytest.mark.parametrize('name', list(DIALECTS))
def test_every_dialect_gives_a_legal_schema_or_a_typed_refusal(file: Path, name: str) -> None:
    refusals: Counter[str] = Counter()
    for key, schema in registered(file)[0]:
        made = rewritten(name, schema)
        if isinstance(made, ToolDefinitionError):
            assert name == 'strict' and made.tool_name == schema.name
            refusals[str(made).rpartition(': ')[2]] += 1
            continue
        assert_legal(json.dumps(made))
        assert made['type'] == 'object' and 'properties' in made, key
        assert not made.keys() & {'anyOf', 'oneOf', 'allOf', 'not', '$ref', 'enum'}, key
        assert_references_resolve(made, key)
        assert len(json.dumps(made)) < 400_000
        _CHECKS[name](made, key)
    print(f'{file.stem} {name}: {len(registered(file)[0])} schemas, refused: {dict(refusals)}')


def check_openai(made: dict[str, Any], key: str) -> None:
    for part in schemas(made):
        assert part.get('type') != 'array' or 'items' in part, key


def check_strict(made: dict[str, Any], key: str) -> None:
    for part in schemas(made):
        assert not part.keys() & {'oneOf', 'allOf', 'not', 'default', 'minLength', 'patternProperties'}, key
        assert part.keys() & {'type', 'anyOf', '$ref', 'enum', 'const'}, (key, part)
        assert '$ref' not in part or len(part) == 1, (key, part)
        if 'properties' in part:
            assert part['additionalProperties'] is False, key
            assert part['required'] == list(part['properties']), key


def check_plain(made: dict[str, Any], key: str) -> None:
    assert '"$ref"' not in json.dumps(made), key
    check_openai(made, key)


GOOGLE = {
    'type', 'format', 'title', 'description', 'nullable', 'enum', 'maxItems', 'minItems', 'properties', 'required',
    'minProperties', 'maxProperties', 'minLength', 'maxLength', 'pattern', 'anyOf', 'items', 'minimum', 'maximum',
}  # fmt: skip


def check_google(made: dict[str, Any], key: str) -> None:
    for part in schemas(made):
        assert part.keys() <= GOOGLE, (key, part.keys() - GOOGLE)
        assert isinstance(part.get('type', 'string'), str), key
        assert 'type' in part or 'anyOf' in part, (key, part)
        assert part is made or part.get('type') != 'object' or part['properties'], key
        assert part.get('type') != 'array' or part['items'], key
        assert all(isinstance(value, str) for value in part.get('enum', ())), key


_CHECKS = {'openai': check_openai, 'strict': check_strict, 'plain': check_plain, 'google': check_google}


@EACH_FILE
def test_sample_arguments_pass_and_spoilt_ones_are_refused(file: Path) -> None:
    refused = tried = 0
    for key, schema in registered(file)[0]:
        checker = jsonschema.Draft202012Validator(schema.parameters)
        for seed in (0, 1, 7):
            sample = sample_arguments(schema.parameters, seed=seed, tool_name=schema.name)
            assert checker.is_valid(sample), (key, sample)
            assert schema.validate(json.dumps(sample)) == sample, key
            assert schema.validate(sample) == sample, key
        for bad in spoilt(sample_arguments(schema.parameters), schema.parameters):
            tried += 1
            mended = validated(schema, bad)
            if isinstance(mended, ArgumentsError):
                assert mended.message and not mended.incomplete
                refused += 1
            else:
                assert checker.is_valid(mended), (key, bad, mended)
    assert refused > tried * 0.9, (refused, tried)


def spoilt(sample: dict[str, Any], parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The sample with one thing wrong: a required name gone, a value of another type, an unknown name."""
    for name in parameters.get('required', ()):
        yield {key: value for key, value in sample.items() if key != name}
    for name, value in sample.items():
        if parameters.get('properties', {}).get(name, {}).keys() & {'type', '$ref', 'enum', 'const', 'anyOf', 'oneOf'}:
            yield {**sample, name: {'wrong': ['type']} if not isinstance(value, dict) else ['wrong']}
            yield {**sample, name: None}


@EACH_FILE
def test_what_the_samples_hold_a_looser_dialect_allows(file: Path) -> None:
    for key, schema in registered(file)[0]:
        sample = sample_arguments(schema.parameters, seed=3, tool_name=schema.name)
        for name in ('openai', 'plain'):
            made = DIALECTS[name](schema.parameters, tool_name=schema.name)
            assert jsonschema.Draft202012Validator(made).is_valid(sample), (key, name, sample)


# what the dialect cannot say, so that the model may get it wrong: it is told then
TOLERATED = {
    'strict': ('characters',),
    'google': ('characters', 'expected an object', 'expected one of', 'alternatives', 'missing, it is required'),
}


@EACH_FILE
def test_what_a_strict_or_google_schema_allows_is_understood(file: Path) -> None:
    """The provider may send what the rewritten schema allows: nulls, and text in place of free-form objects."""
    missed: Counter[str] = Counter()
    for key, schema in registered(file)[0]:
        for name in ('strict', 'google'):
            made = rewritten(name, schema)
            if isinstance(made, ToolDefinitionError):
                continue
            sent = sample_arguments(made, tool_name=schema.name)
            if name == 'strict':
                optional = set(made['properties']) - set(schema.parameters.get('required', ()))
                sent.update(dict.fromkeys(optional))
            got = validated(schema, sent)
            if isinstance(got, ArgumentsError):
                missed[name] += 1
                assert any(word in got.message for word in TOLERATED[name]), (key, sent, got.message)
    print(f'{file.stem}: {len(registered(file)[0])} schemas, missed: {dict(missed)}')


@EACH_FILE
def test_every_name_can_be_sent(file: Path) -> None:
    names = sorted({record['name'] for record in records(file)})
    wire = wire_names(names)
    assert all(re.fullmatch(r'[a-zA-Z0-9_-]{1,64}', name) for name in wire.values())
    assert len(set(wire.values())) == len(names)
