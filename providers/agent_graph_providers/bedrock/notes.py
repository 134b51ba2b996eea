"""What an answer says beside its content: why it ended, what was used, and details kept for the application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from agent_graph.messages import FinishReason
from agent_graph.model import ResponseBuilder
from agent_graph_providers.bedrock.usage import usage_of
from agent_graph_providers.wire.jsontext import finite

__all__ = ['STATUS', 'Notes', 'mapping', 'status_of']

_FINISH: Mapping[str, FinishReason] = {
    'end_turn': 'stop',
    'stop_sequence': 'stop',
    'max_tokens': 'length',
    'model_context_window_exceeded': 'length',
    'tool_use': 'tool_calls',
    'guardrail_intervened': 'content_filter',
    'content_filtered': 'content_filter',
}

STATUS: Mapping[str, int] = {
    'validationexception': 400,
    'accessdeniedexception': 403,
    'resourcenotfoundexception': 404,
    'modeltimeoutexception': 408,
    'modelstreamerrorexception': 424,
    'modelerrorexception': 424,
    'throttlingexception': 429,
    'modelnotreadyexception': 429,
    'servicequotaexceededexception': 400,
    'internalserverexception': 500,
    'serviceunavailableexception': 503,
}
"""The HTTP status of an exception, by its name in small letters: streams write it otherwise than answers do."""

_DETAILS = ('metrics', 'trace', 'performanceConfig', 'serviceTier', 'additionalModelResponseFields')


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def status_of(exception: Mapping[str, Any]) -> int:
    """The HTTP status of an exception in a stream: what the model itself answered where that is told."""
    original = exception.get('originalStatusCode')
    if type(original) is int and 400 <= original <= 599:
        return original
    return STATUS.get(str(exception.get('type')).lower(), 0)


class Notes:
    """Collects what stands beside the content and sets it on the response."""

    __slots__ = ('_out', '_usage', 'details', 'finished')

    def __init__(self, out: ResponseBuilder) -> None:
        self._out = out
        self._usage: Mapping[str, Any] | None = None
        self.details: dict[str, Any] = {}
        self.finished: str | None = None
        """The provider's word for why it stopped, once it has said one."""

    def take(self, fields: Mapping[str, Any]) -> None:
        """Take over what is known of a whole answer, or of an event of a stream."""
        if (word := fields.get('stopReason')) is not None:
            self.finished = self.details['finish_reason'] = str(word)
        for key in _DETAILS:
            if value := fields.get(key):
                self.details[key] = value
        if usage := mapping(fields.get('usage')):
            self._usage = usage
        router = mapping(mapping(fields.get('trace')).get('promptRouter'))
        if invoked := router.get('invokedModelId'):
            self._out.model_name = str(invoked).rpartition('/')[2]

    def end(self) -> None:
        """The answer is whole."""
        self._out.finish_reason = self._finish_reason()
        self._out.provider_details = finite(self.details) or None
        self.settle()

    def settle(self) -> None:
        """Set the usage told so far, be the answer whole or cut short."""
        if self._usage is not None:
            self._out.usage = usage_of(self._usage)

    def _finish_reason(self) -> FinishReason | None:
        if self.finished is None:
            return None
        if self.finished == 'guardrail_intervened' and self._only_masked():
            return 'stop'
        return _FINISH.get(self.finished, 'other')

    def _only_masked(self) -> bool:
        """The guardrail's trace is there and says that it masked words and blocked nothing: this is the answer."""
        actions = set(_actions(mapping(mapping(self.details.get('trace')).get('guardrail'))))
        return 'ANONYMIZED' in actions and 'BLOCKED' not in actions


def _actions(value: Any) -> Iterator[str]:
    """What every policy of a guardrail did."""
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, Mapping):
            fields = cast(Mapping[str, Any], item)
            if isinstance(action := fields.get('action'), str):
                yield action
            todo += fields.values()
        elif isinstance(item, list):
            todo += cast(list[Any], item)
