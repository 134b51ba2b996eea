"""Case 20, and promise 3 as a whole: a real process is killed (SIGKILL) at one place after the other, and resumed.

A short round, the same every time; `make crash` goes to every place of every scenario, and on from there at random.
What is judged, and how, is in `verdict.py`: effects outside the engine, the rules of calls in flight, output, history,
usage, ids, all against a run that was left alone.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.acceptance.campaign import AT_RANDOM, WAYS, Campaign, Kill, scratch
from tests.acceptance.ledger import Line
from tests.acceptance.points import AFTER_WRITE, AT_MODEL, BEFORE_WRITE, DURING_WRITE, IN_TOOL
from tests.acceptance.scenarios import SCENARIOS
from tests.acceptance.server import fork_server
from tests.acceptance.verdict import Evidence, faults

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='needs fork and reads /proc')

DELAYS = 0.0, 0.001, 0.002


@pytest.fixture(scope='module')
def campaign() -> Iterator[Campaign]:
    with fork_server() as server, scratch() as folder:
        yield Campaign(server, folder)


def check(campaign: Campaign) -> None:
    """Fail with what was wrong, and forget it, so that each test speaks for itself."""
    failures, campaign.report.failures = campaign.report.failures, []
    assert not failures, '\n'.join(failures)


def test_killed_before_every_write(campaign: Campaign) -> None:
    """Three steps with equal calls: between two writes there is one effect at most, so this is every order of things."""
    writes, before = campaign.count('steps', BEFORE_WRITE), campaign.report.kills[BEFORE_WRITE]
    for n in range(1, writes + 1):
        campaign.chain('steps', 'run', [Kill(at=n, of=BEFORE_WRITE)])
    check(campaign)
    assert writes > 10 and campaign.report.kills[BEFORE_WRITE] == before + writes


ELSEWHERE = [
    *(('parallel', phase, 4) for phase in (DURING_WRITE, AFTER_WRITE, IN_TOOL, AT_MODEL)),
    ('output', f'{IN_TOOL}: deliver', 1),
]


@pytest.mark.parametrize(('scenario', 'place', 'each'), ELSEWHERE)
def test_killed_elsewhere(campaign: Campaign, scenario: str, place: str, each: int) -> None:
    """A call for every rule, in parallel; and an output function."""
    phase = place.split(':')[0]
    before = campaign.report.kills[phase]
    chosen = range(1, campaign.count(scenario, place) + 1, each)
    for n in chosen:
        campaign.chain(scenario, 'run', [Kill(at=n, of=place, delay=DELAYS[n % 3])])
    check(campaign)
    assert campaign.report.kills[phase] == before + len(chosen) > before


@pytest.mark.parametrize('scenario', list(SCENARIOS))
def test_killed_again_and_again(campaign: Campaign, scenario: str) -> None:
    """In the first process and in those that go on, whatever way it is driven."""
    chance = random.Random(scenario)
    places = campaign.count(scenario)
    for number, way in enumerate(WAYS):
        first = (places * number + chance.randint(1, places)) // len(WAYS)
        later = [Kill(at=chance.randint(2, places // 2), delay=chance.choice(DELAYS)) for _ in range(number % 2)]
        campaign.chain(scenario, way, [Kill(at=max(first, 1)), *later], resume_by=WAYS[number - 1])
    check(campaign)


def test_killed_at_random_times(campaign: Campaign) -> None:
    chance, names = random.Random(20), list(SCENARIOS)
    for _ in range(40):  # some processes end before they are killed
        scenario = chance.choice(names)
        kills = [Kill(after=chance.uniform(0, campaign.whole(scenario)[1])) for _ in range(2)]
        campaign.chain(scenario, chance.choice(WAYS), kills)
        if campaign.report.kills[AT_RANDOM] >= 5:
            break
    check(campaign)
    assert campaign.report.kills[AT_RANDOM] >= 5
    print(campaign.report)


# The judge must be able to say no.


@pytest.fixture(scope='module')
def evidence(campaign: Campaign) -> Evidence:
    """A run that was killed when all its calls had been started, and has nothing wrong with it."""
    kept = campaign.evidence('parallel', 'run', [Kill(at=5, of=f'{AFTER_WRITE}: CallStarted')])
    assert len(kept.found[1]['runs']['run']['attempts']) == 5 and faults(kept) == []
    return kept


@pytest.mark.parametrize('tool_name', ['fetch', 'post', 'pay', 'ship', 'pack'])
def test_the_judge_notices_one_effect_too_many(evidence: Evidence, tool_name: str) -> None:
    tools = evidence.found[1]['runs']['run']['tools']
    call_id = next(i for i, name in tools.items() if name == tool_name)
    lines = [*evidence.lines, Line('tool', 'run', call_id)]
    end = {**evidence.end, 'lines': len(lines)}
    assert any(call_id in fault for fault in faults(replace(evidence, lines=lines, end=end)))


@pytest.mark.parametrize('what', ['output', 'usage', 'step', 'run_id', 'status', 'valid', 'stored', 'messages', 'runs'])
def test_the_judge_notices_another_end(evidence: Evidence, what: str) -> None:
    wrong: dict[str, object] = {'messages': evidence.end['messages'][:-1], 'runs': {}}
    assert faults(replace(evidence, end={**evidence.end, what: wrong.get(what)}))


def test_the_judge_notices_that_the_model_was_asked_again(evidence: Evidence) -> None:
    lines = [*evidence.lines, Line('model', 'parallel|go', '0')]
    assert any('again' in fault for fault in faults(replace(evidence, lines=lines)))
