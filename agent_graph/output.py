"""What a run must end with: the output type goes out as a schema, the model's answer comes back as a checked value.

An `output_type` is `str`, any type pydantic can check, a function (called with the model's arguments, its result is the
output), one of the markers below, a union of types, or a list of all of these. `None` among them lets a run end with an
empty answer.

| written as                  | the model answers with                                                    |
|-----------------------------|---------------------------------------------------------------------------|
| `str`                       | text                                                                      |
| `T`, `ToolOutput(T)`        | a call of an output tool whose arguments are a `T`; one tool a type       |
| a function                  | a call of an output tool; the function's result is the output             |
| `NativeOutput(T)`           | text, which the provider holds to the JSON schema of `T`                  |
| `PromptedOutput(T)`         | text, the JSON schema of `T` being part of the instructions               |
| `TextOutput(function)`      | text, which the function turns into the output                            |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeForm, TypeVar

__all__ = ['NativeOutput', 'PromptedOutput', 'TextOutput', 'ToolOutput']

Output = TypeVar('Output', default=str, covariant=True)


@dataclass(frozen=True, slots=True)
class ToolOutput(Generic[Output]):
    """Have the model call an output tool; `type` may be a type or a function. `name` and `description` are shown to it."""

    type: TypeForm[Output] | Callable[..., Awaitable[Output]] | Callable[..., Output]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    max_retries: int | None = None


@dataclass(frozen=True, slots=True)
class NativeOutput(Generic[Output]):
    """Have the provider hold the answer's text to the type's JSON schema."""

    type: TypeForm[Output]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class PromptedOutput(Generic[Output]):
    """Ask for JSON in the instructions: `instructions` (or a plain request) followed by the JSON schema."""

    type: TypeForm[Output]
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class TextOutput(Generic[Output]):
    """Pass the answer's text through `function(text)` or `function(ctx, text)`, sync or async."""

    function: Callable[..., Awaitable[Output]] | Callable[..., Output]
