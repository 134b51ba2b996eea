"""What the ways to run an agent take: options of a run, options of going on with one, and the types among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypedDict, TypeForm, TypeVar

from agent_graph.engine.plan import OnCancel, OnPending
from agent_graph.engine.state import GraphPosition, RunState
from agent_graph.messages import JsonValue, Message, UserContent
from agent_graph.model import Model, ModelSettings
from agent_graph.output import NativeOutput, PromptedOutput, TextOutput, ToolOutput
from agent_graph.pending import Answer, Confirm, ToolApproved, ToolDenied
from agent_graph.tools import ToolReturn
from agent_graph.usage import UsageLimits

__all__ = [
    'Answers',
    'Given',
    'OnChange',
    'OnGraphChange',
    'OutputSpec',
    'OutputType',
    'Prompt',
    'ResumeOptions',
    'ResumeSettings',
    'RunOptions',
    'RunSettings',
]

Deps = TypeVar('Deps', default=None)
Output = TypeVar('Output', default=str)

Prompt: TypeAlias = str | Sequence[UserContent] | None
"""What the user says: a text, or texts and files in order; `None` to go on from the history alone."""

OutputSpec: TypeAlias = (
    TypeForm[Output]
    | Callable[..., Awaitable[Output]]
    | Callable[..., Output]
    | ToolOutput[Output]
    | NativeOutput[Output]
    | PromptedOutput[Output]
    | TextOutput[Output]
)
"""One way to say what a run must end with: see `agent_graph.output`. The order is one a type checker tells them apart by."""

OutputType: TypeAlias = OutputSpec[Output] | Sequence[OutputSpec[Output]]
"""See `agent_graph.output` for what may stand here."""

Given: TypeAlias = ToolApproved | ToolDenied | Answer | ToolReturn
"""What may be said to something a run waits for."""

Answers: TypeAlias = Mapping[Any, Given]
"""Answers by what they are for: the `Pending` itself, its token or call id, or the path (a tuple) of ids that ends with it.

Keys of these kinds may be mixed; type checkers take a mapping of one kind of key for no mapping of several, so it is `Any`.
"""

OnChange: TypeAlias = Literal['refuse', 'continue'] | Callable[[list[str]], Any] | Callable[[list[str], RunState], Any]
"""What to do when an agent is not what it was when a run of it stopped: see `Agent.resume`."""

OnGraphChange: TypeAlias = (
    Literal['refuse', 'continue'] | Callable[[list[str]], Any] | Callable[[list[str], GraphPosition], Any]
)
"""The same for a graph: see `resume_graph`."""


class RunSettings(TypedDict, Generic[Deps], total=False):
    """The options of a run that leave its output what it is."""

    deps: Deps | None
    """What tools, instructions and checks are given as `ctx.deps`."""
    message_history: Sequence[Message] | None
    """What was said before; made valid if it is not."""
    model: Model | str | None
    """Instead of the agent's."""
    model_settings: ModelSettings | None
    """Merged over the agent's, key by key."""
    usage_limits: UsageLimits | None
    """Instead of the agent's."""
    run_id: str | None
    """The run's id in its journal; by default a new UUIDv7."""
    metadata: dict[str, JsonValue] | None
    """Kept with the run, over the agent's."""
    confirm: Confirm
    """Which tools need a person's approval: those that say so (`'per_tool'`), `'always'`, or `'never'`."""
    on_pending: OnPending | None
    """Answers what the run waits for at once, instead of pausing it."""
    on_cancel: OnCancel
    """What becomes of the run when it is cancelled from outside: `'cancel'` ends it, `'leave'` leaves it to be resumed."""


class RunOptions(RunSettings[Deps], Generic[Deps], total=False):
    """What each way to run an agent takes besides the prompt; all optional."""

    output_type: OutputType[Any] | None
    """Instead of the agent's."""


class ResumeSettings(TypedDict, Generic[Deps], total=False):
    """The options of going on with a run that leave its output what it is."""

    answers: Answers | None
    deps: Deps | None
    model: Model | str | None
    model_settings: ModelSettings | None
    on_change: OnChange
    on_pending: OnPending | None
    on_cancel: OnCancel


class ResumeOptions(ResumeSettings[Deps], Generic[Deps], total=False):
    """What each way to resume a run takes; all optional. See `Agent.resume`."""

    output_type: OutputType[Any] | None
