"""T02 to T05: the purgatory's figures, from /metrics of our broker alone (Apache Kafka has them in JMX).

T05 needs a stalled follower: it is played on a core with the followers' requests made by hand, like all that needs
replica ids.
"""

import re
import time

from tests.conformance.raw import Connection
from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import FETCH, Late, World, after, fetch_body, fetched, later

SIZE = 'kafka_server_delayedoperationpurgatory_purgatorysize{delayed_operation="Fetch"}'
DELAYED = 'kafka_server_delayedoperationpurgatory_numdelayedoperations{delayed_operation="Fetch"}'
EXPIRED = 'kafka_server_delayedfetchmetrics_expires_total{fetcher_type="consumer"}'


def metric(world: World, line: str) -> int:
    """One value of /metrics."""
    found = re.search(rf"^{re.escape(line)} (\S+)$", world.http("/metrics"), re.MULTILINE)
    assert found, f"/metrics has no {line}"
    return int(float(found[1]))


def figures(world: World, since: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Operations and watcher entries of the fetch purgatory, as a difference."""
    return metric(world, DELAYED) - since[0], metric(world, SIZE) - since[1]


def told(change: tuple[int, int]) -> str:
    """The difference in words."""
    return f"NumDelayedOperations {change[0]:+}, PurgatorySize {change[1]:+}"


def park(world: World, peer: Connection, topic: str, wait: int) -> None:
    """A fetch over three empty partitions, parked."""
    before = metric(world, DELAYED)
    peer.send("fetch", FETCH, fetch_body([(topic, partition, 0) for partition in range(3)], wait=wait))
    world.wait(lambda: metric(world, DELAYED) == before + 1, "the parked fetch")


@scenario(
    "T02",
    "a fetch over 3 empty partitions, wait 1000 ms: the purgatory while it waits, after it, after a record on each",
    {
        "waiting": "NumDelayedOperations +1, PurgatorySize +3",
        "expired": "NumDelayedOperations +0, PurgatorySize +3",
        "after a record on each": "NumDelayedOperations +0, PurgatorySize +0",
    },
    alone=True,
    ours=True,
)
def t02(world: World) -> Facts:
    topic = world.topic(3)
    before = figures(world)
    with world.connect() as peer:
        park(world, peer, topic, 1000)
        facts = {"waiting": told(figures(world, before))}
        if not peer.silent(0.001):
            raise Late("the fetch had ended before it was looked at")
        peer.receive()
    facts["expired"] = told(figures(world, before))
    for partition in range(3):
        world.produce(topic, 1, partition=partition)
    return {**facts, "after a record on each": told(figures(world, before))}


@scenario(
    "T03",
    "the same, wait 5000 ms, and a record for p0",
    {"answer": "p0, at once", "then": "NumDelayedOperations -1, PurgatorySize -1"},
    alone=True,
    ours=True,
)
def t03(world: World) -> Facts:
    topic = world.topic(3)
    with world.connect() as peer:
        park(world, peer, topic, 5000)
        parked = figures(world)
        if not peer.silent(0.001):
            raise Late("the fetch had ended before there was a record")
        began = time.monotonic()
        with later(0, lambda: world.produce(topic, 1)):
            _, reply = peer.receive()
            ms = (time.monotonic() - began) * 1000
        held = [f"p{partition}" for (_, partition), part in fetched(reply).items() if part.batches]
        facts = {"answer": f"{' '.join(held)}, {after(ms, 0)}"}
        facts["then"] = told(figures(world, parked))
    for partition in (1, 2):
        world.produce(topic, 1, partition=partition)
    return facts


@scenario(
    "T04",
    "ExpiresPerSec of consumers: a fetch that data answers, then one that expires",
    {"answered by data": "+0", "expired": "+1", "after": "300 ms"},
    alone=True,
    ours=True,
)
def t04(world: World) -> Facts:
    topic = world.topic()
    before = metric(world, EXPIRED)
    with later(200, lambda: world.produce(topic, 1)):
        world.fetch(topic, 0, wait=5000)
    first = metric(world, EXPIRED)
    _, ms = world.fetch(topic, 1, wait=300)
    second = metric(world, EXPIRED)
    return {"answered by data": f"{first - before:+}", "expired": f"{second - first:+}", "after": after(ms, 300)}


@scenario(
    "T06b",
    "a fetch waits 60000 ms and its client closes the connection: the operation ends with it (Kafka's waits on)",
    {"waits": "NumDelayedOperations +1, PurgatorySize +1", "closed": "NumDelayedOperations +0, PurgatorySize +0"},
    alone=True,
    ours=True,
)
def t06b(world: World) -> Facts:
    topic = world.topic()
    before = figures(world)
    with world.connect() as peer:
        peer.send("fetch", FETCH, fetch_body([(topic, 0, 0)], wait=60_000))
        world.wait(lambda: figures(world, before)[0] == 1, "the parked fetch")
        waits = told(figures(world, before))
    world.wait(lambda: figures(world, before)[0] == 0, "its end")
    return {"waits": waits, "closed": told(figures(world, before))}
