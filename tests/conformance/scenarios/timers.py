"""T01 to T07: many waits at once, and the purgatory's figures (ours alone, through /metrics)."""

import selectors
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.conformance.raw import Connection
from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import FETCH, World, after, fetch_body, fetched, later, pause


@contextmanager
def many(world: World, count: int) -> Iterator[list[Connection]]:
    """This many connections."""
    with ExitStack() as stack:
        yield [stack.enter_context(world.connect()) for _ in range(count)]


def gather(peers: list[Connection], seconds_max: float) -> list[tuple[int, float, str]]:
    """Read answers of one partition each until nothing is due: number of the peer, time in ms, the fetched range."""
    out: list[tuple[int, float, str]] = []
    with selectors.DefaultSelector() as selector:
        for number, peer in enumerate(peers):
            selector.register(peer, selectors.EVENT_READ, number)
        deadline = time.monotonic() + seconds_max
        while len(out) < len(peers) and time.monotonic() < deadline:
            for key, _ in selector.select(0.5):
                _, reply = peers[key.data].receive()
                part = next(iter(fetched(reply).values()))
                held = " ".join(f"{each.base_offset}-{each.last_offset}" for each in part.batches) or "empty"
                out.append((key.data, reply.ms, f"{part.code}, {held}"))
    return out


@scenario(
    "T01",
    "200 connections: 200 fetches of an empty partition, waits spread over 1 to 5000 ms",
    {"answered": "200", "early": "0", "late": "0", "twice": "0", "answers": "NONE, empty"},
    alone=True,
)
def t01(world: World) -> Facts:
    topic = world.topic()
    waits = [1 + number * 4999 // 199 for number in range(200)]
    with many(world, 200) as peers:
        for peer, wait in zip(peers, waits, strict=True):
            peer.send("fetch", FETCH, fetch_body([(topic, 0, 0)], wait=wait))
        got = gather(peers, 30)
        twice = sum(not peer.silent(0.001) for peer in peers)
    late = sum(after(ms, waits[number]) != f"{waits[number]} ms" for number, ms, _ in got if ms >= waits[number])
    return {
        "answered": str(len(got)),
        "early": str(sum(ms < waits[number] - 1 for number, ms, _ in got)),
        "late": f"{late} (measured)" if late else "0",
        "twice": str(twice),
        "answers": "; ".join(sorted({text for _, _, text in got})),
    }


@scenario(
    "T06",
    "a fetch waits 5000 ms and its client closes the connection; a record is produced, another client reads",
    {"produce": "NONE", "read": "NONE, 0-0 as sent, HW 1", "after": "at once"},
)
def t06(world: World) -> Facts:
    topic = world.topic()
    peer = world.connect()
    peer.send("fetch", FETCH, fetch_body([(topic, 0, 0)], wait=5000))
    assert peer.silent(0.2)
    peer.close()
    sent = world.produce(topic, 1)
    got, ms = world.fetch(topic, 0, wait=1000)
    return {"produce": sent.code, "read": world.tell(topic, got), "after": after(ms, 0)}


@scenario(
    "T07",
    "2000 connections wait at the end of one partition; one record is produced; another connection asks meanwhile",
    {"answered": "2000", "answers": "NONE, 0-0", "others": "served"},
    alone=True,
)
def t07(world: World) -> Facts:
    topic = world.topic()
    slowest = 0.0
    with many(world, 2000) as peers:
        for peer in peers:
            peer.send("fetch", FETCH, fetch_body([(topic, 0, 0)], wait=25_000))
        with world.connect() as other, later(0, lambda: world.produce(topic, 1), late=30_000):
            for _ in range(20):
                slowest = max(slowest, other.call("api_versions", 0, {}).ms)
                pause(5)
        got = gather(peers, 60)
    return {
        "answered": str(len(got)),
        "answers": "; ".join(sorted({text for _, _, text in got})),
        "others": "served" if slowest < 1000 else f"after {slowest:.0f} ms (measured)",
    }
