"""A run: blows to a cluster of real processes under load, and in the end a look at all that was acknowledged."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from barnabas import Admin
from barnabas.cli.look import state
from barnabas.protocol.ids import TopicPartition
from tests.cluster_kills.brokers import Brokers
from tests.cluster_kills.load import PARTITIONS, Load, Wrong, records

MOMENTS_S: Final = (0.0, 0.01, 0.1, 0.3, 0.7, 1.5, 4.0)
ROUNDS: Final = 2
LOOKS_MAX: Final = 600
LOOK_S: Final = 0.2
GROW_S: Final = 8.0
"""What `cluster grow` takes here."""


class Run:
    """One seed. A blow ends with all brokers running; not all need be in sync by then.

    `controllers` is how many there are: three, four, or one, of which `grow` makes three.
    """

    def __init__(
        self, directory: Path, seed: int, *, small_disk: bool = True, members: bool = True, controllers: int = 3
    ) -> None:
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.harmed = False
        """Whether files were damaged or taken away: then what is lost of them is told."""
        self.brokers = Brokers(directory, small_disk=small_disk and controllers > 1, controllers=controllers)
        self.those = tuple(self.brokers.ids())
        """Whom blows hit."""
        self._pause = threading.Event()
        self.load = Load(self.brokers.servers, members=members)

    def moment(self) -> None:
        """A while, of the length that chance has."""
        self._pause.wait(self.chance.choice(MOMENTS_S))

    def wait(self, seconds: float) -> None:
        """So long."""
        self._pause.wait(seconds)

    def one(self) -> int:
        """Whom chance hits: any of those, or whoever decides, leads or coordinates."""
        kind = self.chance.choice(("any", "controller", "leader", "coordinator"))
        if kind == "any":
            return self.chance.choice(self.those)
        with Admin(bootstrap_servers=self.brokers.servers, request_timeout_ms=5000) as admin:
            if kind == "controller":
                found = admin.describe_quorum().leader_id
            elif kind == "leader":
                found = admin.describe_topics("idempotent")["idempotent"].partitions[0].leader
            else:
                internal = admin.describe_topics("__consumer_offsets")["__consumer_offsets"]
                found = self.chance.choice(internal.partitions).leader
        return found if found in self.those else 1

    def blow(self, name: str | None = None) -> str:
        """Strike once, as chance has it or as named; what was done."""
        name = name or self.chance.choice([each for each in BLOWS if each != "full" or self.brokers.disk is not None])
        self.counts[name] += 1
        return f"{name} {BLOWS[name](self)}"

    def heals(self) -> None:
        """Until all replicas are in sync.

        Raises:
            Wrong: it does not come to that.
        """
        for _ in range(LOOKS_MAX):
            left = self.out_of_sync()
            if not left:
                return
            self._pause.wait(LOOK_S)
        raise Wrong(f"not in sync: {left}")

    def out_of_sync(self) -> list[str]:
        """Partitions that are not whole."""
        with Admin(bootstrap_servers=self.brokers.servers, request_timeout_ms=5000) as admin:
            topics = admin.describe_all_topics(internal=True)
            moving = admin.list_partition_reassignments()
        return [
            f"{name}-{one.partition} leader {one.leader}, in sync {one.isr} of {one.replicas}"
            for name, topic in topics.items()
            for one in topic.partitions
            if sorted(one.isr) != sorted(one.replicas)
            or one.leader < 0
            or TopicPartition(name, one.partition) in moving
        ]

    def ends(self) -> str:
        """Heal, end the load, and hold all against what was told.

        Raises:
            Wrong: a promise was broken.
        """
        self.load.goes_on(ROUNDS)
        self.load.end()
        self.heals()
        self.load.check()
        told = self.losses()
        if told and not self.harmed:
            raise Wrong(f"losses are told where nothing is lost: {told}")
        replicas = self._replicas()
        self.load.close()
        self.brokers.end()
        self._compare(replicas)
        self._traces()
        return f"{self.load.told()}; {dict(sorted(self.counts.items()))}"

    def losses(self) -> list[str]:
        """What the brokers say they have lost."""
        servers = {one.node_id: f"127.0.0.1:{one.port}" for one in self.brokers.plan.brokers}
        return [f"broker {node_id}: {one}" for node_id, at in servers.items() for one in state(at)["losses"]["last"]]

    def _replicas(self) -> dict[str, list[tuple[int, ...]]]:
        with Admin(bootstrap_servers=self.brokers.servers) as admin:
            topics = admin.describe_topics(*(one.name for one in self.load.senders))
        return {name: [one.replicas for one in topic.partitions] for name, topic in topics.items()}

    def _compare(self, replicas: dict[str, list[tuple[int, ...]]]) -> None:
        """All replicas have the same bytes, once they have stopped."""
        for name, of_partitions in replicas.items():
            logs = {one: self.brokers.logs(one, name, PARTITIONS) for one in self.brokers.ids()}
            for number, ids in enumerate(of_partitions):
                sizes = {one: len(logs[one][number]) for one in ids}
                if len({logs[one][number] for one in ids}) > 1:
                    raise Wrong(f"{name}-{number} differs between its replicas, of {sizes} bytes")

    def _traces(self) -> None:
        for node_id in self.brokers.ids():
            lines = self.brokers.said(node_id)
            if any(line.startswith("Traceback") for line in lines):
                raise Wrong(f"broker {node_id} tells a trace in its log")

    def close(self) -> None:
        """Whatever came of it."""
        self.brokers.end(orderly=False)
        self.load.close()
        self.brokers.let_go()


def _kill(run: Run) -> str:
    """One is killed, and comes back."""
    one = run.one()
    run.brokers.kill(one)
    run.moment()
    run.brokers.start(one)
    return str(one)


def _kill_while_away(run: Run) -> str:
    """One is killed, and while it is away the others go on."""
    one = run.one()
    run.brokers.kill(one)
    run.load.goes_on(ROUNDS)
    run.brokers.start(one)
    return str(one)


def _pause(run: Run) -> str:
    one = run.one()
    run.brokers.pause(one)
    if run.chance.randrange(2):
        run.load.goes_on(ROUNDS)
    else:
        run.moment()
    run.brokers.resume(one)
    return str(one)


def _two_in_turn(run: Run) -> str:
    """A second one is held as soon as the first goes on."""
    first, second = run.chance.sample(run.those, 2)
    run.brokers.pause(first)
    run.moment()
    run.brokers.resume(first)
    run.brokers.pause(second)
    run.moment()
    run.brokers.resume(second)
    return f"{first} {second}"


def _two_held(run: Run) -> str:
    """Two are held at a time: nothing goes on, nothing is lost."""
    first, second = run.chance.sample(run.those, 2)
    run.brokers.pause(first)
    run.brokers.pause(second)
    run.moment()
    run.brokers.resume(first)
    run.moment()
    run.brokers.resume(second)
    return f"{first} {second}"


def _after_healed(run: Run) -> str:
    """A second one is killed within moments of the first being whole again."""
    first, second = run.chance.sample(run.those, 2)
    run.brokers.kill(first)
    run.load.goes_on(1)
    run.brokers.start(first)
    if run.chance.randrange(2):
        run.heals()
    run.brokers.kill(second)
    run.moment()
    run.brokers.start(second)
    return f"{first} {second}"


def _held_then_killed(run: Run) -> str:
    """One goes on that was held, and another is killed at once."""
    first, second = run.chance.sample(run.those, 2)
    run.brokers.pause(first)
    run.moment()
    run.brokers.resume(first)
    run.brokers.kill(second)
    run.moment()
    run.brokers.start(second)
    return f"{first} {second}"


def _all_killed(run: Run) -> str:
    """All processes end, and come back in any order."""
    order = run.chance.sample(run.those, len(run.those))
    for one in order:
        run.brokers.kill(one)
    for one in order:
        run.brokers.launch(one)
    for one in order:
        run.brokers.serves(one)
    return str(order)


def _rolling(run: Run) -> str:
    """Each is stopped in order and comes back; one of them is killed while it stops, or as it starts."""
    order, hit = run.chance.sample(run.those, len(run.those)), run.chance.randrange(len(run.those))
    for number, one in enumerate(order):
        run.brokers.stop(one)
        if number == hit:
            run.brokers.launch(one)
            run.moment()
            run.brokers.kill(one)
        run.brokers.start(one)
        if run.chance.randrange(2):
            run.heals()
    return f"{order}, {order[hit]} is killed as it starts"


def _full(run: Run) -> str:
    """The disk of broker 3 is full for a while."""
    disk = run.brokers.disk
    assert disk is not None
    disk.fill()
    run.moment()
    killed = run.chance.randrange(3) == 0
    if killed:
        other = run.chance.choice((1, 2))
        run.brokers.kill(other)
        run.moment()
    disk.free()
    if killed:
        run.brokers.start(other)
    return f"3{f', {other} is killed' if killed else ''}"


def _damaged(run: Run) -> str:
    """Files of one are damaged while it is away; all others have what it had."""
    run.heals()
    one = run.chance.choice(run.those)
    killed = run.chance.randrange(2) == 0
    (run.brokers.kill if killed else run.brokers.stop)(one)
    run.harmed = True
    if run.chance.randrange(3):
        done = run.brokers.damage(one, run.chance, run.chance.choice((1, 3, 10)), records=killed)
    else:
        run.brokers.wipe(one)
        done = ["all partitions removed"]
    if run.chance.randrange(2):
        run.load.goes_on(1)
    run.brokers.start(one)
    run.load.goes_on(1)
    run.heals()
    return f"{one}: {done}"


def _flipped(run: Run) -> str:
    """A bit of a leader's records flips while all run: who reads them is given what was written."""
    run.heals()
    sender, number = run.load.idempotent, run.chance.randrange(PARTITIONS)
    with Admin(bootstrap_servers=run.brokers.servers) as admin:
        one = admin.describe_topics(sender.name)[sender.name].partitions[number].leader
    run.harmed = True
    where = run.brokers.flip(one, f"{sender.name}-{number}", run.chance)
    told = dict(sender.acknowledged)
    found = records(run.brokers.servers, sender.name)
    for at, value in told.items():
        if found.get(at) != value:
            raise Wrong(f"{where} of broker {one} is flipped: {value} at {at[0]}-{at[1]} is read as {found.get(at)}")
    run.heals()
    return f"{one}: {where}"


