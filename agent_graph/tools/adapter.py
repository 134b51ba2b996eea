"""One pydantic validator for all parameters of a function, and the JSON schema it gives.

The parameters become the keys of a TypedDict. A key whose parameter has a default is not required and stays absent when
the model leaves it out, so that the function's own default object is used, never a copy of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NoReturn, NotRequired, Required, get_args, get_origin

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, from_json, to_json
from typing_extensions import TypedDict, Unpack, get_type_hints, is_typeddict

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.legal import legal
from agent_graph.tools.signature import EMPTY, Parameter, Signature

__all__ = ['argument_adapter', 'argument_schema']


def argument_adapter(signature: Signature, tool_name: str) -> TypeAdapter[Any]:
    """The validator of a call's arguments. Raises `ToolDefinitionError` naming the parameter pydantic cannot take."""
    try:
        return _build(signature)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        _blame(signature, tool_name, error)


def argument_schema(
    adapter: TypeAdapter[Any], signature: Signature, texts: Mapping[str, str], tool_name: str
) -> dict[str, Any]:
    """The JSON schema of a call's arguments, with the defaults and the docstring's descriptions. Raises as above."""
    try:
        schema = adapter.json_schema(schema_generator=_Untitled)
    except PydanticUserError as error:
        _blame(signature, tool_name, error)
    schema.pop('title', None)
    for name, definition in schema.get('$defs', {}).items():
        if definition.get('title') == name:
            del definition['title']
    for parameter in signature.parameters:
        shown = schema['properties'].get(_shown_name(parameter))
        if shown is not None:
            if parameter.name in texts:
                shown.setdefault('description', texts[parameter.name])
            shown.update(_default(parameter))
    return legal(schema, tool_name=tool_name)


class _Untitled(GenerateJsonSchema):
    """Without the titles pydantic derives from names: they repeat the name and cost tokens in every request."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ignored_warning_kinds: set[JsonSchemaWarningKind] = {'skipped-choice', 'non-serializable-default'}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _build(signature: Signature) -> TypeAdapter[Any]:
    keys: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    config = ConfigDict(defer_build=True, extra='forbid')
    for parameter in signature.parameters:
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            keys[parameter.name] = _key(parameter)
        elif get_origin(parameter.annotation) is Unpack:
            keys.update(_unpacked(get_args(parameter.annotation)[0]))
        else:
            extra, config = {'extra_items': parameter.annotation}, ConfigDict(defer_build=True)
    # the functional form, since the names and types are known only now; a type checker cannot follow that
    make: Any = TypedDict
    arguments: Any = make('arguments', keys, **extra)
    arguments.__pydantic_config__ = config
    adapter: TypeAdapter[Any] = TypeAdapter(arguments)
    adapter.rebuild(_types_namespace=signature.namespace)
    return adapter


def _key(parameter: Parameter) -> Any:
    annotation = _annotation(parameter)
    info = FieldInfo.from_annotation(annotation)
    required = parameter.required and info.is_required()
    return Required[annotation] if required else NotRequired[annotation]


def _annotation(parameter: Parameter) -> Any:
    """The parameter's type as a key's: `*args` is a list, a `Field(...)` given as the default is part of the type."""
    annotation, default = parameter.annotation, parameter.default
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return get_args(annotation)[0] if get_origin(annotation) is Unpack else list[annotation]
    if isinstance(default, FieldInfo):
        return Annotated[annotation, default]
    if default is not EMPTY and not FieldInfo.from_annotation(annotation).is_required():
        return Annotated[annotation, Field(default=default)]  # the signature's default counts, as in a plain call
    return annotation


def _unpacked(typed_dict: Any) -> Iterator[tuple[str, Any]]:
    """The keys of `**kwargs: Unpack[SomeTypedDict]`."""
    if not is_typeddict(typed_dict):
        raise PydanticUserError(f'Unpack needs a TypedDict, got {typed_dict!r}', code=None)
    for name, annotation in get_type_hints(typed_dict, include_extras=True).items():
        if get_origin(annotation) in (Required, NotRequired):
            annotation = get_args(annotation)[0]
        required = name in typed_dict.__required_keys__
        yield name, Required[annotation] if required else NotRequired[annotation]


def _shown_name(parameter: Parameter) -> str:
    """The name the model uses: the parameter's, or its alias."""
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return ''
    alias = FieldInfo.from_annotation(_annotation(parameter)).validation_alias
    return alias if isinstance(alias, str) else parameter.name


def _default(parameter: Parameter) -> dict[str, Any]:
    """`{'default': ...}` when there is one and it can be written as JSON."""
    if parameter.default is EMPTY or isinstance(parameter.default, FieldInfo):
        return {}
    try:
        return {'default': from_json(to_json(parameter.default), allow_inf_nan=False)}
    except (PydanticSerializationError, ValueError):
        return {}


def _blame(signature: Signature, tool_name: str, error: Exception) -> NoReturn:
    """Raise the error of the parameter it belongs to, found by trying each alone."""
    for parameter in signature.parameters:
        try:
            alone = _build(Signature((parameter,), signature.takes_context, signature.namespace))
            alone.json_schema(schema_generator=_Untitled)
        except (PydanticUserError, PydanticUndefinedAnnotation) as found:
            what = f'parameter {parameter.name!r} of tool {tool_name!r} cannot be offered to a model'
            text = str(found).partition('\n')[0]
            raise ToolDefinitionError(f'{what}: {text}', tool_name=tool_name, path=parameter.name) from found
    raise ToolDefinitionError(f'tool {tool_name!r}: {error}', tool_name=tool_name) from error
