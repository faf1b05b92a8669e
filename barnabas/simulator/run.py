"""One seed from its beginning to its end: a plan is drawn, brokers and clients live through it, all is checked."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.adversary import Adversary
from barnabas.simulator.brokers import Brokers
from barnabas.simulator.checks import Checks, all_checks
from barnabas.simulator.group_watch import OffsetFrames
from barnabas.simulator.history import (
    Acknowledged,
    Answered,
    Asked,
    Copied,
    Decided,
    Event,
    Failed,
    Healed,
    Over,
    Polled,
    Remade,
    Sent,
    Voted,
)
from barnabas.simulator.machine import Machine
from barnabas.simulator.members import Keeping, Member
from barnabas.simulator.network import Network
from barnabas.simulator.operating import Moving
from barnabas.simulator.plan import LOOSE, TOPIC, Plan
from barnabas.simulator.remaking import ANEW, LEAST_KEYS, AnewWatch, ReadingAnew, Remaking, ReviewingAnew, SendingAnew
from barnabas.simulator.unclean import LOOSE_KEY, ReviewingLoose, SendingLoose, UncleanWatch, batches_of
from barnabas.simulator.watching import FrameWatch
from barnabas.simulator.workload import ClientProcess, Reading, Reviewing, Sending
from barnabas.simulator.world import MS, Broken, World

HEALING_MS: Final = 60_000
"""After the last fault is healed everything is to be well within so long."""
LEAST: Final = 170
"""Acknowledged records of each of three producers."""
_SENDING_MS_MAX: Final = 600_000
"""A producer that goes on to `LEAST` is given so long after the healing."""
_OF_RECORDS: Final = (Sent, Acknowledged, Failed, Polled)
_LOG_LINES_MAX: Final = 200


@dataclass
class Outcome:
    """What became of a seed; `broken` says which promise was broken, None if all held."""

    plan: Plan
    virtual_ms: int
    acknowledged: int
    events: int
    digest: str
    reached: Counter[str]
    broken: str | None = None
    trace: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values, for the file of a failure."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**told, "plan": asdict(self.plan), "reached": dict(self.reached)}


def play(plan: Plan) -> Outcome:
    """Live through a plan."""
    with _log_kept() as lines, _no_garbage():
        run = _Run(plan)
        broken = None
        try:
            run.play()
        except Broken as error:
            broken = str(error)
            run.world.note(f"broken: {broken}")
        finally:
            events = run.checks.events
            run.end()
    world = run.world
    return Outcome(
        plan,
        world.now_ns // MS,
        sum(each.acknowledged for each in run.sending),
        events,
        world.trace.digest,
        world.reached,
        broken,
        list(world.trace.lines) if broken else [],
        list(lines) if broken else [],
    )


class _Run:
    """Everything of one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        world = self.world = World(plan.seed)
        network = Network(world)
        self.checks = Checks(all_checks())
        frames = OffsetFrames(world, self.tell, lambda node_id: self.brokers[node_id].core)
        network.tap = FrameWatch(world, self.tell, frames, lambda node_id: self.brokers[node_id]).tap
        self.brokers = Brokers(world, network, plan, self.tell)
        server, partitions = self.brokers.server, plan.partitions_told
        machines = (Machine(world, network, f"client{number}", f"10.0.1.{number}") for number in range(1, 100))
        until_ns = plan.duration_ms * MS
        self.sending = [
            Sending(
                next(machines),
                server,
                partitions,
                settings,
                self.tell,
                until_ns,
                LEAST,
                once=plan.promises_once(settings),
                heavy=plan.heavy,
            )
            for settings in plan.producers
        ]
        self.reading = [Reading(next(machines), server, partitions, settings, self.tell) for settings in plan.consumers]
        self.members = [
            Member(next(machines), server, TOPIC, settings, self.tell, until_ns) for settings in plan.members
        ]
        self.keeping = [Keeping(next(machines), server, partitions[0], self.tell)] if plan.members else []
        self.moving = (
            [Moving(next(machines), server, partitions, plan.brokers, self.tell, until_ns)] if plan.moves else []
        )
        self.remaking: list[ClientProcess] = []
        self.anew = AnewWatch(world, self.brokers, self.tell)
        if plan.remakes:
            self.sending.append(SendingAnew(next(machines), server, self.tell, until_ns))
            self.keeping.append(Keeping(next(machines), server, LEAST_KEYS[0], self.tell, f"counters of {ANEW}"))
            self.remaking = [ReadingAnew(next(machines), server), Remaking(next(machines), server, self.tell, until_ns)]
        self.loose = [SendingLoose(next(machines), server, self.tell, until_ns)] if plan.unclean else []
        self.sending += self.loose
        self.unclean = UncleanWatch(world, self.brokers, self.tell)
        self.reviews: list[Reviewing] = [Reviewing(next(machines), server, partitions, self.tell)]
        if plan.remakes:
            self.reviews.append(ReviewingAnew(next(machines), server, [], self.tell))
        if plan.unclean:
            self.reviews.append(ReviewingLoose(next(machines), server, [], self.tell))
        self.clients: list[ClientProcess] = [*self.sending, *self.reading, *self.members, *self.keeping, *self.moving]
        self.clients += self.remaking
        hosts = [each.machine.host for each in self.clients]
        self.adversary = Adversary(world, network, self.brokers, hosts, self.members, self.tell, synced=plan.synced)

    def tell(self, event: Event) -> None:
        """Something happened that the checkers are to hear of."""
        kind = type(event)
        if kind is Asked:
            pass  # with answers most of what there is
        elif isinstance(event, Answered):
            if event.writes:
                self.adversary.answered(event.connection)
        elif isinstance(event, _OF_RECORDS):
            where, value = event.partition, event.value[:20]
            offset = getattr(event, "offset", "")
            self.world.note(f"{event[0]} {kind.__name__.lower()} {where} {offset} {value!r}")
        elif isinstance(event, Decided):
            self.adversary.decided(event)
            if event.anyone:
                self.unclean.decided(event)
        elif isinstance(event, Voted):
            self.adversary.voted(event)
        elif isinstance(event, Remade):
            self.anew.remade(event)
        try:
            self.checks.see(event)
        except Broken as broken:
            self.world.fail(str(broken))

    def play(self) -> None:
        """Let it all happen, heal, let everybody come to an end, and look at what is there.

        Raises:
            Broken: a promise was broken.
        """
        plan, world = self.plan, self.world
        for broker in self.brokers.all:
            broker.start()
        for client in self.clients:
            client.start()
        self.adversary.plan(plan.faults, plan.duration_ms)
        world.run(plan.duration_ms * MS)
        self.adversary.heal()
        healed_ns = world.now_ns
        self.tell(Healed(0))
        world.at(healed_ns + HEALING_MS * MS, lambda: self.tell(Healed(HEALING_MS)))
        if not self._within(HEALING_MS, lambda: all(one.ended for one in self.moving) and self.brokers.in_sync):
            raise Broken(f"settled: not all is in sync {HEALING_MS} ms after all was healed: {self.brokers.told()}")
        self._within(_SENDING_MS_MAX, lambda: all(each.ended for each in self.sending))
        if plan.remakes:
            self._within(HEALING_MS, lambda: self.remaking[-1].ended)
            self.reviews[-1].take_on(self.brokers.know(ANEW))
        if plan.unclean:
            self.reviews[-1].take_on(self.brokers.know(LOOSE))
        if not self._within(HEALING_MS, lambda: self.brokers.well):
            raise Broken(f"settled: nothing is sent any more, and not all is committed: {self.brokers.told()}")
        for review in self.reviews:
            review.start()
            if not self._within(HEALING_MS, lambda one=review: one.positions == self._ends(one.positions)):  # type: ignore[misc]
                there = self._ends(review.positions)
                raise Broken(f"settled: what is there ({there}) cannot be read in {HEALING_MS} ms: {review.positions}")
        self._read_to(plan.partitions_told)
        for review in self.reviews:
            review.tell()
            if isinstance(review, ReviewingLoose):
                self._compare(review)
        self.tell(Over((world.now_ns - healed_ns) // MS))
        if world.broken is not None:
            raise Broken(world.broken)

    def _compare(self, review: ReviewingLoose) -> None:
        """Look at what an unclean election has taken, and whether all replicas have the same since."""
        for sending in self.loose:
            self.world.count("acknowledged records lost to an unclean election", review.lost(sending.promised))
        for broker in self.brokers.all:
            log = None if broker.core is None else broker.core.logs.logs.get(LOOSE_KEY)
            if log is not None:
                self.tell(Copied(broker.name, LOOSE_KEY, batches_of(broker.device, log)))

    def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these end now: what a producer has given up may still have been on its way, and comes later."""
        ends = self.brokers.ends()
        return {key: ends[key] for key in partitions}

    def _read_to(self, partitions: Sequence[TopicPartition]) -> None:
        """Some read a few records at a time: all is well as long as each minute brings another one."""

        def have() -> list[dict[TopicPartition, int]]:
            together = [{key: max((each.handed.get(key, 0) for each in self.members), default=0) for key in partitions}]
            return [dict(reader.positions) for reader in self.reading] + (together if self.members else [])

        def have_all() -> bool:
            ends = self._ends(partitions)
            return all(one == ends for one in have())

        before: list[dict[TopicPartition, int]] = []
        while (now := have()) != before:
            before = now
            if self._within(HEALING_MS, have_all):
                return

    def _within(self, ms: int, condition: Callable[[], bool]) -> bool:
        return self.world.run(self.world.now_ns + ms * MS, condition)

    def end(self) -> None:
        """Let go of everything: no process runs any more."""
        clients = [*self.clients, *self.reviews]
        for client in clients:
            client.cancel()
        self.checks = Checks([])  # what comes now is no news
        limit_ns = self.world.now_ns + HEALING_MS * MS

        def ended() -> bool:
            return not any(client.runs for client in clients)

        while not ended() and self.world.now_ns < limit_ns:
            self.world.broken = None
            with suppress(Broken):
                self.world.run(limit_ns, ended)
        for client in clients:
            client.end_process()
        for broker in self.brokers.all:
            broker.end_process()


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Nothing is collected meanwhile: when a collection comes is nobody's choice, and who holds weakly sees it.

    What the run before has left goes first: 4 MB, which the collector itself may leave for hundreds of runs.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _log_kept() -> Iterator[list[str]]:
    """What is logged goes into a list of bounded length, and nowhere else."""
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")
            del lines[:-_LOG_LINES_MAX]

    logger, keeper = logging.getLogger("barnabas"), Keeper(logging.WARNING)
    before = logger.handlers[:], logger.propagate
    logger.handlers[:], logger.propagate = [keeper], False
    try:
        yield lines
    finally:
        logger.handlers[:], logger.propagate = before
