"""Several runs at once in one journal, whose commits are grouped, dressed like one agent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from agent_graph import Agent, RunResult, UnknownRun, Usage
from tests.acceptance.stage import Stage, call, report
from tests.acceptance.workflow import KitResult, KitState

__all__ = ['Crowd']

SIZE = 5


@dataclass(frozen=True)
class Crowd:
    """The runs are begun, and gone on with, side by side; the first has the id that was asked for."""

    stage: Stage

    async def run(self, prompt: str, *, run_id: str, **options: Any) -> KitResult:
        return await self._all(prompt, run_id, options)

    async def resume(self, run_id: str, **options: Any) -> KitResult:
        return await self._all('go', run_id, options)

    async def _all(self, prompt: str, run_id: str, options: dict[str, Any]) -> KitResult:
        agent = self._agent()
        ids = [run_id, *(f'{run_id}-{n}' for n in range(1, SIZE))]
        results = await asyncio.gather(*(self._one(agent, f'{prompt} {name}', name, options) for name in ids))
        usage = sum((r.usage for r in results), Usage())
        messages = [m for r in results for m in r.messages]
        status = 'completed' if {r.status for r in results} == {'completed'} else 'mixed'
        output = [r.output for r in results]
        return KitResult(output, status, run_id, usage, (), KitState(results[0].state.step), messages)

    async def _one(self, agent: Agent, prompt: str, run_id: str, options: dict[str, Any]) -> RunResult[str]:
        try:
            return await agent.resume(run_id)
        except UnknownRun:
            return await agent.run(prompt, run_id=run_id, **options)

    def _agent(self) -> Agent:
        calls = [call('fetch', 1, 'w1'), call('ship', 2, 'w2')]
        model = self.stage.model('crowd', calls, report)
        tools = [self.stage.tool('fetch'), self.stage.tool('ship')]
        return Agent(model, name='crowd', tools=tools, journal=self.stage.journal)
