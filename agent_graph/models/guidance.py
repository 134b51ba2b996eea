"""Faults of a model that it can mend when it is told: what to tell it."""

from __future__ import annotations

from typing import Any, cast

from agent_graph.errors import ModelHTTPError
from agent_graph.messages import AssistantMessage, ToolCallPart
from agent_graph.model import RequestInfo
from agent_graph.text import clean_text

__all__ = ['advice_on_error', 'advice_on_response', 'is_empty']

_MALFORMED = frozenset(
    {
        'malformed_function_call',
        'malformed_model_output',
        'malformed_response',
        'malformed_tool_call',
        'malformed_tool_use',
        'unexpected_tool_call',
    }
)
"""Providers' finish words for a call or an answer that the model got wrong."""

_REFUSED_CALLS = frozenset({'tool_use_failed', 'output_parse_failed', 'json_validate_failed'})
"""Error codes of servers that check what a model wrote and refuse it in its place."""

_LONGEST = 2000
"""Characters of what the model wrote that are shown to it again."""


def advice_on_error(error: Exception) -> str | None:
    """What to tell the model after the server refused what it wrote; `None` if that is not what happened."""
    if not isinstance(error, ModelHTTPError) or error.code not in _REFUSED_CALLS:
        return None
    body = _fields(error.body)
    told = _fields(body.get('error')) or body
    reason = told.get('message')
    wrote = told.get('failed_generation')
    text = f'Your last answer could not be used: {reason if isinstance(reason, str) else error}'
    if isinstance(wrote, str) and wrote.strip():
        text += f'\nYou wrote: {wrote[:_LONGEST]}'
    return clean_text(f'{text}\nAnswer again. Where you call a tool, follow its schema exactly.')


def advice_on_response(response: AssistantMessage, info: RequestInfo) -> str | None:
    """What to tell the model after an answer of which nothing can be used; `None` for any other."""
    if response.refusal is not None or response.finish_reason in ('refusal', 'content_filter', 'length'):
        return None  # asking again would not help, or would run into the same bound
    offered = {tool.name for tool in info.tools}
    if response.finish_reason == 'other' and (word := _word(response)) in _MALFORMED:
        if any(isinstance(p, ToolCallPart) and p.tool_name in offered for p in response.parts):
            return None  # a call that can be made, whatever the provider thinks of it
        return f'Your last answer could not be used ({word}). {_wanted(info, offered)}'
    if is_empty(response) and not info.allow_empty:
        return f'Your last answer was empty. {_wanted(info, offered)}'
    return None


def is_empty(response: AssistantMessage) -> bool:
    """Nothing but reasoning and white space."""
    for part in response.parts:
        if part.kind == 'text':
            if part.content.strip():
                return False
        elif part.kind != 'thinking':
            return False
    return True


def _fields(value: Any) -> dict[str, Any]:
    return cast('dict[str, Any]', value) if isinstance(value, dict) else {}


def _word(response: AssistantMessage) -> str:
    """The provider's own word for why the response ended, in small letters."""
    return str((response.provider_details or {}).get('finish_reason') or '').lower()


def _wanted(info: RequestInfo, offered: set[str]) -> str:
    if not offered:
        return 'There are no tools to call: answer in words.'
    names = ', '.join(sorted(offered))
    if info.tool_choice == 'none':
        return 'Answer in words, without calling a tool.'
    if not info.allow_text or info.tool_choice == 'required':
        return f'Answer by calling one of these tools, as its schema says: {names}.'
    return f'Answer in words, or call one of these tools, as its schema says: {names}.'
