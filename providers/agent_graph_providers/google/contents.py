"""Messages -> `contents` and `systemInstruction`. Pure.

A message is mapped alone, once a run (`to_contents`); what depends on its neighbours is done for each request (`assembled`):
ids of results, texts that must not stand apart, and the two places where the API wants a user's turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic_core import from_json

from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph_providers.google.family import Family
from agent_graph_providers.google.files import file_to_google, in_result
from agent_graph_providers.google.parts import SIGNATURE

__all__ = ['UNSIGNED', 'Assembled', 'assembled', 'to_contents']

Content: TypeAlias = dict[str, Any]
"""`{'role': 'user' | 'model' | 'system', 'parts': [...]}`; the last goes to `systemInstruction`."""

UNSIGNED = 'skip_thought_signature_validator'
"""What the API takes in place of a thought signature on a function call that never had one."""

_NOTHING_SAID: Content = {'role': 'user', 'parts': [{'text': ' '}]}
"""A user's turn without words, where there is none and the API wants one; an empty text is refused."""

_FAILED = frozenset({'retry', 'failed', 'denied', 'interrupted'})
_MEANT = frozenset({'output', 'error'})
"""Keys of a response that mean something to the API: what the function gave, and what went wrong."""


class Assembled(NamedTuple):
    """The messages of one request."""

    system: list[dict[str, Any]]
    contents: list[Content]


def to_contents(message: Message, names: Mapping[str, str], *, provider: str, family: Family) -> list[Content]:
    """One message as the contents it takes: none, one, or two for results with files beside them.

    `names` are tools' own names -> names as sent, where they differ. Raises `MessageError` for files that cannot be read.
    """
    match message:
        case SystemMessage(content=text):
            return [{'role': 'system', 'parts': [{'text': text}]}] if text else []
        case UserMessage(content=content):
            parts = list(_user_parts((content,) if isinstance(content, str) else content))
            return [{'role': 'user', 'parts': parts}] if parts else []
        case AssistantMessage():
            parts = _model_parts(message, names, provider, family)
            return [{'role': 'model', 'parts': parts}] if parts else []
        case ToolMessage():
            return _results(message, names, family)


def assembled(messages: Sequence[Message], mapped: Sequence[list[Content]], *, provider: str) -> Assembled:
    """All contents of a request, made of each message's. Nothing that is passed in is changed."""
    system: list[dict[str, Any]] = []
    contents: list[Content] = []
    given: set[str] = set()
    for message, own in zip(messages, mapped, strict=True):
        if message.kind == 'assistant':
            if message.provider_name == provider:
                given.update(_given_ids(message))
        elif message.kind == 'tool' and given and own:
            own = _with_ids(message, own, given)
        for content in own:
            if content['role'] == 'system':
                system += content['parts']
            else:
                _add(contents, content)
    if not contents or contents[0]['role'] == 'model':
        contents.insert(0, _NOTHING_SAID)
    if contents[-1]['role'] == 'model':
        contents.append(_NOTHING_SAID)
    return Assembled(system, contents)


# What a person said


def _user_parts(items: Sequence[str | FilePart | CachePoint]) -> Iterator[dict[str, Any]]:
    for item in items:
        if isinstance(item, str):
            if item:
                yield {'text': item}
        elif isinstance(item, FilePart):
            yield file_to_google(item)


# What a model said


def _model_parts(
    message: AssistantMessage, names: Mapping[str, str], provider: str, family: Family
) -> list[dict[str, Any]]:
    own = message.provider_name == provider
    parts: list[dict[str, Any]] = []
    unsigned = family.signed
    for part in message.parts:
        made = _own(part, names) if own else _foreign(part, names)
        if made is None:
            continue
        if unsigned and 'functionCall' in made:
            made.setdefault(SIGNATURE, UNSIGNED)  # the first call of a turn is the one that has to bear it
            unsigned = False
        parts.append(made)
    if not parts and message.refusal:
        parts.append({'text': message.refusal})
    return parts


