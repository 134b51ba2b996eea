"""How many tokens a request has: as its provider counts them where that can be, else a guess that says it is one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent_graph.errors import AgentGraphError, InputTooLong
from agent_graph.messages import Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.models.bounds import check, is_whole
from agent_graph.models.estimate import FRAME, message_texts, message_tokens, text_tokens, tool_texts
from agent_graph.models.tiktokens import Missing, encoder_for, is_countable
from agent_graph.models.wrapper import WrapperModel, line, per_message

__all__ = ['CountingModel', 'TokenCount', 'count_tokens', 'estimated']

_TOOL_FRAME = 8
"""Tokens a tool has beside its texts."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Input tokens of a request, and where the number is from.

    `provider`: its own count. `tiktoken`: texts are exact, what frames messages and tools is not. `estimate`: a guess; see
    `agent_graph.models.estimate` for how far it may be off. `reason` says why it was not counted better.
    """

    tokens: int
    source: Literal['provider', 'tiktoken', 'estimate']
    reason: str = ''


async def count_tokens(
    model: Model, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), *, info: RequestInfo | None = None
) -> TokenCount:
    """Count the input tokens of a request to `model`, without asking it for an answer.

    The model's own `count_tokens(messages, info)` is asked where it has one, else tiktoken where that is installed, has the
    data of the model's encoding at hand (nothing is downloaded) and the messages hold no files, else it is an estimate.
    `info` is the rest of the request where there is one; `tools` stand in for it otherwise. Never raises for a count that
    failed: what failed is in `reason`.
    """
    info = replace(info, tools=tuple(tools)) if info is not None and tools else info or RequestInfo(tuple(tools))
    counted = await _own_count(model, messages, info)
    if isinstance(counted, int):
        return TokenCount(counted, 'provider')
    if not is_countable(model.name):
        known = counted or f'{model.provider} offers no count of the tokens of {model.name!r} before it answers'
        return TokenCount(estimated(messages, info), 'estimate', known)
    try:
        # In a thread, since making an encoder and counting a long text both take their time.
        return TokenCount(await asyncio.to_thread(_exact, model.name, messages, info), 'tiktoken', counted)
    except Missing as missing:
        reason = f'{counted}; {missing}' if counted else str(missing)
    return TokenCount(estimated(messages, info), 'estimate', reason)


async def _own_count(model: Model, messages: Sequence[Message], info: RequestInfo) -> int | str:
    """What the model says itself, or why it says nothing."""
    count = getattr(model, 'count_tokens', None)
    if count is None:
        return ''
    try:
        counted = await count(messages, info)
    except AgentGraphError as error:
        return f'the provider did not count: {line(error)}'
    return counted if isinstance(counted, int) else ''


def _exact(model_name: str, messages: Sequence[Message], info: RequestInfo) -> int:
    encoder = encoder_for(model_name)

    def one(message: Message) -> int:
        texts, files = message_texts(message)
        if files:
            raise Missing('tiktoken counts no files')
        return FRAME + sum(map(encoder.tokens, texts))

    tools = sum(map(encoder.tokens, tool_texts(info.tools, info.output_schema)))
    return sum(per_message(info, encoder, messages, one)) + tools + _TOOL_FRAME * len(info.tools)


def estimated(messages: Sequence[Message], info: RequestInfo) -> int:
    """A guess at the input tokens of a request; each message is looked at once a run."""
    kept = info.scratch.get(estimated)
    if kept is None or kept[0] is not info.tools:
        texts = tool_texts(info.tools, info.output_schema)
        kept = info.scratch[estimated] = (info.tools, sum(map(text_tokens, texts)) + _TOOL_FRAME * len(info.tools))
    return sum(per_message(info, message_tokens, messages, message_tokens)) + kept[1]


class CountingModel(WrapperModel):
    """A model whose requests are counted before they are sent: `provider_details['input_tokens_counted']` of the response.

    That is a dict: `tokens`, and `source` as in `TokenCount`. With `max_input_tokens`, a request of more raises
    `InputTooLong` and is not sent; an estimate may be off, so leave it some room. Counting may itself be a request to the
    provider (`source` is then `provider`).
    """

    def __init__(self, model: Model | str, *, max_input_tokens: int | None = None) -> None:
        super().__init__(model)
        good = max_input_tokens is None or (is_whole(max_input_tokens) and max_input_tokens >= 1)
        told = 'lets nothing through; pass a whole number from 1 on, or None for no bound'
        check(good, 'max_input_tokens', max_input_tokens, told)
        self._most = max_input_tokens

    def __repr__(self) -> str:
        most = '' if self._most is None else f', max_input_tokens={self._most}'
        return f'CountingModel({self._wrapped!r}{most})'

    async def count(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> TokenCount:
        """Count the input tokens of a request without asking for an answer; see the function `count_tokens`."""
        return await count_tokens(self.wrapped, messages, tools)

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Count, then ask if the request is not too long."""
        counted = await count_tokens(self.wrapped, messages, info=info)
        if self._most is not None and counted.tokens > self._most:
            raise self._too_long(counted, self._most)
        await self.wrapped.respond(messages, info, out)
        told = {'tokens': counted.tokens, 'source': counted.source}
        out.provider_details = {**(out.provider_details or {}), 'input_tokens_counted': told}

    def _too_long(self, counted: TokenCount, most: int) -> InputTooLong:
        about = 'about ' if counted.source == 'estimate' else ''
        return InputTooLong(
            f'the request has {about}{counted.tokens} input tokens ({counted.source}), more than '
            f'max_input_tokens={most}; shorten the history, or use a model that takes more',
            tokens=counted.tokens,
            limit=most,
            provider=self.provider,
            model=self.name,
        )
