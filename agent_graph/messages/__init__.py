"""Messages: the data (`parts`), their JSON form (`codec`), the field's common tongue (`chat`), validity (`history`)."""

from typing import TYPE_CHECKING, Any

from agent_graph.messages.history import is_valid, repair
from agent_graph.messages.parts import (
    AssistantMessage,
    AssistantPart,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
    Citation,
    FilePart,
    FinishReason,
    JsonValue,
    Message,
    Outcome,
    SystemMessage,
    Tagged,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserContent,
    UserMessage,
)

if TYPE_CHECKING:
    from agent_graph.messages.chat import from_openai, to_openai
    from agent_graph.messages.codec import dump_json, load_json

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
    'dump_json',
    'from_openai',
    'is_valid',
    'load_json',
    'repair',
    'to_openai',
]

_LATE = {'from_openai': 'chat', 'to_openai': 'chat', 'dump_json': 'codec', 'load_json': 'codec'}
"""Names that load pydantic: they are imported when first asked for, so that importing the messages stays light."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from importlib import import_module

    value = getattr(import_module(f'{__name__}.{_LATE[name]}'), name)
    globals()[name] = value
    return value
