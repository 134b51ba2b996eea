"""What an answer says beside its content: why it stopped, what was used, who answered, and details kept for the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.messages import FinishReason
from agent_graph.model import ResponseBuilder
from agent_graph.text import clean_json
from agent_graph.usage import NO_USAGE
from agent_graph_providers.anthropic.usage import usage_of

__all__ = ['Notes']

_FINISH: Mapping[str, FinishReason] = {
    'end_turn': 'stop',
    'stop_sequence': 'stop',
    'max_tokens': 'length',
    'model_context_window_exceeded': 'length',
    'tool_use': 'tool_calls',
    'refusal': 'refusal',
}

_DETAILS = ('stop_sequence', 'stop_details', 'container', 'context_management', 'input_transformations', 'diagnostics')
_USED = ('service_tier', 'inference_geo', 'speed', 'iterations')
"""What stands in `usage` and counts nothing, or counts what the rest leaves out."""


class Notes:
    """Collects it and sets it on the response. Usage is summed over the requests an answer took."""

    __slots__ = ('_before', '_out', '_usage', 'details', 'stop')

    def __init__(self, out: ResponseBuilder) -> None:
        self._out = out
        self._before = NO_USAGE
        self._usage: dict[str, Any] = {}
        self.details: dict[str, Any] = {}
        self.stop: str | None = None
        """Anthropic's word for why it stopped, once it has said one."""

    @property
    def cut(self) -> bool:
        """A limit ended it, be it in the middle of a block."""
        return _FINISH.get(self.stop or '') == 'length'

    @property
    def container(self) -> str | None:
        """The container its code ran in."""
        found = _mapping(self.details.get('container')).get('id')
        return found if isinstance(found, str) else None

    def message(self, message: Mapping[str, Any]) -> None:
        """The message itself, whole or as a stream begins it."""
        if isinstance(name := message.get('model'), str) and name:
            self._out.model_name = name
        if isinstance(answer_id := message.get('id'), str) and answer_id:
            self._out.provider_response_id = answer_id
        self._add(message, message.get('usage'))

    def delta(self, event: Mapping[str, Any]) -> None:
        """The end of a stream. Its usage repeats what the beginning told: what comes last counts, field by field."""
        self._add(_mapping(event.get('delta')), event.get('usage'))
        self._add(event, None)

    def block(self, block: Mapping[str, Any]) -> None:
        """A whole block: another model may have stood in for the one that was asked."""
        if block.get('type') == 'fallback' and isinstance(name := _mapping(block.get('to')).get('model'), str):
            self._out.model_name = name

    def end(self) -> None:
        """The answer to one request is whole."""
        if self.stop is not None:
            self._out.finish_reason = _FINISH.get(self.stop, 'other')
        why = _mapping(self.details.get('stop_details'))
        if self.stop == 'refusal' and (reason := why.get('explanation') or why.get('category')):
            self.details['refusal_reason'] = reason
        self._out.provider_details = clean_json(self.details) or None
        self.settle()

    def settle(self) -> None:
        """Set the usage told so far, be the answer whole or cut short."""
        self._out.usage = self._before + usage_of(self._usage) if self._usage else self._before

    def go_on(self) -> None:
        """Another request follows for the same answer."""
        self._before, self._usage = self._out.usage, {}
        self.stop = None

    def _add(self, fields: Mapping[str, Any], usage: Any) -> None:
        if isinstance(word := fields.get('stop_reason'), str) and word:
            self.stop = self.details['finish_reason'] = word
        for key in _DETAILS:
            if fields.get(key) is not None:
                self.details[key] = fields[key]
        for key, value in _mapping(usage).items():
            if value is None:
                continue
            self._usage[key] = value
            if key in _USED:
                self.details[key] = value


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
