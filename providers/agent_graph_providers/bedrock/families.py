"""What the model families behind Converse can do and how they want it said, told by pieces of a model's id.

Converse is one API over many models; where they differ is here, as rows of data. The first row with a piece of the id in it
counts. An id that says nothing (an inference profile of one's own) is taken for the newest family.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from agent_graph.capabilities import Capabilities

__all__ = ['Family', 'family_of']


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family.

    `maker` tells whose reasoning may be sent back to it. `thinking` is how effort and budget are said: `budget` and
    `adaptive` for Claude, `nova`, `effort` and `config` for a field of that kind, `none` where there is nothing to say.
    `top_k` is the path of that setting in the additional fields, `()` where there is none. `mixed_turns`: tool results may
    stand beside other content. `result_status`: results may say that they failed. `strict`: tools may be strict.
    `dialect`: how schemas are written. `cached_tools`, `cache_ttl`: cache points may follow tools, may last an hour.
    """

    maker: str
    can: Capabilities
    thinking: Literal['none', 'budget', 'adaptive', 'nova', 'effort', 'config'] = 'none'
    top_k: tuple[str, ...] = ()
    mixed_turns: bool = False
    result_status: bool = False
    strict: bool = False
    dialect: Literal['openai', 'plain'] = 'plain'
    cached_tools: bool = False
    cache_ttl: bool = False


_OLD_CLAUDE = Family(
    maker='anthropic',
    can=Capabilities(native_output=False, native_output_with_tools=False, documents=True),
    top_k=('top_k',),
    mixed_turns=True,
    result_status=True,
    dialect='openai',
)
_CACHING_CLAUDE = replace(
    _OLD_CLAUDE,
    can=replace(_OLD_CLAUDE.can, prompt_cache=True, count_tokens=True),
    cached_tools=True,
)
_THINKING_CLAUDE = replace(_CACHING_CLAUDE, can=replace(_CACHING_CLAUDE.can, thinking=True), thinking='budget')
_STRICT_CLAUDE = replace(
    _THINKING_CLAUDE,
    can=replace(_THINKING_CLAUDE.can, native_output=True, native_output_with_tools=True),
    strict=True,
    cache_ttl=True,
)
_CLAUDE = replace(_STRICT_CLAUDE, thinking='adaptive')

_NOVA = Family(
    maker='amazon',
    can=Capabilities(
        native_output=False, native_output_with_tools=False, documents=True, video=True, prompt_cache=True
    ),
    top_k=('inferenceConfig', 'topK'),
    mixed_turns=True,
    result_status=True,
)
_NOVA_2 = replace(_NOVA, can=replace(_NOVA.can, thinking=True, audio=True), thinking='nova')
_NOVA_MICRO = replace(_NOVA, can=replace(_NOVA.can, images=False, video=False, documents=False))

_TEXT_ONLY = Capabilities(native_output=False, native_output_with_tools=False, images=False)
_PLAIN = Capabilities(native_output=False, native_output_with_tools=False, tool_choice=False, documents=True)
_OPEN = Capabilities(documents=True, thinking=True)

_ROWS: tuple[tuple[tuple[str, ...], Family], ...] = (
    (('claude-v', 'claude-instant'), replace(_OLD_CLAUDE, can=replace(_TEXT_ONLY, tools=False, documents=True))),
    (('claude-3-7', 'claude-sonnet-4-2', 'claude-opus-4-2', 'claude-opus-4-1'), _THINKING_CLAUDE),
    (('claude-3-5-haiku', 'claude-3-5-sonnet-20241022'), _CACHING_CLAUDE),
    (('claude-3',), _OLD_CLAUDE),
    (('claude-sonnet-4-5', 'claude-opus-4-5', 'claude-haiku-4-5'), _STRICT_CLAUDE),
    (('claude', 'anthropic'), _CLAUDE),
    (('nova-micro',), _NOVA_MICRO),
    (('nova-lite-v1', 'nova-pro-v1', 'nova-premier'), _NOVA),
    (('nova',), _NOVA_2),
    (('titan',), Family(maker='titan', can=replace(_TEXT_ONLY, tools=False, documents=True))),
    (('llama',), Family(maker='meta', can=_PLAIN)),
    (('gpt-oss', 'openai'), Family(maker='openai', can=replace(_OPEN, tool_choice=False), thinking='effort')),
    (('deepseek.r1', 'deepseek-r1'), Family(maker='deepseek', can=replace(_PLAIN, tools=False, thinking=True))),
    (('mistral', 'mixtral', 'pixtral'), Family(maker='mistral', can=Capabilities(documents=True), top_k=('top_k',))),
    (('cohere',), Family(maker='cohere', can=replace(_PLAIN, images=False), top_k=('k',))),
    (('writer', 'palmyra', 'ai21', 'jamba'), Family(maker='writer', can=replace(_PLAIN, images=False))),
    (
        ('qwen', 'deepseek', 'minimax', 'moonshot', 'kimi', 'zai', 'glm', 'nvidia', 'nemotron', 'google', 'gemma'),
        Family(maker='open', can=_OPEN, thinking='config', top_k=('top_k',)),
    ),
)


_OPAQUE = (
    'application-inference-profile/',
    'provisioned-model/',
    'imported-model/',
    'deployment/',
    'endpoint/',
    ':prompt/',
)
"""Resources whose last word is an id of somebody's own: letters that look like a family's name in it mean nothing."""


def family_of(model_id: str) -> Family:
    """The family of a model, by its id or ARN."""
    name = model_id.lower()
    if any(piece in name for piece in _OPAQUE):
        return _CLAUDE
    for pieces, family in _ROWS:
        if any(piece in name for piece in pieces):
            return family
    return _CLAUDE
