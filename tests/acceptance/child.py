"""What one process does: it begins the run or goes on with it, until the run has ended or it is killed.

Before it goes on it writes down what it found (`found`), and at the end what came of the run (`result`), both as JSON
in the folder of the run.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agent_graph import Agent, Message, RequestInfo, RunResult, SQLiteJournal, ToolApproved, Usage, UsageLimits
from agent_graph.engine.state import fold
from agent_graph.errors import AgentGraphError
from agent_graph.journal import CallFinished, CallStarted, Ended, Entered, Record, Started
from agent_graph.journal.entries import StepDone
from agent_graph.messages import dump_json, is_valid
from agent_graph.testing import FunctionModel
from tests.acceptance.crowd import Crowd
from tests.acceptance.ledger import Ledger
from tests.acceptance.points import MarkedJournal, Points
from tests.acceptance.scenarios import CONTESTS, PROMPT, RUN_ID, SCENARIOS, answer_for
from tests.acceptance.stage import Stage
from tests.acceptance.workflow import KitResult, Workflow

__all__ = ['Order', 'Way', 'facts_of', 'live', 'stage_for']

Way: TypeAlias = Literal['run', 'text', 'events', 'iter', 'inline']
"""How the run is driven; `inline` answers what it waits for at once instead of letting it pause."""


@dataclass(frozen=True)
class Order:
    """What a process is to do, as JSON on its way there.

    `at`, `of`: the place to die at (see `Points`), or to be stopped at with `stop`. `delay`, `ttl`: see `MarkedJournal`. `limits`: requests,
    tool calls and tokens the run may use. `attempt`: begin, resume, or resume with a yes to the call `w1`, once, at `moment` (of the monotonic clock) if given,
    and report how that ended, well or not.
    """

    scenario: str
    folder: str
    way: Way = 'run'
    at: int | None = None
    of: str = ''
    stop: bool = False
    delay: float = 0.0
    ttl: float | None = None
    limits: tuple[int, int, int] | None = None
    attempt: Literal['begin', 'resume', 'approve'] | None = None
    moment: float | None = None
    name: str = 'result'


@asynccontextmanager
async def stage_for(order: Order) -> AsyncGenerator[Stage]:
    """The journal and everything else in the order's folder."""
    folder = Path(order.folder)
    kind = signal.SIGSTOP if order.stop else signal.SIGKILL
    points = Points(order.at, order.of, kind, folder / 'deaths')
    async with SQLiteJournal(folder / 'runs.db') as inner:
        journal = MarkedJournal(inner, points, delay=order.delay, ttl=order.ttl)
        yield Stage(journal, Ledger(folder / 'ledger'), points)


async def live(order: Order) -> None:
    """Carry out an order."""
    async with stage_for(order) as stage:
        agent = (SCENARIOS | CONTESTS)[order.scenario].make(stage)
        if order.attempt is not None:
            await _attempt(order, stage, agent)
            return
        found = await facts_of(stage)
        _write_next(Path(order.folder), 'found', found)
        result = await _to_end(order, stage, agent, begun=RUN_ID in found['runs'])
        _write(Path(order.folder) / order.name, await _outcome(stage, result))


async def _attempt(order: Order, stage: Stage, agent: Agent[Any, Any]) -> None:
    while order.moment is not None and asyncio.get_running_loop().time() < order.moment:
        pass
    found = await facts_of(stage)
    try:
        if order.attempt == 'begin':
            result = await DRIVE[order.way](agent, None, _start_options(order))
        else:
            options = {'answers': {'w1': ToolApproved()}} if order.attempt == 'approve' else {}
            result = await DRIVE[order.way](agent, RUN_ID, options)
        ended = result.status
    except AgentGraphError as error:
        ended = type(error).__name__
    stage.ledger.add('attempt', order.name, ended)
    _write(Path(order.folder) / order.name, {'ended': ended, 'found': found, 'passed': stage.points.passed})


async def _to_end(order: Order, stage: Stage, agent: Agent[Any, Any], *, begun: bool) -> RunResult[Any]:
    drive = _run if isinstance(agent, Workflow | Crowd) else DRIVE[order.way]
    options: dict[str, Any] = {'on_pending': partial(answer_for, stage)} if order.way == 'inline' else {}
    if begun:
        result = await drive(agent, RUN_ID, options)
    else:
        result = await drive(agent, None, options | _start_options(order))
    while result.status == 'paused':
        answers = {p: answer_for(stage, p) for p in result.pending}
        result = await drive(agent, RUN_ID, options | {'answers': answers})
    return result


def _start_options(order: Order) -> dict[str, Any]:
    if order.limits is None:
        return {'run_id': RUN_ID}
    requests, calls, tokens = order.limits
    limits = UsageLimits(request_limit=requests, tool_calls_limit=calls, total_tokens_limit=tokens)
    return {'run_id': RUN_ID, 'usage_limits': limits}


