"""State -> model request: which messages, which tools, which settings. No effects, apart from asking `prepare` functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from agent_graph.engine.plan import Plan, RunDeps
from agent_graph.engine.state import RunState
from agent_graph.errors import ConfigError, UsageLimitExceeded
from agent_graph.messages import SystemMessage, UserMessage
from agent_graph.model import ModelSettings, RequestInfo, ToolDefinition
from agent_graph.text import clean_text

__all__ = ['first_message', 'is_final', 'prepare_request', 'system_messages']


async def system_messages(deps: RunDeps) -> tuple[SystemMessage, ...]:
    """The agent's instructions for this run: texts as they are, functions asked once, in order."""
    plan = deps.plan
    texts: list[str] = []
    for item in plan.instructions:
        text = cast('str', item) if item.__class__ is str else await _ask_instructions(deps, item)
        if text:
            texts.append(clean_text(text))
    if plan.output.prompt is not None:
        texts.append(plan.output.prompt)
    return tuple(SystemMessage(t, True) for t in texts)


async def _ask_instructions(deps: RunDeps, function: Any) -> str | None:
    from inspect import signature  # seldom needed and slow to load

    args = (deps.context(),) if signature(function).parameters else ()
    text = await deps.effects.consult(function, *args)
    if text is not None and not isinstance(text, str):
        raise ConfigError(f'instructions function {function!r} returned {text!r}; return a str or None')
    return text


def first_message(state: RunState) -> UserMessage | None:
    """The prompt as a message, broken characters mended; `None` when the run goes on from its history alone."""
    prompt = state.prompt
    if prompt is None:
        return None
    if prompt.__class__ is str:
        return UserMessage(cast('str', prompt))  # cleaned when the run was recorded
    return UserMessage(tuple(clean_text(p) if isinstance(p, str) else p for p in prompt))


def is_final(deps: RunDeps) -> bool:
    """True if this request must be the last: a limit is near and the run was told to answer rather than to raise."""
    limits = deps.state.limits
    if limits is None or limits.on_limit != 'final_answer':
        return False
    state, budget = deps.state, deps.budget
    if state.final_asked or budget.last_request() or budget.calls_spent():
        return True
    try:
        budget.check_request(limits)
    except UsageLimitExceeded:
        return True
    return False


async def prepare_request(deps: RunDeps, *, final: bool) -> RequestInfo:
    """Everything about the next request besides its messages."""
    plan = deps.plan
    settings = deps.settings
    tools = plan.definitions
    if final or plan.prepared:
        tools = plan.output.definitions if final else await _prepared(deps)
    if tools is not deps.offered and tools != deps.offered:
        deps.offered = tools
        deps.offered_names = tuple([t.name for t in tools])
    tools = deps.offered or ()
    allow_text, allow_empty = plan.output.text != 'none', plan.output.allow_none
    free = allow_text or allow_empty
    resolved: Any = 'auto' if free or not tools else 'required'
    if 'tool_choice' in settings:
        choice = settings['tool_choice']
        if callable(choice):
            choice = await deps.effects.consult(choice, deps.context())
        settings = cast(ModelSettings, {k: v for k, v in settings.items() if k != 'tool_choice'})
        resolved = _resolve_choice(plan, choice, tools, free, final)
    return RequestInfo(
        tools,
        settings,
        resolved,
        plan.output.native,
        allow_text,
        deps.state.run_id,
        deps.state.step,
        deps.scratch,
        allow_empty,
    )


async def _prepared(deps: RunDeps) -> tuple[ToolDefinition, ...]:
    plan = deps.plan
    offered: list[ToolDefinition] = []
    for definition in plan.definitions:
        tool = plan.tools.get(definition.name)
        if tool is None or tool.prepare is None:
            offered.append(definition)
            continue
        made = await deps.effects.consult(tool.prepare, deps.context(), definition)
        if made is None:
            continue
        if not isinstance(made, ToolDefinition) or made.name != definition.name:
            raise ConfigError(
                f'prepare of tool {definition.name!r} returned {made!r}; return its ToolDefinition (same name) or None'
            )
        offered.append(made)
    return tuple(offered)


def _resolve_choice(plan: Plan, choice: Any, tools: tuple[ToolDefinition, ...], allow_text: bool, final: bool) -> Any:
    if not tools:
        return 'auto'
    if choice == 'none' and not allow_text and plan.output.definitions:
        # Without a text answer, `none` would leave the model no legal move: it may still call an output tool.
        return tuple(d.name for d in plan.output.definitions)
    if final or choice == 'auto':
        return 'auto' if allow_text else 'required'
    if choice in ('required', 'none'):
        return choice
    names = _names(choice)
    unknown = [n for n in names if n not in {t.name for t in tools}]
    if unknown:
        raise ConfigError(
            f'tool_choice names {unknown!r}, which are not among the tools offered: {[t.name for t in tools]!r}'
        )
    return names


def _names(choice: Any) -> tuple[str, ...]:
    if isinstance(choice, str) or not isinstance(choice, Sequence) or not choice:
        raise ConfigError(f"tool_choice is {choice!r}; use 'auto', 'required', 'none', or a list of tool names")
    return tuple(cast(Sequence[str], choice))
