"""What an answer says beside its parts: why it ended, what was used, who answered, and details kept for the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.messages import FinishReason
from agent_graph.model import ResponseBuilder
from agent_graph_providers.google.usage import usage_of
from agent_graph_providers.wire.jsontext import finite

__all__ = ['Notes']

_FINISH: Mapping[str, FinishReason] = {
    'STOP': 'stop',
    'MAX_TOKENS': 'length',
    'CONTINUATION': 'length',
    'SAFETY': 'content_filter',
    'RECITATION': 'content_filter',
    'LANGUAGE': 'content_filter',
    'BLOCKLIST': 'content_filter',
    'PROHIBITED_CONTENT': 'content_filter',
    'SPII': 'content_filter',
    'MODEL_ARMOR': 'content_filter',
    'ESCALATION': 'content_filter',
    'PUP_LIMITED_DISABLED': 'content_filter',
    'IMAGE_SAFETY': 'content_filter',
    'IMAGE_PROHIBITED_CONTENT': 'content_filter',
    'IMAGE_RECITATION': 'content_filter',
}
"""All others are answers the model got wrong (`MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL`, ...) or say nothing."""

_CANDIDATE = {
    'finishMessage': 'finish_message',
    'safetyRatings': 'safety_ratings',
    'urlContextMetadata': 'url_context_metadata',
    'avgLogprobs': 'avg_logprobs',
}
_USAGE = {'serviceTier': 'service_tier', 'trafficType': 'traffic_type'}
_ALL_GROUNDING = ('groundingMetadata', 'citationMetadata')
_LOGPROBS = ('chosenCandidates', 'topCandidates')


class Notes:
    """Collects what stands beside the parts and sets it on the response."""

    __slots__ = ('_details', '_logprobs', '_out', '_usage', 'blocked', 'finished', 'grounding')

    def __init__(self, out: ResponseBuilder) -> None:
        self._out = out
        self._details: dict[str, Any] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._usage: dict[str, Any] = {}
        self.grounding: dict[str, list[dict[str, Any]]] = {key: [] for key in _ALL_GROUNDING}
        self.finished: str | None = None
        """The provider's word for why it stopped, once it has said one."""
        self.blocked = False
        """The prompt itself was filtered, so there need be no candidate."""

    @property
    def cut(self) -> bool:
        """The output limit was reached."""
        return _FINISH.get(self.finished or '') == 'length'

    def beside_candidates(self, fields: Mapping[str, Any]) -> None:
        """Take over the top of an answer, or of a piece of one; every piece repeats most of it."""
        out = self._out
        usage: Any = fields.get('usageMetadata')
        if usage.__class__ is dict:
            # The last count is the whole one; in between, the steps of the provider's own tools are counted.
            self._usage = usage if 'totalTokenCount' in usage else {**self._usage, **usage}
        if name := fields.get('modelVersion'):
            out.model_name = str(name)
        if answer_id := fields.get('responseId'):
            out.provider_response_id = str(answer_id)
        if feedback := _fields(fields.get('promptFeedback')):
            self._feedback(feedback)

    def beside_parts(self, candidate: Mapping[str, Any]) -> None:
        """Take over the rest of a candidate."""
        if word := candidate.get('finishReason'):
            self.finished = self._details['finish_reason'] = str(word)
        for key, name in _CANDIDATE.items():
            if (value := candidate.get(key)) is not None:
                self._details[name] = value
        for key, found in self.grounding.items():
            if metadata := _fields(candidate.get(key)):
                found.append(metadata)
        for key, tokens in _fields(candidate.get('logprobsResult')).items():
            if key in _LOGPROBS and isinstance(tokens, list):
                self._logprobs.setdefault(key, []).extend(cast(list[Any], tokens))

    def _feedback(self, feedback: Mapping[str, Any]) -> None:
        reason = feedback.get('blockReason')
        if reason:
            self.blocked = True
            self._details['block_reason'] = str(reason)
        if message := feedback.get('blockReasonMessage'):
            self._details['block_message'] = message
        if ratings := feedback.get('safetyRatings'):
            self._details['prompt_safety_ratings'] = ratings

    def end(self, *, called: bool) -> None:
        """The answer is whole; `called`: there are function calls in it."""
        details = self._details
        for name, key in (('grounding_metadata', 'groundingMetadata'), ('citation_metadata', 'citationMetadata')):
            if found := self.grounding[key]:
                details[name] = {k: v for metadata in found for k, v in metadata.items()}
        if self._logprobs:
            details['logprobs'] = self._logprobs
        for key, name in _USAGE.items():
            if value := self._usage.get(key):
                details[name] = value
        self._out.finish_reason = self._finish_reason(called=called)
        self._out.provider_details = finite(details) or None
        self.settle()

    def settle(self) -> None:
        """Set the usage told so far, be the answer whole or cut short."""
        if self._usage:
            self._out.usage = usage_of(self._usage)

    def _finish_reason(self, *, called: bool) -> FinishReason | None:
        if self.finished is None:
            return 'content_filter' if self.blocked else None
        common = _FINISH.get(self.finished, 'other')
        return 'tool_calls' if called and common == 'stop' else common


def _fields(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
