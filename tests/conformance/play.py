"""Play scenarios against one broker: side by side where they can be, with one restart for all that need one.

Those that want settings of their own have a broker of their own, one after the other beside all else: most of what they
do is to wait.
"""

import dataclasses
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from tests.conformance.batches import batch
from tests.conformance.scenario import KILL, STOP, Facts, Scenario, Step, Steps
from tests.conformance.targets import Target
from tests.conformance.world import Late, World, bearing, now_ms, records

Make: TypeAlias = Callable[[Path, dict[str, str]], Target]
"""What gives a broker of one make, not started yet, in this directory and with these settings beside those of all."""

WORKERS = 12
WARM_ROUNDS = 60
ALONE_LATE_MS = (200.0, 400.0, 800.0, 800.0, 800.0)
"""How late an answer may be (ms) when a scenario that missed nothing but a time is played alone, and again; it was 200,
once or twice. The last is below 1000 ms, the shortest wait that an answer `at once` is told from."""


@dataclasses.dataclass(slots=True)
class Outcome:
    """What a scenario observed, or the error that ended it."""

    facts: Facts
    failure: str = ""
    late: bool = False
    """Whether the error says nothing of the broker: we ourselves were late."""

    def differs(self, expected: Facts) -> list[str]:
        """The names of the facts that are not as expected."""
        if self.failure:
            return ["failure"]
        return [name for name in {**expected, **self.facts} if self.facts.get(name) != expected.get(name)]


def guarded(observe: Callable[[], Facts]) -> Outcome:
    """What it observes, or why it could not."""
    try:
        return Outcome(observe())
    except Exception as error:
        return failed(error)


def failed(error: Exception) -> Outcome:
    """A scenario that ended with this error."""
    told = f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error, limit=-4))}"
    return Outcome({}, told, isinstance(error, Late))


def warm(world: World) -> None:
    """Take a cold JVM's first, slow, answers out of the measured times."""
    topic = world.topic()
    with world.connect() as peer:
        for _ in range(WARM_ROUNDS):
            world.produce_on(peer, topic, batch(records(3), timestamp=now_ms()))
            world.fetch(topic, 0)
            world.list_offset(topic, -1)


def _only_late(scenario: Scenario, outcome: Outcome) -> bool:
    if outcome.late:
        return True
    theirs, ours = outcome.differs(scenario.expected), outcome.differs(scenario.ours_expected)
    names = [name for name in theirs if name in ours]
    return bool(names) and all("(measured)" in outcome.facts.get(name, "") for name in names)


def play(
    make: Make, directory: Path, scenarios: Iterable[Scenario], told: Callable[[str], None] = lambda text: None
) -> dict[str, Outcome]:
    """Start brokers below this directory, play, and stop them.

    A scenario that missed nothing but a time is played again, alone.
    """
    asked = list(scenarios)
    of_their_own = [each for each in asked if each.settings]
    with ThreadPoolExecutor(1) as beside:
        apart = beside.map(lambda each: _apart(make(directory / each.id, each.settings), each, told), of_their_own)
        as_all = [each for each in asked if not each.settings]
        out = _together(make(directory / "broker", {}), as_all, told) if as_all else {}
        out |= dict(zip([each.id for each in of_their_own], apart, strict=True))
    return {each.id: out[each.id] for each in asked}


def _world(target: Target) -> World:
    """It is started, and warm."""
    target.start()
    world = World(target.name, target.port, target.data_dir, target.peer_port, target.secret)
    warm(world)
    return world


def _together(target: Target, asked: list[Scenario], told: Callable[[str], None]) -> dict[str, Outcome]:
    out: dict[str, Outcome] = {}
    try:
        world = _world(target)
        here = [each for each in asked if each.restart is None]
        free = [each for each in here if not each.alone]
        # The longest waits first, so that the last ones do not stand in line alone.
        with ThreadPoolExecutor(WORKERS) as pool:
            out |= dict(zip([each.id for each in free], pool.map(lambda each: _one(world, each), free), strict=True))
        told(f"{target.name}: {len(free)} played side by side")
        for each in here:
            if each.alone or _only_late(each, out[each.id]):
                out[each.id] = _alone(world, each)
                told(f"{target.name}: {each.id} played alone")
        for step in (STOP, KILL):
            out |= _restart(target, world, [each for each in asked if each.restart is step], step)
    finally:
        target.stop()
    return out


def _apart(target: Target, scenario: Scenario, told: Callable[[str], None]) -> Outcome:
    try:
        outcome = _alone(_world(target), scenario)
        told(f"{target.name}: {scenario.id} played with settings of its own")
    finally:
        target.stop()
    return outcome


def _one(world: World, each: Scenario) -> Outcome:
    return guarded(lambda: each.body(world))


def _alone(world: World, each: Scenario) -> Outcome:
    """Again and again while nothing but a time was missed, as often as `ALONE_LATE_MS` bears with."""
    outcome = Outcome({})
    for late_ms in ALONE_LATE_MS:
        with bearing(late_ms):
            outcome = _one(world, each)
        if not _only_late(each, outcome):
            break
    return outcome


def _restart(target: Target, world: World, asked: list[Scenario], step: Step) -> dict[str, Outcome]:
    """All scenarios up to the restart, the restart, and all to their end."""
    if not asked:
        return {}
    out: dict[str, Outcome] = {}
    steps: dict[str, Steps] = {each.id: each.body(world) for each in asked}

    def advance() -> None:
        for id_ in [each for each in steps if each not in out]:
            try:
                next(steps[id_])
            except StopIteration as end:
                out[id_] = Outcome(end.value)
            except Exception as error:
                out[id_] = failed(error)

    advance()
    target.stop() if step is STOP else target.kill()
    advance()
    target.start()
    advance()
    return out