def _grown(run: Run) -> str:
    """A fourth broker comes, is given partitions, gives them back, and goes."""
    run.heals()
    run.brokers.verb("add")
    with Admin(bootstrap_servers=run.brokers.servers) as admin:
        keys = [TopicPartition(one.name, number) for one in run.load.senders for number in range(PARTITIONS)]
        newest = max(run.brokers.ids())
        admin.alter_partition_reassignments({key: run.chance.sample((*run.those, newest), 3) for key in keys})
    hit = run.chance.choice((None, *run.those))
    if hit is not None:
        run.moment()
        run.brokers.kill(hit)
        run.moment()
        run.brokers.start(hit)
    run.load.goes_on(ROUNDS)
    if run.chance.randrange(2):
        run.heals()  # else what was begun is under way, or has just ended
    run.brokers.verb("drain", str(newest), "-b", run.brokers.servers)
    run.brokers.verb("remove", str(newest))
    return f"{newest}, {hit} is killed meanwhile"


def grow(run: Run) -> str:
    """Three controllers are made of one, while a broker is away, is killed, or the command itself is."""
    away = run.chance.choice((None, None, 1, 2, 3))
    if away is not None:
        run.brokers.kill(away)
    hit = run.chance.choice((None, 1, 2, 3, "kill"))

    def meanwhile() -> str:
        run.wait(run.chance.uniform(0, GROW_S))
        if isinstance(hit, int):
            run.brokers.hit(hit)
        return str(hit)

    told = run.brokers.grow(meanwhile)
    with Admin(bootstrap_servers=run.brokers.servers, request_timeout_ms=5000) as admin:
        voters = [one.replica_id for one in admin.describe_quorum().voters]
    if voters != [1, 2, 3]:
        raise Wrong(f"{voters} are controllers")
    run.counts["grow"] += 1
    return f"grow, {away} was away, {hit} is killed meanwhile: {told}"


BLOWS: Final[dict[str, Callable[[Run], str]]] = {
    "kill": _kill,
    "away": _kill_while_away,
    "pause": _pause,
    "in turn": _two_in_turn,
    "two held": _two_held,
    "after healed": _after_healed,
    "held, killed": _held_then_killed,
    "all": _all_killed,
    "rolling": _rolling,
    "full": _full,
    "damaged": _damaged,
    "flipped": _flipped,
    "grown": _grown,
}
