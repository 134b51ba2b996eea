"""A function's signature with its annotations resolved, string annotations and local types included.

Names in string annotations are looked up where the function was written: its closure, the functions and classes around
it that are still running (`local_names` finds them on the stack), its module. The first parameter is the `RunContext`
when its annotation is that class, or, if the annotation cannot be resolved because it was imported for type checkers
only, when it is called `RunContext`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Annotated, Any, NoReturn, Union, cast, get_args, get_origin

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.context import RunContext

__all__ = ['EMPTY', 'Parameter', 'Signature', 'first_unresolved', 'local_names', 'plain_function', 'read_signature']

EMPTY: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter the model fills in. `default` is `EMPTY` when there is none."""

    name: str
    kind: inspect._ParameterKind  # pyright: ignore[reportPrivateUsage] (the stubs have no public name for it)
    annotation: Any
    default: Any

    @property
    def required(self) -> bool:
        """The function cannot be called without it."""
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return self.default is EMPTY and self.kind not in variable


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters without the context, whether there is one, and the names annotations may use."""

    parameters: tuple[Parameter, ...]
    takes_context: bool
    namespace: dict[str, Any]


def plain_function(function: Callable[..., Any]) -> Any:
    """The function in which the code of a partial, bound method, callable object or wrapper stands."""
    inner: Any = function
    while (deeper := _deeper(inner)) is not None:
        inner = deeper
    return inner


def _deeper(function: Any) -> Any:
    if isinstance(function, functools.partial):
        return cast('functools.partial[Any]', function).func
    if inspect.ismethod(function):
        return function.__func__
    if (wrapped := getattr(function, '__wrapped__', None)) is not None:
        return wrapped
    if inspect.isroutine(function) or inspect.isclass(function):
        return None
    call: Any = getattr(function.__class__, '__call__', None)  # noqa: B004 (the attribute itself is wanted)
    return call if isinstance(call, FunctionType) else None


def local_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Names of the functions and classes around `function` that are still running; empty for a module's functions.

    Call it where the function is handed over: later these frames, and with them the types defined there, are gone.
    """
    inner = plain_function(function)
    around = _around(getattr(inner, '__qualname__', ''))
    if not around:
        return {}
    found: dict[str, Any] = {}
    frames: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_qualname
        if name in around and name not in frames and frame.f_globals is getattr(inner, '__globals__', None):
            frames[name] = frame.f_locals
        frame = frame.f_back
    for name in around:  # from the outside in: inner names hide outer ones
        found.update(frames.get(name, {}))
    return found


def _around(qualname: str) -> list[str]:
    """The qualified names of what encloses `outer.<locals>.Class.method`, outermost first."""
    parts = qualname.split('.')[:-1]
    names = ['.'.join(parts[:end]) for end in range(1, len(parts) + 1)]
    return [name for name in names if not name.endswith('<locals>')]


