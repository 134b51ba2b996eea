"""One adapter in a process of its own: `python -m benchmarks.worker MODULE`.

Commands come as JSON lines on standard input, and each is answered by one JSON line.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any, cast

from benchmarks.cases import Adapter, can_run, case_of, fake_case
from benchmarks.gates import count_row
from benchmarks.measure import Run, runs_for, time_burst, time_runs
from benchmarks.rows import BURST, IDEAL_SECONDS, ROWS

__all__ = ['Worker', 'main']


class Worker:
    """Answers commands about one adapter; a case is made and warmed up once and then measured as often as asked."""

    def __init__(self, adapter: Adapter, url: str) -> None:
        self._adapter = adapter
        self._url = url
        self._cases: dict[str, tuple[Run, int]] = {}

    async def handle(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what `op` says and return what to answer."""
        match command['op']:
            case 'info':
                return self._info()
            case 'time':
                return await self._time(command['row'], command['seconds'])
            case 'count':
                return {'calls': await count_row(self._adapter, command['row'], self._url)}
            case 'burst':
                run = fake_case(self._adapter, ROWS['tool'], self._adapter.fake(), IDEAL_SECONDS / 2)
                return (await time_burst(run, BURST))._asdict()
            case other:
                raise ValueError(f'unknown op {other!r}; use info, time, count or burst')

    def _info(self) -> dict[str, Any]:
        adapter = self._adapter
        rows = [key for key, row in ROWS.items() if can_run(adapter, row)]
        return {'name': adapter.NAME, 'statement': adapter.IMPORT, 'dists': adapter.DISTS, 'rows': rows}

    async def _time(self, key: str, seconds: float) -> dict[str, Any]:
        if key not in self._cases:
            run = case_of(self._adapter, ROWS[key], self._url)
            self._cases[key] = (run, await runs_for(run, seconds))
        run, count = self._cases[key]
        return (await time_runs(run, count))._asdict()


async def _answers(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            answer = await asyncio.wait_for(worker.handle(json.loads(line)), 300)
        except Exception as error:  # whatever it is belongs in the table
            answer = {'error': f'{type(error).__name__}: {error}'[:300]}
        print(json.dumps(answer), flush=True)


def main() -> None:
    """Serve commands for the adapter named by the first argument; the second is the server's URL."""
    adapter = cast(Adapter, importlib.import_module(sys.argv[1]))
    asyncio.run(_answers(Worker(adapter, sys.argv[2])))


if __name__ == '__main__':
    main()
