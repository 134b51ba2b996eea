"""Response -> what it means: made safe to keep (`normalise`), judged (`refused`), and its text read as an output."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from agent_graph.engine.state import RunState
from agent_graph.errors import ContentFiltered
from agent_graph.messages import AssistantMessage, AssistantPart, TextPart, ThinkingPart, ToolCallPart
from agent_graph.messages.history import calls_of
from agent_graph.text import clean_data, clean_json, clean_text

__all__ = ['cut_call', 'is_empty', 'normalise', 'refused', 'salvage', 'text_of']


def normalise(
    response: AssistantMessage, state: RunState, *, instead_of: AssistantMessage | None = None
) -> AssistantMessage:
    """Make call ids unique within the run and mend broken characters; the same object when there is nothing to mend.

    Ids a well-behaved server sent are left as they are. New ones are made from the step and the call's position, so a
    replay makes the same. A response that stands `instead_of` another may keep the ids of its calls.
    """
    if instead_of is not None:
        return _normalised(clean_data(response), state, {c.tool_call_id for c in calls_of(instead_of)})
    taken: set[str] = set()
    for part in response.parts:
        if part.kind == 'tool_call':
            call_id, args = part.tool_call_id, part.args
            if not call_id or call_id in taken or call_id in state.call_ids or args.__class__ is not str:
                break
            odd = not args.isascii() or '\\ud' in args or '\\uD' in args  # pyright: ignore
            if odd or not f'{call_id}{part.tool_name}'.isprintable():
                break
            taken.add(call_id)
        elif part.kind == 'text' or part.kind == 'thinking':
            if not part.content.isascii():
                break
        elif part.kind != 'file':
            break  # a provider's own tool: rare, so looked at in full
        if part.kind == 'thinking' and part.signature is not None and not part.signature.isascii():
            break
        if part.provider_details is not None:
            break
    else:
        names = f'{response.model_name}{response.provider_response_id}{response.provider_name}'
        if response.provider_details is None and response.refusal is None and names.isascii():
            return response
    return _normalised(clean_data(response), state)


def _normalised(response: AssistantMessage, state: RunState, free: AbstractSet[str] = frozenset()) -> AssistantMessage:
    taken: set[str] = set()
    used = state.call_ids.keys() - free if free else state.call_ids
    parts: list[AssistantPart] = []
    changed = False
    for index, part in enumerate(response.parts):
        mended = _mended(part)
        if isinstance(mended, ToolCallPart):
            call_id = mended.tool_call_id
            printable = call_id.isprintable()  # ids of runs are made of it
            if not call_id or not printable or call_id in taken or call_id in used:
                call_id = _free_id(call_id if printable else '', state, taken, index)
                mended = replace(mended, tool_call_id=call_id)
            taken.add(call_id)
        changed = changed or mended is not part
        parts.append(mended)
    return replace(response, parts=tuple(parts)) if changed else response


def _mended(part: AssistantPart) -> AssistantPart:
    if isinstance(part, ToolCallPart):
        args = _clean_args(part.args)
        name = clean_text(part.tool_name)
        return part if args is part.args and name is part.tool_name else replace(part, args=args, tool_name=name)
    if isinstance(part, TextPart | ThinkingPart):
        content = clean_text(part.content)
        return part if content is part.content else replace(part, content=content)
    return part


def _clean_args(args: str | dict[str, Any]) -> str | dict[str, Any]:
    """Argument text is JSON: besides broken characters it may spell one as an escape, which strict readers refuse."""
    if isinstance(args, dict):
        return clean_json(args)
    args = clean_text(args)
    if '\\ud' not in args and '\\uD' not in args:
        return args
    import json

    from pydantic_core import from_json

    try:
        from_json(args)
        return args
    except ValueError:
        pass
    try:
        return json.dumps(clean_json(json.loads(args)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return args  # not JSON at all: the tool's own check says so to the model


def _is_object(args: str | dict[str, Any]) -> bool:
    from pydantic_core import from_json

    try:
        return isinstance(args, dict) or isinstance(from_json(args), dict)
    except ValueError:
        return False


def _free_id(given: str, state: RunState, taken: set[str], index: int) -> str:
    base = f'{given or "call"}_{state.step}_{index}'
    name, n = base, 1
    while name in taken or name in state.call_ids:
        n += 1
        name = f'{base}_{n}'
    return name


def refused(response: AssistantMessage) -> ContentFiltered:
    """The error of a response the provider filtered or the model refused; asking again would not help."""
    if response.refusal is not None or response.finish_reason == 'refusal':
        told = (response.provider_details or {}).get('refusal_reason')  # where a provider says why beside the answer
        reason = response.refusal or (told if isinstance(told, str) else '') or text_of(response) or 'refusal'
        return ContentFiltered(f'the model refused: {reason}', reason=reason)
    details = response.provider_details or {}
    reason = str(details.get('finish_reason') or details.get('block_reason') or 'content_filter')
    return ContentFiltered(
        f'the provider filtered the answer ({reason}); change the prompt, or look at provider_details in the journal',
        reason=reason,
    )


def text_of(response: AssistantMessage) -> str:
    """The visible text, its parts joined."""
    return ''.join([p.content for p in response.parts if p.kind == 'text'])


def is_empty(response: AssistantMessage) -> bool:
    """No call and no visible text but white space."""
    for part in response.parts:
        if part.kind == 'tool_call' or (part.kind == 'text' and part.content.strip()):
            return False
    return True


def cut_call(response: AssistantMessage) -> ToolCallPart | None:
    """The call that the output limit cut off, in a response that ended for its length: the last thing said in it.

    Whether its arguments happen to read as JSON does not matter: nobody knows what was to follow.
    """
    for part in reversed(response.parts):
        if isinstance(part, ToolCallPart):
            return part
        if not isinstance(part, TextPart | ThinkingPart) or part.content.strip():
            return None
    return None


def salvage(parts: Sequence[Any]) -> tuple[AssistantPart, ...]:
    """What can be kept of a response that was cut short: calls only with arguments that are complete."""
    return tuple(p for p in parts if not isinstance(p, ToolCallPart) or (p.tool_name and _is_object(p.args)))
