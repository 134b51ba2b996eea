"""Measuring a coroutine function: exact calls, CPU and wall time of many runs."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

__all__ = ['Time', 'count_calls', 'runs_for', 'time_burst', 'time_runs']

Run = Callable[[], Awaitable[None]]


class Time(NamedTuple):
    """Seconds of CPU and of wall time."""

    cpu: float
    wall: float


async def count_calls(run: Run, *, warm: int = 3) -> int:
    """Calls of Python and C functions in one warm run: the same on every machine, whatever else it does.

    `pstats` would report fewer: it tells functions apart by file, line and name, so of all dataclass constructors
    (`<string>:2(__init__)`) it keeps one. Here every call counts.
    """
    for _ in range(warm):
        await run()
    profile = cProfile.Profile()
    profile.enable()
    await run()
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


async def runs_for(run: Run, seconds: float) -> int:
    """How many runs take about `seconds` of CPU; at least one."""
    await run()
    took = (await time_runs(run, 1)).cpu
    if took < seconds / 20:
        took = (await time_runs(run, 5)).cpu
    return max(1, min(50_000, int(seconds / max(took, 1e-6))))


async def time_runs(run: Run, count: int) -> Time:
    """The mean of `count` runs, one after the other."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        await run()
    return Time((time.process_time() - cpu) / count, (time.perf_counter() - wall) / count)


async def time_burst(run: Run, count: int) -> Time:
    """`count` runs at once, from the first start to the last end."""
    await run()
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(_one(run))
    return Time(time.process_time() - cpu, time.perf_counter() - wall)


async def _one(run: Run) -> None:
    await run()
