"""Any schema through any dialect: legal, never narrower than it was, and nothing but a typed refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.dialects import DIALECTS
from agent_graph.tools.sample import sample_arguments
from agent_graph.tools.schema import schema_from_json
from tests.tools.test_fit import SCHEMAS, TREE, VALUES

jsonschema: Any = pytest.importorskip('jsonschema', reason='the independent checker is not installed')


def whole(schema: Any) -> dict[str, Any]:
    return {'type': 'object', 'properties': {'x': schema}, 'required': ['x'], '$defs': {'tree': TREE}}


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, VALUES, st.sampled_from(['openai', 'plain']))
def test_a_dialect_that_only_loosens_takes_what_the_original_takes(schema: Any, value: Any, name: str) -> None:
    published = whole(schema)
    made = DIALECTS[name](published)
    jsonschema.Draft202012Validator.check_schema(made)
    if jsonschema.Draft202012Validator(published).is_valid({'x': value}):
        assert jsonschema.Draft202012Validator(made).is_valid({'x': value})


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, st.sampled_from(['strict', 'google']))
def test_a_dialect_that_rewrites_gives_a_legal_schema_or_a_typed_refusal(schema: Any, name: str) -> None:
    try:
        made = DIALECTS[name](whole(schema), tool_name='t')
    except ToolDefinitionError as error:
        refused = error
    else:
        jsonschema.Draft202012Validator.check_schema(made)
        assert json.loads(json.dumps(made)) == made
        return
    assert name == 'strict' and refused.tool_name == 't'


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, st.integers(0, 3))
def test_samples_are_valid_or_refused(schema: Any, seed: int) -> None:
    try:
        sample = sample_arguments(whole(schema), seed=seed)
    except ToolDefinitionError:
        return
    assert jsonschema.Draft202012Validator(whole(schema)).is_valid(sample)
    assert schema_from_json('t', None, whole(schema), print).validate(json.dumps(sample)).keys() == sample.keys()
