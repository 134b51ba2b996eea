"""Replay: the same code against recorded entries, without any effect; the first difference is named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, NoReturn, cast

from agent_graph.engine.effects import Effects, RunStore
from agent_graph.engine.fingerprint import changes
from agent_graph.engine.start import PrivateJournal
from agent_graph.engine.state import APPLY, RunState
from agent_graph.errors import AgentGraphError, ConfigError, ReplayMismatch, UnexpectedModelBehavior
from agent_graph.journal import Lease
from agent_graph.journal.entries import CallStarted, Edited, Ended, Entered, Entry, Paused, Record, Started
from agent_graph.messages import JsonValue, Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder

__all__ = ['NoModel', 'RecordedEnd', 'ReplayEffects', 'check_fingerprint', 'follow_recording', 'recorded_id']

_WALK = (Entered, Ended)
"""The entries that are the path itself; what happened inside a node is taken over from the recording."""

_UNCOMPARED: dict[type, tuple[str, ...]] = {Entered: ('usage', 'spends'), Ended: ('error', 'usage', 'spends')}
"""What agents inside used is counted in their own runs, and errors are told in words."""

_SHOWN = 120
"""Characters of a value that a message shows; of a longer text, those around the place where it differs."""


class RecordedEnd(Exception):
    """The recorded run failed or was cancelled here, by something that a replay does not do again."""


def check_fingerprint(
    records: Sequence[Record], now: Mapping[str, JsonValue], on_change: Literal['refuse', 'continue']
) -> None:
    """Raise `ReplayMismatch` if the agent, or the graph, is not what it was when the recorded run ended."""
    if on_change not in ('refuse', 'continue'):
        raise ConfigError(f"on_change={on_change!r} is unknown; use 'refuse' or 'continue'")
    told = [r for r in records if isinstance(r.entry, Started | Edited) and r.entry.fingerprint is not None]
    if on_change == 'continue' or not told:
        return
    last = cast('Started | Edited', told[-1].entry)
    found = changes(last.fingerprint, now)
    if found:
        raise ReplayMismatch(
            f"entry {told[-1].seq} ({last.kind}) differs in 'fingerprint': {'; '.join(found)}",
            seq=told[-1].seq,
            index=0,
            expected=last.fingerprint,
            found=now,
        )


def recorded_id(records: Sequence[Record]) -> str:
    """The id of a run, as far as its records tell: by what it has waited for."""
    for record in reversed(records):
        for pending in record.entry.pending if isinstance(record.entry, Paused) else ():
            return pending.run_id.partition(f':{pending.path[0]}:')[0] if pending.path else pending.run_id
    return 'replay'


async def follow_recording(walk: Awaitable[object], effects: ReplayEffects) -> None:
    """Walk to where the recording ends, also if the recorded run failed or was cancelled there."""
    try:
        await walk
    except (RecordedEnd, ReplayMismatch) as error:
        if isinstance(error, ReplayMismatch):
            raise
    except Exception as error:
        cause = error.__cause__  # what a tool call met is wrapped
        if isinstance(cause, ReplayMismatch):
            raise cause from None
        if not isinstance(cause, RecordedEnd) and not effects.failed_alike and not effects.at_end:
            raise
    if effects.broken is not None:  # the code has caught it
        raise effects.broken


class ReplayEffects(Effects):
    """A door behind which there is a recording: responses and finished calls come from it, and nothing is written.

    An entry of the path that the code makes now is held against the recorded one; entries inside a node (tool calls,
    pauses, answers) are applied as they were recorded, so that no tool runs.
    """

    __slots__ = ('at_end', 'broken', 'position', 'records')

    replays = True

    def __init__(self, records: Sequence[Record], state: RunState, journal: RunStore | None = None) -> None:
        super().__init__(journal or PrivateJournal(), Lease(state.run_id, 'replay', 1, 0.0), state, 2)
        self.records = records
        self.position = 1
        self.at_end = False
        self.broken: AgentGraphError | None = None
        self._take_over()

    @property
    def failed_alike(self) -> bool:
        """Whether the code has come to the same failure as the recorded run."""
        return not self.broken and self.position == len(self.records) and isinstance(self.records[-1].entry, Ended)

    @property
    def _upcoming(self) -> Record | None:
        return self.records[self.position] if self.position < len(self.records) else None

    def record(self, entry: Entry, second: Entry | None = None) -> Awaitable[None]:
        """Compare instead of commit."""
        self._take(entry)
        if second is not None:
            self._take(second)
        done: asyncio.Future[None] = self.loop.create_future()
        done.set_result(None)
        return done

    def _take(self, entry: Entry) -> None:
        if self.at_end:  # the code has caught what ended the run
            raise RecordedEnd
        upcoming = self._upcoming
        waits = isinstance(entry, Paused)
        if waits and upcoming is None and self.state.paused:
            return  # the recorded wait, which has been taken over
        if isinstance(entry, CallStarted) and upcoming is None and self.state.paused and self._was_idle(entry):
            self.at_end = True
            raise RecordedEnd
        on_path = isinstance(entry, _WALK) or waits
        if self.broken or not on_path:
            APPLY[entry.__class__](self.state, entry)
            return
        if upcoming is None:
            self._stop_here(f'where the run goes on with {_named(entry)}')
        if not isinstance(entry, Ended):
            self._check_end(upcoming)
        difference = _difference(upcoming.entry, entry)
        if difference is not None:
            raise self._broken(_mismatch(upcoming, entry, *difference))
        APPLY[entry.__class__](self.state, upcoming.entry)
        self.position += 1
        self._take_over()

    def _was_idle(self, entry: CallStarted) -> bool:
        """A call that a fork has set aside: what waits inside it is the original's, and the fork will make it again."""
        return entry.tool_call_id in self.state.idle and entry.tool_call_id not in self.state.pending

    def _take_over(self) -> None:
        """Apply what was recorded inside the node."""
        while (upcoming := self._upcoming) is not None and not isinstance(upcoming.entry, _WALK):
            APPLY[upcoming.entry.__class__](self.state, upcoming.entry)
            self.position += 1

    def _check_end(self, upcoming: Record | None) -> None:
        """Stop here, as the recorded run did, if it failed or was cancelled at this place."""
        entries = [] if upcoming is None else [r.entry for r in self.records[self.position :]]
        cut_off = len(entries) == 2 and isinstance(entries[0], Entered) and entries[0].response is not None
        ended = entries[-1] if len(entries) == 1 or cut_off else None
        if not isinstance(ended, Ended) or ended.status == 'completed':
            return
        if cut_off and not cast('Any', entries[0]).response.interrupted:
            return
        for entry in entries:
            APPLY[entry.__class__](self.state, entry)
        self.position = len(self.records)
        self.at_end = True
        raise RecordedEnd

    def _stop_here(self, where: str) -> NoReturn:
        raise self._broken(
            UnexpectedModelBehavior(
                f'the recording ends after entry {len(self.records)}, {where}; record the run to its end to replay it'
            )
        )

    async def ask(self, model: Model, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """The recorded response, or the recorded failure."""
        self._check_end(self._upcoming)
        upcoming = self._upcoming.entry if self._upcoming is not None else None
        if not isinstance(upcoming, Entered) or upcoming.response is None:
            self._stop_here(f'before request {self.state.step} was answered')
        response = upcoming.response
        await out.message(response)
        out.model_name, out.provider_name = response.model_name, response.provider_name
        await out.finish()

    async def call(self, *args: Any, **kwargs: Any) -> Any:
        """A call that was not recorded as finished: replay has no effects, so it cannot be made now."""
        self.refuse('calls a tool whose result is not in the recording')

    async def step(self, function: Callable[[], Any]) -> Any:
        """A step whose result was not recorded; the same."""
        self.refuse('does a step whose result is not in the recording')

    def refuse(self, what: str) -> NoReturn:
        """The code wants an effect here: raise, unless the recorded run came to its end at this place."""
        self._check_end(self._upcoming)
        raise self._broken(
            ReplayMismatch(
                f'after entry {self.position} the run {what}', seq=self.position, index=0, expected=None, found=None
            )
        )

    def _broken(self, error: AgentGraphError) -> AgentGraphError:
        self.broken = self.broken or error
        return error

    async def release(self) -> None:
        """There is no lease to give back."""


def _difference(recorded: Entry, made: Entry) -> tuple[str, object, object] | None:
    """The first field that differs, with what it was and is; `kind` for another entry altogether."""
    if type(recorded) is not type(made):
        return 'kind', recorded, made
    if isinstance(recorded, Entered) and recorded.by_hand:  # the code could not bring that
        made = replace(cast('Entered', made), message=recorded.message, by_hand=True)
        if recorded.data is not None:
            made = replace(made, node=recorded.node, data=recorded.data)
    for name in recorded.__dataclass_fields__:
        before, now = getattr(recorded, name), getattr(made, name)
        if before != now and name not in _UNCOMPARED.get(type(recorded), ()):
            return name, before, now
    return None


def _mismatch(record: Record, made: Entry, name: str, before: object, now: object) -> ReplayMismatch:
    if name == 'kind':
        said = f'recorded {_named(record.entry)}, now {_named(made)}'
    else:
        path, old, new = next(_innermost(name, before, now))
        name = path
        said = 'recorded {}, now {}'.format(*_shown(old, new))
        if isinstance(made, Ended) and made.error is not None:
            said += f' ({made.error_type}: {made.error})'
    return ReplayMismatch(
        f'entry {record.seq} ({record.entry.kind}) differs in {name!r}: {said}',
        seq=record.seq,
        index=0,
        expected=before,
        found=now,
    )


def _named(entry: Entry) -> str:
    """An entry in a few words."""
    if isinstance(entry, Entered):
        return f'{entry.node} entered'
    if isinstance(entry, Ended):
        return f'the end ({entry.status})' + (f', {entry.error_type}: {entry.error}' if entry.error else '')
    return f'{entry.kind}: {_short(repr(entry))}'


def _innermost(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """The places where two values differ, as deep as they can be told: path, old and new value."""
    if old == new:
        return
    if type(old) is type(new) and is_dataclass(old):
        for field in fields(old):
            yield from _innermost(f'{path}.{field.name}', getattr(old, field.name), getattr(new, field.name))
    elif isinstance(old, dict) and isinstance(new, dict):
        was, is_now = cast('dict[Any, Any]', old), cast('dict[Any, Any]', new)
        for key in (*was, *(k for k in is_now if k not in was)):
            yield from _innermost(f'{path}[{key!r}]', was.get(key), is_now.get(key))
        yield path, old, new  # a key with `None` is gone
    elif (
        isinstance(old, tuple | list)
        and isinstance(new, tuple | list)
        and len(cast('Any', old)) == len(cast('Any', new))
    ):
        for index, (a, b) in enumerate(zip(cast('Sequence[Any]', old), cast('Sequence[Any]', new), strict=True)):
            yield from _innermost(f'{path}[{index}]', a, b)
    else:
        yield path, old, new


def _shown(old: object, new: object) -> tuple[str, str]:
    """Two values that differ, each short; of long texts the part where they begin to differ."""
    if not (isinstance(old, str) and isinstance(new, str)) or max(len(old), len(new)) <= _SHOWN:
        return _short(repr(old)), _short(repr(new))
    pairs = enumerate(zip(old, new, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(old), len(new)))
    start = max(at - _SHOWN // 4, 0)
    dots = '…' if start else ''
    return tuple(
        f'{dots}{text[start : start + _SHOWN]!r}{"…" if len(text) > start + _SHOWN else ""}' for text in (old, new)
    )  # pyright: ignore


def _short(text: str) -> str:
    return text if len(text) <= 3 * _SHOWN else f'{text[: 3 * _SHOWN]}… ({len(text)} characters)'


class NoModel:
    """Stands where a replay needs no model: the recording answers."""

    name = 'replay'
    provider = 'replay'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        raise ConfigError('a replay asks no model')