def read_signature(
    function: Callable[..., Any], name: str, takes_context: bool | None, namespace: Mapping[str, Any]
) -> Signature:
    """Resolve the signature. Raises `ToolDefinitionError` naming the function, the parameter and the name."""
    raw = _raw_parameters(function, name)
    inner = plain_function(function)
    names = _namespace(inner, {**local_names(function), **namespace})
    with_context = bool(raw) and _is_context(raw[0], inner, names) if takes_context is None else takes_context
    if with_context:
        if not raw or raw[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            _refuse(name, '', f'takes_context=True, but {_where(inner)} has no positional parameter for the context')
        if raw[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            del raw[0]
    parameters = tuple(_parameter(item, inner, names, name) for item in raw)
    return Signature(parameters, with_context, names)


def first_unresolved(function: Callable[..., Any], namespace: Mapping[str, Any]) -> str | None:
    """The first name an annotation uses that cannot be found now, or None."""
    try:
        raw = _raw_parameters(function, '')
    except ToolDefinitionError:
        return None  # no signature to wait for
    inner = plain_function(function)
    names = _namespace(inner, {**local_names(function), **namespace})
    if raw and _is_context(raw[0], inner, names):
        del raw[0]
    for item in raw:
        try:
            _resolve(item.annotation, inner, names)
        except NameError as error:
            return error.name
        except Exception:  # whatever an annotation's own code raises is reported when the schema is made
            return None
    return None


def _raw_parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    if inspect.isclass(function):
        _refuse(name, '', f'{function!r} is a class; pass a function that makes one')
    if not callable(function):
        _refuse(name, '', f'{function!r} is not a function')
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as error:
        _refuse(name, '', f'{function!r} has no signature that can be read ({error}); wrap it in a function')
    if parameters and parameters[0].name in ('self', 'cls') and '.' in getattr(function, '__qualname__', ''):
        _refuse(name, parameters[0].name, f'{_where(function)} is a method; pass it bound to an object')
    bound = _bound_keywords(function)
    return [item for item in parameters if item.name not in bound]


def _bound_keywords(function: Any) -> set[str]:
    """Keyword arguments a `partial` has settled: they are not the model's to choose, and may be secret."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        partial = cast('functools.partial[Any]', function)
        bound.update(partial.keywords)
        function = partial.func
    return bound


def _namespace(inner: Any, local: Mapping[str, Any]) -> dict[str, Any]:
    """Everything an annotation of `inner` can name besides its module's globals."""
    names = dict(local)
    code = getattr(inner, '__code__', None)
    for name, cell in zip(getattr(code, 'co_freevars', ()), getattr(inner, '__closure__', None) or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # assigned later in the function around it
            continue
    names.update({parameter.__name__: parameter for parameter in getattr(inner, '__type_params__', ())})
    return {**_class_names(inner), **names}


def _class_names(inner: Any) -> dict[str, Any]:
    """The attributes of the class in whose body the function stands, where the class can be reached by name."""
    owner: Any = SimpleNamespace(**getattr(inner, '__globals__', {}))
    for part in getattr(inner, '__qualname__', '').split('.')[:-1]:
        owner = getattr(owner, part, None)
    return dict(vars(owner)) if inspect.isclass(owner) else {}


def _resolve(annotation: Any, inner: Any, names: Mapping[str, Any]) -> Any:
    """The annotation as an object, forward references inside it included. Raises NameError and worse."""
    if annotation is EMPTY:
        return Any
    holder: Any = SimpleNamespace(__annotations__={'annotation': annotation})
    scope = getattr(inner, '__globals__', {})
    return typing.get_type_hints(holder, scope, dict(names), include_extras=True)['annotation']


def _parameter(item: inspect.Parameter, inner: Any, names: Mapping[str, Any], tool_name: str) -> Parameter:
    where = f'parameter {item.name!r} of {_where(inner)}'
    try:
        annotation = _resolve(item.annotation, inner, names)
    except NameError as error:
        _refuse(
            tool_name,
            item.name,
            f'the annotation {item.annotation!r} of {where} uses {error.name!r}, which cannot be found; import or define '
            'it where it exists at run time (not only under TYPE_CHECKING), or pass takes_context=True if it is the context',
        )
    except Exception as error:  # an annotation is an expression: it can raise anything
        _refuse(tool_name, item.name, f'the annotation {item.annotation!r} of {where} cannot be read: {error}')
    if _is_context_type(annotation):
        _refuse(tool_name, item.name, f'{where} is a RunContext; make it the first parameter')
    return Parameter(item.name, item.kind, annotation, item.default)


def _is_context(item: inspect.Parameter, inner: Any, names: Mapping[str, Any]) -> bool:
    try:
        return _is_context_type(_resolve(item.annotation, inner, names))
    except Exception:  # not resolvable: what is left is how it is written
        return isinstance(item.annotation, str) and any(
            _names_context(head, inner, names) for head in _heads(item.annotation)
        )


def _is_context_type(annotation: Any) -> bool:
    while (value := getattr(annotation, '__value__', None)) is not None:  # `type Alias = RunContext[...]`
        annotation = value
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_context_type(get_args(annotation)[0])
    if origin is Union or type(annotation).__name__ == 'UnionType':
        return any(_is_context_type(member) for member in get_args(annotation))
    origin = origin or annotation
    return inspect.isclass(origin) and issubclass(origin, RunContext)


def _heads(text: str) -> Iterator[ast.expr]:
    """The outermost names of an annotation: `RunContext` of `'RunContext[Deps]'`, both sides of a union."""
    try:
        todo: list[ast.expr] = [ast.parse(text.strip(), mode='eval').body]
    except SyntaxError:
        return
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Subscript):
            todo.append(node.value)
        elif isinstance(node, ast.BinOp):
            todo += [node.left, node.right]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _heads(node.value)
        else:
            yield node


def _names_context(head: ast.expr, inner: Any, names: Mapping[str, Any]) -> bool:
    try:
        return _is_context_type(_resolve(ast.unparse(head), inner, names))
    except Exception:  # imported for type checkers only
        word = head.attr if isinstance(head, ast.Attribute) else head.id if isinstance(head, ast.Name) else ''
        return word == RunContext.__name__


def _where(function: Any) -> str:
    return f'{getattr(function, "__module__", "?")}.{getattr(function, "__qualname__", repr(function))}'


def _refuse(tool_name: str, path: str, text: str) -> NoReturn:
    raise ToolDefinitionError(f'tool {tool_name!r}: {text}', tool_name=tool_name, path=path)
