"""What an answer says beside its message: why it ended, what was used, who answered, and details kept for the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.messages import Citation, FinishReason
from agent_graph.model import ResponseBuilder
from agent_graph.text import clean_json
from agent_graph_providers.openai.usage import usage_of
from agent_graph_providers.wire.errors import Asked

__all__ = ['Notes', 'citation_of', 'mapping']

_FINISH: Mapping[str, FinishReason] = {
    'stop': 'stop',
    'eos': 'stop',
    'eos_token': 'stop',
    'end_turn': 'stop',
    'stop_sequence': 'stop',
    'length': 'length',
    'max_tokens': 'length',
    'model_length': 'length',
    'tool_calls': 'tool_calls',
    'tool_use': 'tool_calls',
    'function_call': 'tool_calls',
    'content_filter': 'content_filter',
    'safety': 'content_filter',
}
_FAILED = frozenset({'error', 'insufficient_system_resource'})
"""Finish words that say the server gave up: what came is no answer."""

_DETAILS = (
    'service_tier',
    'system_fingerprint',
    'provider',
    'citations',
    'search_results',
    'prompt_filter_results',
    'timings',
)
_CHOICE_DETAILS = ('native_finish_reason', 'stop_reason', 'content_filter_results')


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def citation_of(annotation: Mapping[str, Any]) -> Citation | None:
    """Where the text comes from, by one of a message's `annotations`; `None` if it tells something else."""
    if annotation.get('type') != 'url_citation':
        return None
    note = mapping(annotation.get('url_citation')) or annotation
    url, title, content = (v if isinstance(v := note.get(key), str) else None for key in ('url', 'title', 'content'))
    start, end = (v if type(v := note.get(key)) is int else None for key in ('start_index', 'end_index'))
    return Citation(url, title, content, start, end, clean_json(dict(annotation)))


class Notes:
    """Collects what stands beside the message and sets it on the response."""

    __slots__ = ('_asked', '_begun', '_logprobs', '_out', '_usage', 'details', 'finished', 'refusal')

    def __init__(self, out: ResponseBuilder, asked: Asked) -> None:
        self._out = out
        self._asked = asked
        self._begun = False
        self._logprobs: dict[str, list[Any]] = {}
        self._usage: Mapping[str, Any] | None = None
        self.details: dict[str, Any] = {}
        self.finished: str | None = None
        """The server's word for why it stopped, once it has said one."""
        self.refusal = ''

    @property
    def filtered(self) -> bool:
        """The prompt itself was filtered, so there need be no choice."""
        results = self.details.get('prompt_filter_results')
        for result in cast(list[Any], results) if isinstance(results, list) else []:
            verdicts = mapping(mapping(result).get('content_filter_results'))
            if any(mapping(v).get('filtered') for v in verdicts.values()):
                return True
        return False

    def beside_choices(self, fields: dict[str, Any], *, usual: bool = False) -> None:
        """Take over the top of an answer, or of a piece of one; `usual` pieces say nothing new but at both ends."""
        if usual and self._begun and self.finished is None:
            if usage := fields.get('usage'):
                self._usage = mapping(usage)
            return
        self._begun = True
        for key in _DETAILS:
            if value := fields.get(key):
                self.details[key] = value
        if name := fields.get('model'):
            self._out.model_name = str(name)
        if answer_id := fields.get('id'):
            self._out.provider_response_id = str(answer_id)
        if usage := fields.get('usage') or mapping(fields.get('x_groq')).get('usage'):
            self._usage = mapping(usage)

    def beside_message(self, choice: dict[str, Any]) -> None:
        """Take over the rest of a choice. Raises `ModelHTTPError` if it says that the server gave up."""
        if error := choice.get('error'):
            raise self._asked.refused({'error': error})
        if (word := choice.get('finish_reason')) is not None:
            self.finished = self.details['finish_reason'] = str(word)
            if self.finished in _FAILED:
                raise self._asked.refused({'error': {'code': word, 'message': f'the server stopped with {word!r}'}})
        for key in _CHOICE_DETAILS:
            if value := choice.get(key):
                self.details[key] = value
        for key, tokens in mapping(choice.get('logprobs')).items():
            if isinstance(tokens, list):
                self._logprobs.setdefault(key, []).extend(cast(list[Any], tokens))
        if usage := choice.get('usage'):
            self._usage = mapping(usage)

    def end(self) -> None:
        """The answer is whole."""
        out = self._out
        out.finish_reason = self._finish_reason()
        out.refusal = self.refusal or None
        if self._logprobs:
            self.details['logprobs'] = self._logprobs
        if self._usage is not None and 'cost' in self._usage:
            self.details['cost'] = self._usage['cost']
        out.provider_details = clean_json(self.details) or None
        self.settle()

    def settle(self) -> None:
        """Set the usage told so far, be the answer whole or cut short."""
        if self._usage is not None:
            self._out.usage = usage_of(self._usage)

    def _finish_reason(self) -> FinishReason | None:
        if self.refusal:
            return 'refusal'
        if self.finished:
            return _FINISH.get(self.finished.lower(), 'other')
        return 'content_filter' if self.filtered else None
