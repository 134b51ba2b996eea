"""The messages of a conversation and their parts: a tagged union of frozen data.

Every class has a `kind` tag, so a list of them is one JSON document (`agent_graph.messages.dump_json`). Sequences given
as lists are kept as tuples. Nothing here knows a provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from agent_graph.errors import MessageError
from agent_graph.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

__all__ = [
    'AssistantMessage',
    'AssistantPart',
    'BuiltinToolCallPart',
    'BuiltinToolReturnPart',
    'CachePoint',
    'Citation',
    'FilePart',
    'FinishReason',
    'JsonValue',
    'Message',
    'Outcome',
    'SystemMessage',
    'Tagged',
    'TextPart',
    'ThinkingPart',
    'ToolCallPart',
    'ToolMessage',
    'ToolReturnPart',
    'UserContent',
    'UserMessage',
]


class _Json:
    """Stands for pydantic's `JsonValue` until a schema is built: importing pydantic takes longer than all of this."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import JsonValue

        return handler.generate_schema(JsonValue)


if not TYPE_CHECKING:
    JsonValue = Annotated[Any, _Json()]


class Tagged:
    """Marks a union whose members are told apart by their `kind`; pydantic's `Discriminator`, imported when needed."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Discriminator

        return Discriminator('kind').__get_pydantic_core_schema__(source, handler)


FinishReason: TypeAlias = Literal['stop', 'length', 'tool_calls', 'content_filter', 'refusal', 'error', 'other']
"""Why a response ended, in common words; the provider's own word is in `provider_details['finish_reason']`."""

Outcome: TypeAlias = Literal['success', 'retry', 'failed', 'denied', 'interrupted', 'skipped']
"""What became of a tool call.

`success` it ran; `retry` it could not be used and the model is told why; `failed` it raised and the run ended;
`denied` a person said no; `interrupted` it was stopped or the process died; `skipped` it was not started.
Every answer but `success`, and `retry` raised by a tool itself, was written by the engine.
"""


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a text comes from, in common words.

    `start` and `end` are the characters of the part's text it stands for, where the provider tells them;
    `provider_details` is the provider's own object, sent back verbatim where it has to be.
    """

    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    provider_details: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text, from a model, and where that comes from."""

    content: str
    provider_details: dict[str, JsonValue] | None = None
    citations: tuple[Citation, ...] = ()
    kind: Literal['text'] = field(default='text', kw_only=True)


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Visible reasoning of a model. `signature` is the provider's seal on it, sent back verbatim."""

    content: str
    signature: str | None = None
    provider_details: dict[str, JsonValue] | None = None
    kind: Literal['thinking'] = field(default='thinking', kw_only=True)


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A tool the model wants called. `args` is the argument text as sent (JSON), or the object itself."""

    tool_name: str
    args: str | dict[str, JsonValue] = ''
    tool_call_id: str = ''
    provider_details: dict[str, JsonValue] | None = None
    kind: Literal['tool_call'] = field(default='tool_call', kw_only=True)

    def args_as_dict(self) -> dict[str, JsonValue]:
        """`args` as an object in either case; no text is no arguments.

        For looking at a call. Whether it may be run is for the tool's own reader to say, which forgives more and checks
        every value. Raises `MessageError` for text that is no JSON object.
        """
        if not isinstance(self.args, str):
            return self.args
        from pydantic_core import from_json

        try:
            found: object = from_json(self.args) if self.args.strip() else {}
        except ValueError as error:
            raise MessageError(f'the arguments {self.args!r} of {self.tool_name!r} are not JSON: {error}') from error
        if not isinstance(found, dict):
            raise MessageError(
                f'the arguments {self.args!r} of {self.tool_name!r} are no JSON object; they are unusable'
            )
        return cast('dict[str, JsonValue]', found)


@dataclass(frozen=True, slots=True)
class BuiltinToolCallPart:
    """A tool that the provider runs itself: searching the web, running code, asking an MCP server. Never run here.

    `tool_name` is the provider's name of it. `provider_details` keeps the provider's own item, sent back verbatim to the
    same provider; for any other such parts are left out of the history.
    """

    tool_name: str
    args: str | dict[str, JsonValue] = ''
    tool_call_id: str = ''
    provider_details: dict[str, JsonValue] | None = None
    kind: Literal['builtin_tool_call'] = field(default='builtin_tool_call', kw_only=True)


@dataclass(frozen=True, slots=True)
class BuiltinToolReturnPart:
    """What a provider's own tool answered, in the same response; see `BuiltinToolCallPart`."""

    tool_name: str
    content: JsonValue = None
    tool_call_id: str = ''
    provider_details: dict[str, JsonValue] | None = None
    kind: Literal['builtin_tool_return'] = field(default='builtin_tool_return', kw_only=True)


@dataclass(frozen=True, slots=True)
class CachePoint:
    """In a user message: everything before it is worth keeping in the provider's prompt cache, for `ttl`.

    Providers without such marks ignore it.
    """

    ttl: Literal['5m', '1h'] = '5m'
    kind: Literal['cache_point'] = field(default='cache_point', kw_only=True)


