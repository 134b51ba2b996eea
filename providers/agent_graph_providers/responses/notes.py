"""What a response says beside its items: who answered, why it ended, what was used, and details for the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_graph.messages import AssistantPart, FinishReason
from agent_graph.model import ResponseBuilder
from agent_graph.text import clean_json
from agent_graph_providers.openai.usage import usage_of
from agent_graph_providers.responses.parts import Reader, as_map, logprobs_of, refusal_of

__all__ = ['UNFINISHED', 'Notes', 'Reading']

UNFINISHED = ('queued', 'in_progress')
"""States of a response that is no answer yet."""

_CUT: Mapping[str, FinishReason] = {
    'max_output_tokens': 'length',
    'max_tokens': 'length',
    'max_prompt_tokens': 'length',
    'content_filter': 'content_filter',
}
_DETAILS = ('service_tier', 'moderation', 'content_filters', 'system_fingerprint', 'provider')


@dataclass(frozen=True, slots=True)
class Reading:
    """How one answer is read. `api` is what its details say it came through, `path` where responses are kept.

    `background`: a response that is not made yet is waited for there, `timeout` seconds at most. `logprobs`: they were
    asked for.
    """

    reader: Reader
    api: str
    path: str
    background: bool = False
    timeout: float | None = None
    logprobs: bool = False


class Notes:
    """Collects them, and sets them on the answer."""

    __slots__ = (
        '_called',
        '_details',
        '_logprobs',
        '_out',
        '_reader',
        '_reason',
        '_reasoning',
        '_refusal',
        '_usage',
        'status',
    )

    def __init__(self, out: ResponseBuilder, reading: Reading) -> None:
        self._out = out
        self._reader = reading.reader
        self._usage: Mapping[str, Any] | None = None
        self._details: dict[str, Any] = {'api': reading.api}
        self._logprobs: list[Any] | None = [] if reading.logprobs else None
        self._reason: str | None = None
        self._refusal = ''
        self._reasoning = 0
        """How many reasoning items have to go back."""
        self._called = False
        """There is a call the client has to run."""
        self.status: str | None = None

    def take(self, response: Mapping[str, Any]) -> None:
        """Take over what a response object says, be it at the beginning or the end."""
        out = self._out
        if name := response.get('model'):
            out.model_name = str(name)
        if ident := response.get('id'):
            out.provider_response_id = str(ident)
        if usage := as_map(response.get('usage')):
            self._usage = usage
        if (stored := response.get('store')) is not None and bool(stored) is not self._reader.stored:
            self._reader = replace(self._reader, stored=bool(stored))
        status = response.get('status')
        self.status = status if isinstance(status, str) else None
        reason = as_map(response.get('incomplete_details')).get('reason')
        self._reason = reason if isinstance(reason, str) else None
        for key in _DETAILS:
            if value := response.get(key):
                self._details[key] = value

    def read(self, item: Mapping[str, Any]) -> list[AssistantPart]:
        """The parts of a whole item; what it says beside them is taken over."""
        parts, kind = self._reader.parts(item), item.get('type')
        if kind == 'message':
            self._refusal += refusal_of(item)
            if self._logprobs is not None:
                self._logprobs += logprobs_of(item)
        elif kind == 'reasoning':
            self._reasoning += parts[-1].provider_details is not None
        self._called = self._called or any(part.kind == 'tool_call' for part in parts)
        return parts

    def end(self) -> None:
        """The answer is whole."""
        out, details = self._out, self._details
        if self.status is not None:
            details['finish_reason'] = self.status
        if self._reason is not None:
            details['incomplete_reason'] = self._reason
        if self._logprobs:
            details['logprobs'] = {'content': self._logprobs}
        if self._reasoning:
            details['reasoning_items'] = self._reasoning
        if self._usage is not None and 'cost' in self._usage:
            details['cost'] = self._usage['cost']
        out.finish_reason = self._finish_reason()
        out.refusal = self._refusal or None
        out.provider_details = clean_json(details)
        self.settle()

    def settle(self) -> None:
        """Set the usage told so far, be the answer whole or cut short."""
        if self._usage is not None:
            self._out.usage = usage_of(self._usage, 'input_tokens', 'output_tokens')

    def _finish_reason(self) -> FinishReason:
        if self._refusal:
            return 'refusal'
        if self.status == 'incomplete':
            return _CUT.get(self._reason or '', 'other')
        return 'tool_calls' if self._called else 'stop'
