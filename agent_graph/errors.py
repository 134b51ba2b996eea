"""Every error this library raises on purpose, as one tree.

    AgentGraphError
    ├── ConfigError                    a declaration or the set-up is wrong: nothing has run yet
    │   └── ToolDefinitionError        one tool cannot be offered; names the tool and the place in its schema
    ├── AnswerError                    an answer to a paused run is in doubt; nothing has run
    ├── MessageError                   a message list that cannot be read, written or sent
    │   ├── FetchRefused               the file at an address may not be fetched
    │   └── FetchFailed                the file at an address could not be fetched
    ├── RunError                       a run could not go on; carries run_id, messages and usage
    │   ├── UsageLimitExceeded         a `UsageLimits` bound was reached
    │   ├── UnexpectedModelBehavior    the model kept answering in a way the run cannot use
    │   ├── ContentFiltered            the provider filtered the answer, or the model refused
    │   ├── ToolFailed                 a tool raised something other than `ModelRetry`
    │   ├── RunCancelled               `run.cancel()` or a reader that left early
    │   ├── GraphError                 a node returned a node its graph has no edge to
    │   ├── ReplayMismatch             a replayed run asked something else than the recorded one
    │   └── ModelError                 the call to the model failed
    │       ├── ModelHTTPError         the provider answered with an error
    │       ├── ModelTimeout           no answer in time
    │       ├── ModelUnreachable       no connection
    │       ├── ModelProtocolError     the answer was cut off or could not be read
    │       ├── InputTooLong           the request has more tokens than it may; nothing was sent
    │       └── AllModelsFailed        every model of a `FallbackModel` failed
    └── JournalError                   the store refused or failed
        ├── UnknownRun                 no such run in this journal
        ├── RunExists                  the run id is taken
        ├── RunLocked                  another process owns the run
        ├── JournalConflict            a stale owner tried to write
        ├── JournalUnavailable         disk full, read-only, locked, damaged or closed
        └── CodecError                 stored data of an unknown kind or version, or damaged

`ModelRetry` and `ArgumentsError` stand apart: they are how a tool or an output check asks the model to try again, not a
failure of the run.
A message says what happened, shows the value, and says what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_graph.messages import Message
    from agent_graph.usage import Usage

__all__ = [
    'AgentGraphError',
    'AllModelsFailed',
    'AnswerError',
    'ArgumentsError',
    'CodecError',
    'ConfigError',
    'ContentFiltered',
    'FetchFailed',
    'FetchRefused',
    'GraphError',
    'InputTooLong',
    'JournalConflict',
    'JournalError',
    'JournalUnavailable',
    'MessageError',
    'ModelError',
    'ModelHTTPError',
    'ModelProtocolError',
    'ModelRetry',
    'ModelTimeout',
    'ModelUnreachable',
    'ReplayMismatch',
    'RunCancelled',
    'RunError',
    'RunExists',
    'RunLocked',
    'ToolDefinitionError',
    'ToolFailed',
    'UnexpectedModelBehavior',
    'UnknownRun',
    'UsageLimitExceeded',
]


class ModelRetry(Exception):
    """Raise in a tool, an output function or an output validator: the model is told `message` and asked again."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ArgumentsError(Exception):
    """What a model sent as arguments, or as an output, cannot be used; it is told `message` and asked again.

    `message` says what is wrong, argument by argument, and what is wanted. `incomplete`: the JSON text ends too early, so
    the response was cut off or the model stopped in the middle.
    """

    def __init__(self, message: str, *, incomplete: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.incomplete = incomplete


class AgentGraphError(Exception):
    """The root: `except AgentGraphError` catches everything this library raises on purpose."""


class ConfigError(AgentGraphError):
    """A declaration or the set-up is wrong; nothing has been sent, run or written."""


class ToolDefinitionError(ConfigError):
    """A tool cannot be offered to a model.

    `tool_name` is the tool, `path` the place in its schema or signature (a JSON pointer or a parameter name, `''` for
    the tool as a whole).
    """

    def __init__(self, message: str, *, tool_name: str, path: str = '') -> None:
        super().__init__(message)
        self.tool_name = tool_name
        self.path = path


class AnswerError(AgentGraphError):
    """An answer to a paused run is in doubt: unknown, ambiguous, given before, of the wrong kind. Nothing has run."""


class MessageError(AgentGraphError):
    """A message list could not be read, written or sent; the text names the index and the value."""


class FetchRefused(MessageError):
    """The file at an address is not fetched: the host, a redirect, the size or the type is not allowed.

    `url` is the address without credentials and query.
    """

    def __init__(self, message: str, *, url: str = '') -> None:
        super().__init__(message)
        self.url = url


class FetchFailed(MessageError):
    """The file at an address could not be fetched: no connection, no answer in time, an error, half an answer.

    `url` is the address without credentials and query, `status` the HTTP status, 0 where there was no whole answer.
    """

    def __init__(self, message: str, *, url: str = '', status: int = 0) -> None:
        super().__init__(message)
        self.url = url
        self.status = status


class RunError(AgentGraphError):
    """A run could not go on.

    `run_id` names the run, `messages` is its history up to here and always valid (each tool call answered once, in the
    next message), so it can start another run; `usage` is what was spent. All three are set by the engine when the
    error leaves a run; an error made outside a run has `''`, `()` and `None`.
    """

    run_id: str = ''
    messages: Sequence[Message] = ()
    usage: Usage | None = None


class UsageLimitExceeded(RunError):
    """A bound of `UsageLimits` was reached. `limit` is the field's name.

    `budget` tells the engine whose limit it was: that of the run that raises, or of a run around it.
    """

    def __init__(self, message: str, *, limit: str = '', budget: object = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.budget = budget


class UnexpectedModelBehavior(RunError):
    """The model kept answering in a way the run cannot use, and the retries are spent."""


class ContentFiltered(RunError):
    """The provider filtered the answer, or the model refused. `reason` is the provider's own word or the refusal."""

    def __init__(self, message: str, *, reason: str = '') -> None:
        super().__init__(message)
        self.reason = reason


class ToolFailed(RunError):
    """A tool raised something other than `ModelRetry`; the original exception is `__cause__`."""

    def __init__(self, message: str, *, tool_name: str = '', tool_call_id: str = '') -> None:
        super().__init__(message)
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id


class RunCancelled(RunError):
    """The run was cancelled; `messages` keeps what had been answered, the rest is marked as interrupted."""


class GraphError(RunError):
    """A node returned something its graph has no edge to, or a graph cannot be driven."""


class ReplayMismatch(RunError):
    """A replayed run asked something else than the recorded one did.

    `seq` is the journal entry that differs first (0 when the recording is a list of messages), `index` the place of the
    message in the request, `expected` what was recorded there (a message, or a field of the entry) and `found` what came;
    `None` stands for nothing.
    """

    def __init__(self, message: str, *, seq: int, index: int, expected: object, found: object) -> None:
        super().__init__(message)
        self.seq = seq
        self.index = index
        self.expected = expected
        self.found = found


class ModelError(RunError):
    """The call to the model failed. `provider` and `model` say which.

    `tried` says, one line each, what had failed before this error where the model was asked several times; it is also a
    note of the exception.
    """

    tried: Sequence[str] = ()

    def __init__(self, message: str, *, provider: str = '', model: str = '') -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model


class ModelHTTPError(ModelError):
    """The provider answered with an error, as HTTP status, inside a 200 body, or as an event of a stream.

    `status` is the HTTP status, or the one the body names when an error came inside a 200, else 0. `code` and `type`
    are the provider's own words, `body` the parsed body (or its text), `retry_after` seconds when the server said so.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        provider: str = '',
        model: str = '',
        code: str | None = None,
        type: str | None = None,  # noqa: A002 (the field's name in every provider's error object)
        body: Any = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, provider=provider, model=model)
        self.status = status
        self.code = code
        self.type = type
        self.body = body
        self.retry_after = retry_after


class ModelTimeout(ModelError):
    """No answer, or no next piece of a stream, within the time allowed."""


class ModelUnreachable(ModelError):
    """No connection to the provider could be made, or it broke before an answer began."""


class ModelProtocolError(ModelError):
    """The answer was cut off or could not be read; nothing of it was executed."""


class InputTooLong(ModelError):
    """The request has `tokens` tokens of input, more than the `limit` it was given; nothing was sent."""

    def __init__(self, message: str, *, tokens: int, limit: int, provider: str = '', model: str = '') -> None:
        super().__init__(message, provider=provider, model=model)
        self.tokens = tokens
        self.limit = limit


class AllModelsFailed(ModelError):
    """Every model of a `FallbackModel` failed; `errors` holds what each one raised, in the order they were asked.

    The last of them is also `__cause__`. `provider` and `model` are those of the first.
    """

    def __init__(self, message: str, *, errors: Sequence[Exception], provider: str = '', model: str = '') -> None:
        super().__init__(message, provider=provider, model=model)
        self.errors = tuple(errors)

    @property
    def retry_after(self) -> float | None:
        """The shortest wait that any of the servers asked for, in seconds."""
        told = [w for e in self.errors if (w := getattr(e, 'retry_after', None)) is not None]
        return min(told, default=None)


class JournalError(AgentGraphError):
    """The store refused or failed."""


class UnknownRun(JournalError):
    """No run of this id is in this journal."""


class RunExists(JournalError):
    """A run of this id is already in this journal."""


class RunLocked(JournalError):
    """Another owner drives this run. `owner` and `expires` (Unix seconds) say who and until when at the latest."""

    def __init__(self, message: str, *, owner: str = '', expires: float = 0.0) -> None:
        super().__init__(message)
        self.owner = owner
        self.expires = expires


class JournalConflict(JournalError):
    """A write came from an owner that no longer holds the run, or at a position already written; it was refused."""


class JournalUnavailable(JournalError):
    """The store cannot be read or written now: disk full, read-only, locked, damaged or closed."""


class CodecError(JournalError):
    """Stored data is of an unknown kind or version, too deep, or damaged; nothing was built from it."""