@dataclass(frozen=True, slots=True)
class FilePart:
    """An image, a sound, a video or a document, in either direction.

    Exactly one of `data` (bytes), `url` (`https:`, `http:` or `data:`) and `file_id` (a file the provider already has)
    is set. `media_type` is an IANA type such as `image/png`. `name` is a file name to show.
    """

    media_type: str
    data: bytes | None = None
    url: str | None = None
    file_id: str | None = None
    name: str | None = None
    provider_details: dict[str, JsonValue] | None = None
    kind: Literal['file'] = field(default='file', kw_only=True)

    def __post_init__(self) -> None:
        given = [n for n in ('data', 'url', 'file_id') if getattr(self, n) is not None]
        if len(given) != 1:
            raise MessageError(f'FilePart takes exactly one of data, url and file_id, got {given!r}; pass one of them')

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str, *, name: str | None = None) -> FilePart:
        """A file whose bytes are at hand; `media_type` such as `'image/png'`."""
        given: Any = data
        if not isinstance(given, bytes | bytearray | memoryview):
            raise MessageError(f'the data of a file are {type(data).__name__}, not bytes; encode a text first')
        if not media_type:
            raise MessageError(f"the media type of a file is {media_type!r}; pass one such as 'image/png'")
        data = bytes(data)  # a copy of what may change
        return cls(media_type, data=data, name=name)

    @classmethod
    def from_path(cls, path: str | Path, *, media_type: str | None = None) -> FilePart:
        """Read a file; its type is guessed from the name when not given."""
        from pathlib import Path

        path = Path(path)
        return cls(media_type or _guess(path.name), data=path.read_bytes(), name=path.name)

    @classmethod
    def from_url(cls, url: str, *, media_type: str | None = None, allow_local: bool = False) -> FilePart:
        """A file at an address; nothing is fetched here. The type is guessed from the address when not given.

        `allow_local` lets a provider that has to fetch it go to this machine and its private networks, which it refuses
        otherwise; never set it for an address that comes from somebody else.
        """
        scheme = url.partition(':')[0].lower()
        if ':' not in url or scheme == 'file' or not scheme.isascii() or not scheme.isalnum():
            raise MessageError(
                f'{url!r} is no address a model can be sent; use https://..., or from_path for a file here'
            )
        details: dict[str, JsonValue] | None = {'allow_local': True} if allow_local is True else None
        return cls(media_type or _guess(url.split('?', 1)[0]), url=url, provider_details=details)


def _guess(name: str) -> str:
    from mimetypes import guess_type  # loads the system's tables, so only when a type has to be guessed

    media_type, _ = guess_type(name)
    if media_type is None:
        raise MessageError(f'cannot tell the media type of {name!r} from its name; pass media_type=')
    return media_type


UserContent: TypeAlias = str | FilePart | CachePoint
"""What a user message is made of."""


@dataclass(frozen=True, slots=True)
class ToolReturnPart:
    """The answer to one tool call.

    `content` is JSON data (a string stays a string). `extra_content` is shown to the model beside it (text and files
    from `ToolReturn(content=...)`); `metadata` is kept for the application and never sent.
    """

    tool_name: str
    content: JsonValue
    tool_call_id: str
    outcome: Outcome = 'success'
    extra_content: tuple[str | FilePart, ...] = ()
    metadata: JsonValue = None
    kind: Literal['tool_return'] = field(default='tool_return', kw_only=True)

    def __post_init__(self) -> None:
        if self.extra_content.__class__ is not tuple:
            object.__setattr__(self, 'extra_content', tuple(self.extra_content))


AssistantPart: TypeAlias = Annotated[
    TextPart | ThinkingPart | ToolCallPart | FilePart | BuiltinToolCallPart | BuiltinToolReturnPart, Tagged()
]
"""What a model's response is made of."""


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Instructions to the model. `from_instructions` marks the text an agent's own instructions gave in this run.

    Such text is replaced, not repeated, when the messages are passed to another run.
    """

    content: str
    from_instructions: bool = False
    kind: Literal['system'] = field(default='system', kw_only=True)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the person (or the engine, when it asks the model again) said: a text, or texts and files in order."""

    content: str | Sequence[UserContent]
    kind: Literal['user'] = field(default='user', kw_only=True)

    def __post_init__(self) -> None:
        if self.content.__class__ is not str and self.content.__class__ is not tuple:
            object.__setattr__(self, 'content', tuple(self.content))


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One response of a model.

    `usage` holds this response's tokens. `model_name` is the model as answered, `provider_name` who served it.
    `finish_reason` is in common words; `refusal` the model's refusal where the protocol has one. `interrupted` marks a
    response that was not received to its end. `provider_details` keeps what has no common place (log probabilities,
    citations, service tier, the provider's own finish word).
    """

    parts: Sequence[AssistantPart]
    usage: Usage = NO_USAGE
    model_name: str | None = None
    provider_response_id: str | None = None
    finish_reason: FinishReason | None = None
    provider_details: dict[str, Any] | None = None
    provider_name: str | None = None
    refusal: str | None = None
    interrupted: bool = False
    kind: Literal['assistant'] = field(default='assistant', kw_only=True)

    def __post_init__(self) -> None:
        if self.parts.__class__ is not tuple:
            object.__setattr__(self, 'parts', tuple(self.parts))

    @property
    def text(self) -> str:
        """All its visible text, in order; `''` if there is none."""
        return ''.join([part.content for part in self.parts if isinstance(part, TextPart)])

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls it asks for, in order."""
        return tuple([part for part in self.parts if isinstance(part, ToolCallPart)])


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The answers to all tool calls of one response, in call order."""

    parts: Sequence[ToolReturnPart]
    kind: Literal['tool'] = field(default='tool', kw_only=True)

    def __post_init__(self) -> None:
        if self.parts.__class__ is not tuple:
            object.__setattr__(self, 'parts', tuple(self.parts))


Message: TypeAlias = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Tagged()]
"""One message of a conversation."""