# The ways to drive a run: begin it with these options, or go on with it if an id is given.

Drive: TypeAlias = Callable[[Agent[Any, Any], str | None, dict[str, Any] | None], Awaitable[RunResult[Any]]]


async def _run(agent: Agent[Any, Any], run_id: str | None, options: dict[str, Any] | None) -> RunResult[Any]:
    given = options or {}
    return await (agent.run(PROMPT, **given) if run_id is None else agent.resume(run_id, **given))


async def _text(agent: Agent[Any, Any], run_id: str | None, options: dict[str, Any] | None) -> RunResult[Any]:
    given = options or {}
    opened = agent.run_stream(PROMPT, **given) if run_id is None else agent.resume_stream(run_id, **given)
    async with opened as stream:
        async for _ in stream.text():
            pass
        return await stream.result()


async def _events(agent: Agent[Any, Any], run_id: str | None, options: dict[str, Any] | None) -> RunResult[Any]:
    given = options or {}
    if run_id is None:
        reader = agent.run_stream_events(PROMPT, **given)
        async for _ in reader:
            pass
        return await reader.finish()
    async with agent.resume_stream(run_id, **given) as stream:
        async for _ in stream.events():
            pass
        return await stream.result()


async def _iter(agent: Agent[Any, Any], run_id: str | None, options: dict[str, Any] | None) -> RunResult[Any]:
    given = options or {}
    opened = agent.iter(PROMPT, **given) if run_id is None else agent.resume_iter(run_id, **given)
    async with opened as run:
        async for _ in run:
            pass
        assert run.result is not None
        return run.result


DRIVE: dict[Way, Drive] = {'run': _run, 'text': _text, 'events': _events, 'iter': _iter, 'inline': _run}


# What is found in a journal


async def facts_of(stage: Stage) -> dict[str, Any]:
    """Everything the journal holds now, as far as it matters, and how many lines the ledger has."""
    runs: dict[str, Any] = {}
    for info in await stage.journal.runs():
        records = await stage.journal.load(info.run_id)
        runs[info.run_id] = _facts(records) | {'status': info.status, 'can_be_continued': await _goes_on(records)}
    return {'runs': runs, 'lines': len(stage.ledger.lines())}


def _facts(records: list[Record]) -> dict[str, Any]:
    state = fold('', records)
    first = records[0].entry
    assert isinstance(first, Started)
    entries = [record.entry for record in records]
    started = [e for e in entries if isinstance(e, CallStarted)]
    return {
        'agent': first.agent,
        'prompt': first.prompt,
        'in_order': [r.seq for r in records] == list(range(1, len(records) + 1)),
        'responses': sum(isinstance(e, Entered) and e.response is not None for e in entries),
        'tools': {e.tool_call_id: e.tool_name for e in started},
        'attempts': [[e.tool_call_id, e.attempt] for e in started],
        'finished': [e.part.tool_call_id for e in entries if isinstance(e, CallFinished)],
        'steps': [[e.scope, e.name] for e in entries if isinstance(e, StepDone)],
        'in_flight': {
            i: e.tool_name for i, e in state.started.items() if i not in state.finished and i not in state.idle
        },
        'ends': sum(isinstance(e, Ended) for e in entries),
        'valid': is_valid(state.valid_messages()),
    }


async def _goes_on(records: list[Record]) -> bool:
    """Case 1d: whether what the store holds of a run's conversation can start another run."""
    asked: list[bool] = []

    async def answer(messages: Sequence[Message], info: RequestInfo) -> str:
        asked.append(is_valid(messages))
        return 'fine'

    result = await Agent(FunctionModel(answer)).run('and now?', message_history=fold('', records).valid_messages())
    return result.output == 'fine' and asked == [True]


async def _outcome(stage: Stage, result: RunResult[Any] | KitResult) -> dict[str, Any]:
    stored = fold(result.run_id, await stage.journal.load(result.run_id))
    return {
        'output': result.output,
        'status': result.status,
        'run_id': result.run_id,
        'usage': asdict(result.usage or Usage()),
        'step': result.state.step,
        'messages': json.loads(dump_json(result.messages))['messages'],
        'valid': is_valid(result.messages),
        'stored': isinstance(result, KitResult) or stored == result.state,
        'passed': stage.points.passed,
        **await facts_of(stage),
    }


def _write_next(folder: Path, name: str, data: dict[str, Any]) -> None:
    """Write a file beside those of the same name, numbered."""
    _write(folder / f'{name}.{len(list(folder.glob(f"{name}.*"))):03}', data)


def _write(path: Path, data: dict[str, Any]) -> None:
    """Write a file that is there as a whole or not at all."""
    draft = path.with_name(f'.{path.name}')  # whoever looks for files of the name does not see it
    draft.write_text(json.dumps(data))
    draft.replace(path)