def _own(part: Any, names: Mapping[str, str]) -> dict[str, Any] | None:
    """A part this provider gave, with all that stood beside it."""
    details: dict[str, Any] = part.provider_details or {}
    match part:
        case TextPart(content=text):
            return {'text': text, **details} if text or details else None
        case ThinkingPart(content=text, signature=signature):
            seal = {SIGNATURE: signature} if signature is not None else {}
            return {'text': text, 'thought': True, **details, **seal}
        case ToolCallPart():
            beside = {key: value for key, value in details.items() if key != 'id'}
            given = {'id': part.tool_call_id} if 'id' in details else {}
            return {'functionCall': {**given, **_call(part, names)}, **beside}
        case FilePart():
            return file_to_google(part, own=True)
        case BuiltinToolCallPart() | BuiltinToolReturnPart():
            return details.get('part')
        case _:
            return None


def _foreign(part: Any, names: Mapping[str, str]) -> dict[str, Any] | None:
    """A part somebody else gave: what can be seen of it."""
    match part:
        case TextPart(content=text):
            return {'text': text} if text else None
        case ToolCallPart():
            return {'functionCall': _call(part, names)}
        case FilePart(file_id=None):
            return file_to_google(part)
        case _:
            return None


def _call(part: ToolCallPart, names: Mapping[str, str]) -> dict[str, Any]:
    return {'name': names.get(part.tool_name, part.tool_name), 'args': _object(part.args)}


def _object(args: str | dict[str, Any]) -> dict[str, Any]:
    """The arguments if they are an object, an empty one for none, else an object that quotes them."""
    if isinstance(args, dict):
        return args
    if not args.strip():
        return {}
    try:
        found = from_json(args)
    except ValueError:
        found = None
    return cast(dict[str, Any], found) if isinstance(found, dict) else {'invalid_arguments': args}


# What tools said


def _results(message: ToolMessage, names: Mapping[str, str], family: Family) -> list[Content]:
    """The results, and after them what goes with them and fits into none."""
    parts: list[dict[str, Any]] = []
    after: list[str | FilePart] = []
    for part in message.parts:
        response: dict[str, Any] = {'name': names.get(part.tool_name, part.tool_name), 'response': _response(part)}
        extra = part.extra_content
        if family.files_in_results and extra and all(isinstance(e, FilePart) and in_result(e) for e in extra):
            response['parts'] = list(_user_parts(extra))
        else:
            after += extra
        parts.append({'functionResponse': response})
    contents: list[Content] = [{'role': 'user', 'parts': parts}] if parts else []
    beside = list(_user_parts(after))
    return [*contents, {'role': 'user', 'parts': beside}] if beside else contents


def _response(part: ToolReturnPart) -> dict[str, Any]:
    if part.outcome in _FAILED:
        return {'error': part.content}
    if isinstance(part.content, dict) and not _MEANT & part.content.keys():
        return part.content
    return {'output': part.content}


def _given_ids(message: AssistantMessage) -> Iterator[str]:
    """The ids of calls the API itself gave an id; one that it gave twice has been made unique since."""
    for part in message.parts:
        if part.kind == 'tool_call' and part.provider_details is not None and 'id' in part.provider_details:
            yield part.tool_call_id


def _with_ids(message: ToolMessage, contents: list[Content], ids: set[str]) -> list[Content]:
    """The results under the ids of their calls."""
    results = contents[0]['parts']
    parts = [
        {'functionResponse': {'id': part.tool_call_id, **result['functionResponse']}}
        if part.tool_call_id in ids
        else result
        for part, result in zip(message.parts, results, strict=True)
    ]
    return [{'role': 'user', 'parts': parts}, *contents[1:]]


# All together


def _add(contents: list[Content], content: Content) -> None:
    """Two turns of the model are one, and so are results that follow each other; texts beside results stand apart."""
    if contents:
        last = contents[-1]
        if last['role'] == content['role'] and (content['role'] == 'model' or (_answers(last) and _answers(content))):
            contents[-1] = {'role': content['role'], 'parts': [*last['parts'], *content['parts']]}
            return
    contents.append(content)


def _answers(content: Content) -> bool:
    return 'functionResponse' in content['parts'][0]
