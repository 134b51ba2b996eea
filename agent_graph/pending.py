"""What a run waits for (`Pending`), and what people answer (`ToolApproved`, `ToolDenied`, `Answer`, or a `ToolReturn`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agent_graph.messages import JsonValue
from agent_graph.text import clean_json

__all__ = [
    'Answer',
    'ApprovalRequired',
    'Confirm',
    'PauseSignal',
    'Pending',
    'PendingKind',
    'ToolApproved',
    'ToolDenied',
]

PendingKind: TypeAlias = Literal['approval', 'external', 'question', 'crash']
"""Why a call waits.

`approval`: a person must allow it. `external`: somebody else returns its result. `question`: the tool asked something
(`ctx.ask`). `crash`: the process died while it ran, and whether it took effect is unknown.
"""

Confirm: TypeAlias = Literal['per_tool', 'always', 'never']
"""Which tools need approval in a run: those that say so, all, or none."""


@dataclass(frozen=True, slots=True)
class Pending:
    """One thing a paused run waits for.

    `run_id` is the run the call belongs to, `path` the tool calls from the outermost run down to that run (empty for the
    outermost itself). `question` is a text for the person who answers; `schema` the JSON schema of an answer to a
    `question`. `attempt` counts how often the call was started before, `nth` how often it was answered before.
    """

    run_id: str
    tool_call_id: str
    tool_name: str
    args: JsonValue
    reason: PendingKind = 'approval'
    question: str | None = None
    schema: dict[str, Any] | None = None
    path: tuple[str, ...] = ()
    attempt: int = 0
    nth: int = 0
    kind: Literal['pending'] = field(default='pending', kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.args, str):  # as many models send them
            object.__setattr__(self, 'args', _as_data(self.args))

    @property
    def token(self) -> str:
        """A text that stands for this one wait and never for another: to keep elsewhere, and to answer by.

        A call id may come to name a later question of the same call; an answer by token that arrives twice is refused.
        """
        from hashlib import sha256

        return sha256(repr((self.run_id, self.tool_call_id, self.nth)).encode()).hexdigest()[:20]

    @property
    def mark(self) -> str:
        """A text that stands for what is asked, its words and its schema: an answer is for this and for nothing else."""
        import json
        from hashlib import sha256

        return sha256(json.dumps([self.question, self.schema], sort_keys=True).encode()).hexdigest()[:16]

    def __hash__(self) -> int:  # so that it can be a key of `answers`, though its arguments are no hashable data
        return hash((self.run_id, self.tool_call_id))


def _as_data(args: str) -> JsonValue:
    """Arguments that were sent as JSON text, as the object a person can look at; text that is no JSON stays."""
    import json

    data: JsonValue = args or {}
    try:
        while isinstance(data, str):  # some models send the text of a text
            data = json.loads(data)
    except ValueError:
        return args
    return clean_json(data)


class ApprovalRequired(Exception):
    """Raise in a tool before it does anything: the call waits for approval, and is run again once it is given.

    `ctx.approved` is true then, so that the tool does not raise again. `question` is shown to the person.
    """

    def __init__(self, question: str | None = None) -> None:
        super().__init__(question or 'this call needs approval')
        self.question = question


class PauseSignal(BaseException):
    """Leaves a tool that has to wait, through the tool's own code, to the dispatcher that started it.

    Not an `Exception`, as a cancellation is none: code that catches everything must not swallow it.
    """

    def __init__(self, pending: tuple[Pending, ...]) -> None:
        super().__init__('the run waits for an answer')
        self.pending = pending


@dataclass(frozen=True, slots=True)
class ToolApproved:
    """Yes: run the call, with `override_args` instead of the model's arguments if given."""

    override_args: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolDenied:
    """No: the model is told `message`, and the same call is not run later in the run either."""

    message: str = 'The call was denied.'


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a tool's question (`ctx.ask`)."""

    value: Any
