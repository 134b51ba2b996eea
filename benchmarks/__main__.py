"""`python -m benchmarks`: measure, print, and judge by the gates; ends with 1 if a gate is missed.

Every row is measured in rounds, and in each round every engine has its turn, so that what else the machine does hits all
alike. CPU times are medians over the rounds, wall times the best of them; the ratios are what to quote. Exact call counts
do not depend on the machine at all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.gates import BURST_LIMIT, GATES
from benchmarks.journals import BY_HAND
from benchmarks.processes import ROOT, Engine, cold_import, environment, running_engines, running_server
from benchmarks.rows import BURST, IDEAL_SECONDS, ROWS
from benchmarks.table import table
from benchmarks.wires import LIMITS

MODULES = [f'benchmarks.adapters.{name}' for name in ('floor_http', 'floor_openai', 'agent_graph_')]
OURS = 'agent_graph'

Lines = list[tuple[str, dict[str, float]]]


class Bench:
    """The engines, how long to measure, and what has been found."""

    def __init__(self, engines: list[Engine], args: argparse.Namespace) -> None:
        self.engines = engines
        self.names = [engine.name for engine in engines]
        self.rounds: int = args.rounds or (3 if args.quick else 7)
        self.seconds = 0.03 if args.quick else 0.1
        self.disk: str = args.disk
        self.found: dict[str, Any] = {}
        self.problems: list[str] = []
        self.missed: list[str] = []

    def ask(self, engine: Engine, **command: Any) -> dict[str, Any]:
        """One measurement; what went wrong is shown below the tables."""
        answer = engine.ask(**command)
        if 'error' in answer:
            problem = f'{engine.name}, {command}: {answer["error"]}'
            if problem not in self.problems:
                self.problems.append(problem)
        return answer

    def show(self, title: str, columns: list[str], lines: Lines) -> None:
        """Print a table and keep it."""
        print('\n' + table(title, columns, lines), flush=True)
        self.found[title] = dict(lines)


def times(bench: Bench) -> None:
    """CPU time of one run, and for the rows over HTTP the wall time."""
    cpu: Lines = []
    wall: Lines = []
    for key, row in ROWS.items():
        seen: dict[str, list[tuple[float, float]]] = {e.name: [] for e in bench.engines if key in e.rows}
        for _ in range(bench.rounds):
            for engine in bench.engines:
                if engine.name not in seen:
                    continue
                answer = bench.ask(engine, op='time', row=key, seconds=bench.seconds)
                if 'error' not in answer:
                    seen[engine.name].append((answer['cpu'] * 1e6, answer['wall'] * 1e6))
        cpu.append((row.title, {name: median(t[0] for t in ts) for name, ts in seen.items() if ts}))
        if row.model:
            wall.append((row.title, {name: min(t[1] for t in ts) for name, ts in seen.items() if ts}))
    bench.show('CPU of one run, µs', bench.names, cpu)
    bench.show('wall time of one run, µs', bench.names, wall)


def imports(bench: Bench) -> None:
    """What the first import costs, and how many modules it loads (the interpreter's own included)."""
    cpu: dict[str, list[float]] = {}
    modules: dict[str, float] = {}
    for _ in range(bench.rounds):
        for engine in bench.engines:
            seconds, count = cold_import(engine.statement)
            cpu.setdefault(engine.name, []).append(seconds * 1e3)
            modules[engine.name] = count
    lines: Lines = [('CPU, ms', {n: median(v) for n, v in cpu.items()}), ('modules', modules)]
    bench.show('import, without logfire installed', bench.names, lines)


def calls(bench: Bench) -> dict[str, int]:
    """Exact calls of one warm run; returns agent_graph's."""
    lines: Lines = []
    ours: dict[str, int] = {}
    for key, row in ROWS.items():
        cells: dict[str, float] = {}
        for engine in bench.engines:
            if key in engine.rows and 'calls' in (answer := bench.ask(engine, op='count', row=key)):
                cells[engine.name] = answer['calls']
        if OURS in cells:
            ours[key] = int(cells[OURS])
        lines.append((row.title, cells))
    bench.show('Python and C calls of one warm run', bench.names, lines)
    return ours


def bursts(bench: Bench) -> float | None:
    """Many runs at once; returns agent_graph's best wall time in times of the ideal."""
    able = [e for e in bench.engines if 'tool' in e.rows]
    seen: dict[str, list[dict[str, float]]] = {}
    for _ in range(bench.rounds):
        for engine in able:
            answer = bench.ask(engine, op='burst')
            if 'error' not in answer:
                seen.setdefault(engine.name, []).append(answer)
    wall = {name: min(a['wall'] for a in answers) * 1e3 for name, answers in seen.items()}
    cpu = {name: median(a['cpu'] for a in answers) * 1e3 for name, answers in seen.items()}
    ideal = IDEAL_SECONDS * 1e3
    lines: Lines = [
        ('wall, ms', wall),
        ('wall, times the ideal', {n: w / ideal for n, w in wall.items()}),
        ('CPU, ms', cpu),
    ]
    bench.show(f'{BURST:,} runs of 1 tool at once, 50 ms a request (ideal {ideal:.0f} ms)', bench.names, lines)
    return wall[OURS] / ideal if OURS in wall else None


def journals(bench: Bench) -> None:
    """The journals beside a bare group commit of the same records."""
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.journals', bench.disk, str(bench.rounds), str(BURST)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    if done.returncode:
        bench.problems.append(f'the journals: {done.stderr.strip().splitlines()[-1]}')
        return
    found: dict[str, list[float]] = json.loads(done.stdout)
    best = {name: min(seconds) * 1e3 for name, seconds in found.items()}
    title = f'{BURST:,} runs of 1 tool at once, journaled'
    bench.show(f'{title}, wall ms', list(best), [(f'in {bench.disk}', best)])
    spent = {'the runs': best['sqlite'], 'what it adds to runs in memory': best['sqlite'] - best['memory']}
    lines: Lines = [(what, {by: took / best[by] for by in BY_HAND}) for what, took in spent.items()]
    bench.show(f'{title} by sqlite, in times of the same records', list(BY_HAND), lines)


def wires(bench: Bench) -> None:
    """What the mapping of each protocol costs above its transport, beside the vendor's SDK, and in memory."""
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.wires'],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    if done.returncode:
        bench.problems.append(f'the wire protocols: {done.stderr.strip().splitlines()[-1]}')
        return
    found: dict[str, Any] = json.loads(done.stdout)
    for what, limit in LIMITS.items():
        lines: Lines = [
            (wire, row[what] | {'above': row[what]['ours'] - row[what]['transport']}) for wire, row in found.items()
        ]
        bench.show(
            f'exact calls of {what} (at most {limit:,} above the transport)',
            ['transport', 'ours', 'SDK', 'above'],
            lines,
        )
        bench.missed += [f'{wire}, {what}' for wire, cells in lines if cells['above'] > limit]
    bench.show(
        'a 50 MB stream, MB of memory at its peak', ['MB'], [(wire, {'MB': row['MB']}) for wire, row in found.items()]
    )


def judge(bench: Bench, counted: dict[str, int], burst: float | None) -> None:
    """Every gate, what was found, and whether it holds."""
    verdicts = [
        (g.title, 'calls', g.limit, g.value(counted), g.holds(counted)) for g in GATES.values() if g.row in counted
    ]
    if burst is not None:
        verdicts.append((f'{BURST:,} runs at once', 'times the ideal wall', BURST_LIMIT, burst, burst <= BURST_LIMIT))
    print('\n| gate | limit | found | |\n| --- | ---: | ---: | --- |')
    for title, unit, limit, value, holds in verdicts:
        print(f'| {title} ({unit}) | {limit:,g} | {value:,.4g} | {"pass" if holds else "FAIL"} |')
        if not holds:
            bench.missed.append(title)


def versions(bench: Bench) -> str:
    """The distributions that were measured."""
    names = dict.fromkeys(name for engine in bench.engines for name in engine.dists)
    return ', '.join(f'{name} {_version(name)}' for name in names)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return '(from its folder)'


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        'python -m benchmarks', description='What the engine costs, beside hand-written loops.'
    )
    parser.add_argument('--quick', action='store_true', help='fewer and shorter rounds')
    parser.add_argument('--rounds', type=int, default=0, help='how often every engine has its turn (7; quick: 3)')
    parser.add_argument(
        '--disk', default=tempfile.gettempdir(), help='folder of the journals; put it on the disk you mean'
    )
    parser.add_argument('--out', type=Path, help='write everything to this file too, as JSON')
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Measure and print; 1 if a gate is missed or a row could not be measured."""
    args = parse(argv)
    with running_server() as url, running_engines(MODULES, url) as engines:
        bench = Bench(engines, args)
        print(
            f'Python {platform.python_version()}, {versions(bench)}; load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores'
        )
        counted = calls(bench)
        times(bench)
        imports(bench)
        burst = bursts(bench)
        journals(bench)
        wires(bench)
        judge(bench, counted, burst)
    for problem in bench.problems:
        print(f'\nnot measured: {problem}')
    print(f'\nload at the end {os.getloadavg()[0]:.2f}')
    if args.out:
        args.out.write_text(json.dumps(bench.found, indent=1), 'utf-8')
    return 1 if bench.missed or bench.problems else 0


if __name__ == '__main__':
    raise SystemExit(main())
