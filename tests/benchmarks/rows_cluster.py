"""Rows of several brokers: what replication costs, how long a failover takes, and what a second broker is worth.

Each broker is a process of `barnabas cluster up` with its defaults: replication 3, `min.insync.replicas` 2 where there
are three. All of them and the generator share the cores: what more brokers are worth shows where there are more.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported, not declared

from barnabas import Admin, Producer
from tests.benchmarks import clusters, frames, load, servers
from tests.benchmarks.clusters import Cluster
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers, Server

PARTITIONS = 12
SECONDS = 3.0
ROUNDS = 3
KILLS = 10
BEFORE_A_KILL = 20
PARTITIONS_MANY = 1000
LOG_BYTES = 2**30
READ_BYTES = 4e8
CORES_OF_FOUR = 6
"""Four brokers and what drives them."""


def rows(peers: Peers) -> Iterator[Row]:
    """Measure ours, and where asked three Apache Kafka before them."""
    theirs: dict[str, float] = {}
    if peers.several:
        with clusters.kafka() as kafka:
            theirs = {"MB/s": _mb_per_s(kafka, 3), "p50": _one_at_a_time(kafka).p50_us / 1e3}
    with clusters.barnabas(3) as three:
        mine = _mb_per_s(three, 3)
        row = Row("three brokers, acks=all, 1 KB", "MB/s", mine)
        yield _against(row, theirs.get("MB/s"), 1.0, 2.0)
        one = _one_at_a_time(three)
        row = Row("the same, one record at a time, p50", "ms", one.p50_us / 1e3, better="less")
        row.notes.append(f"p99 {one.p99_us / 1e3:.2f} ms")
        yield _against(row, theirs.get("p50"), 1.0, 0.5)
        yield from _failover(three, "leader killed to the next acknowledged record", active=False)
        yield from _failover(three, "the same, and it is the active controller", active=True)
        yield _memory(three)
    yield _two_replicas()
    yield _recovery()
    yield from _scaling()


def _against(row: Row, theirs: float | None, must: float, aim: float) -> Row:
    if theirs is not None:
        row.peer_name, row.peer, row.must, row.aim = "kafka", theirs, must, aim
    return row


def _mb_per_s(server: Server, replicas: int) -> float:
    """Each round waits until the device has what was written before: near its limit the kernel lets nobody write."""
    topic = f"bulk-{replicas}"
    load.create_topic(server, topic, PARTITIONS, replicas)
    load.librdkafka_produce(server, topic, 1024, servers.warm_up_s(server), PARTITIONS)
    best = 0.0
    for _ in range(ROUNDS):
        os.sync()
        best = max(best, load.librdkafka_produce(server, topic, 1024, SECONDS, PARTITIONS).mb_per_s)
    return best


def _one_at_a_time(cluster: Cluster) -> load.Load:
    load.create_topic(cluster, "single", 1, 3)
    leader = cluster.members[_leader(cluster, "single")]
    load.small_requests(leader, "single", 1, 1, servers.warm_up_s(cluster), 1024)
    found = [load.small_requests(leader, "single", 1, 1, SECONDS, 1024) for _ in range(ROUNDS)]
    return min(found, key=lambda one: one.p50_us)


def _admin(server: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})


def _leader(server: Server, topic: str) -> int:
    return int(_admin(server).list_topics(topic, timeout=10).topics[topic].partitions[0].leader)


def _create(server: Server, topic: str, replicas: list[list[int]]) -> None:
    admin = _admin(server)
    admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=replicas)])[topic].result(30)


def _failover(cluster: Cluster, name: str, active: bool) -> Iterator[Row]:
    """A leader is killed, again and again: each time the active controller, or one that is not."""
    took_ms = []
    addresses = ",".join(one.bootstrap for one in cluster.members.values())
    with Producer(addresses, acks="all") as producer:
        for number in range(KILLS):
            with Admin(addresses) as admin:
                decides = admin.describe_quorum().leader_id
            victim = decides if active else next(one for one in cluster.members if one != decides)
            topic = f"killed-{'active' if active else 'other'}-{number}"
            _create(cluster, topic, [[victim, *(one for one in cluster.members if one != victim)]])
            for _ in range(BEFORE_A_KILL):
                producer.send(topic, b"before", partition=0).result(60)
            began = time.perf_counter()
            cluster.kill(victim)
            producer.send(topic, b"after", partition=0).result(60)
            took_ms.append((time.perf_counter() - began) * 1e3)
            cluster.restart(victim)
            _until(partial(_in_sync, cluster, topic))
    took_ms.sort()
    notes = [f"{KILLS} kills, {took_ms[0]:.0f} to {took_ms[-1]:.0f} ms; the bundled client, all settings the defaults"]
    yield Row(f"{name}, p50", "ms", statistics.median(took_ms), must=9000, aim=1000, better="less", notes=notes)
    yield Row(f"{name}, max", "ms", took_ms[-1], must=9000, aim=1000, better="less")


def _in_sync(cluster: Cluster, topic: str) -> bool:
    return len(_admin(cluster).list_topics(topic).topics[topic].partitions[0].isrs) == len(cluster.members)


def _until(there: Callable[[], bool]) -> None:
    for _ in range(600):
        if there():
            return
        time.sleep(0.05)
    raise RuntimeError("a broker that was started again did not catch up within 30 s")


def _memory(cluster: Cluster) -> Row:
    before = {number: one.own_mb() for number, one in cluster.members.items()}
    load.create_topic(cluster, "many", PARTITIONS_MANY, 3)
    grown = [one.own_mb() - before[number] for number, one in cluster.members.items()]
    notes = ["of each of three brokers, controllers all: " + ", ".join(f"{one:.1f} MB" for one in grown)]
    return Row("memory that 1,000 partitions of three replicas take, a broker", "MB", max(grown), notes=notes)


def _two_replicas() -> Row:
    """Each in a cluster of its own: what the first has written fills the page cache and holds back the second."""
    found = {}
    for replicas in (1, 2):
        with clusters.barnabas(2) as two:
            found[replicas] = _mb_per_s(two, replicas)
    name = "two replicas, acks=all, against one replica, 1 KB"
    return Row(name, "MB/s", found[2], "one replica", found[1], must=0.4, aim=0.55)


def _recovery() -> Row:
    """From the start of a killed broker's process to its first acknowledged record, less that of an empty one."""
    frame = frames.produce("big", 0, frames.batch(64, 1000))

    def until_acknowledged(data_dir: str) -> float:
        began = time.perf_counter()
        with servers.barnabas(data_dir=data_dir) as server, Producer(server.bootstrap) as producer:
            producer.send("big", b"first", partition=0).result(120)
            return time.perf_counter() - began

    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as data_dir:
        with servers.barnabas(data_dir=data_dir) as server:
            load.create_topic(server, "big")
        empty = until_acknowledged(data_dir)
        with servers.barnabas(data_dir=data_dir) as server:
            filled = load.fill(server, frame, LOG_BYTES)
            assert server.process
            server.process.kill()
            server.process.wait()
        took = until_acknowledged(data_dir)
    per_gib = (took - empty) * 2**30 / filled.bytes
    notes = [f"{took:.2f} s from its start, {empty:.2f} s with an empty log"]
    return Row("recovery of a killed broker, for each GiB of log", "s", per_gib, better="less", notes=notes)


def _scaling() -> Iterator[Row]:
    """The same load on each broker's own partitions, all at once: one replica, one generator a broker."""
    cores = os.cpu_count() or 1
    for count in (1, 2, 4):
        name = f"{count} broker{'s' if count > 1 else ''}, one replica, 1 KB"
        if count == 4 and cores < CORES_OF_FOUR:
            yield Row(name, "MB/s", None, notes=[f"needs {CORES_OF_FOUR} cores, there are {cores}"])
            continue
        with clusters.barnabas(count) as cluster:
            for number in cluster.members:
                _create(cluster, f"of-{number}", [[number]] * 8)
            yield _all_at_once(f"{name}: produce", "MB/s", cluster, _produce)
            for number, member in cluster.members.items():
                for partition in range(8):
                    load.fill(member, frames.produce(f"of-{number}", partition, frames.batch(64, 1000)), READ_BYTES / 8)
            yield _all_at_once(f"{name}: consume", "MB/s", cluster, _consume)
            yield _all_at_once(f"{name}: small requests", "per s", cluster, _small)


def _produce(member: Server, topic: str) -> load.Load:
    return load.librdkafka_produce(member, topic, 1024, SECONDS, 8)


def _consume(member: Server, topic: str) -> load.Load:
    return load.consume(member, topic, 1_048_576, READ_BYTES, 8)


def _small(member: Server, topic: str) -> load.Load:
    return load.small_requests(member, topic, 16, 8, SECONDS)


def _all_at_once(name: str, unit: str, cluster: Cluster, drive: Callable[[Server, str], load.Load]) -> Row:
    with ThreadPoolExecutor(len(cluster.members)) as at_once:
        driven = [at_once.submit(drive, member, f"of-{number}") for number, member in cluster.members.items()]
        found = [one.result() for one in driven]
    figure = sum(one.mb_per_s if unit == "MB/s" else one.per_s for one in found)
    cpu_s = sum(one.server_cpu_s for one in found)
    if unit == "MB/s":
        cost = f"server CPU {cpu_s / (sum(one.bytes for one in found) / 1e9):.2f} s/GB"
    else:
        cost = f"server CPU {cpu_s / sum(one.count for one in found) * 1e6:.0f} µs each"
    busy = ", ".join(f"{one.server_share:.0%}" for one in found)
    return Row(name, unit, figure, notes=[f"{cost}; busy {busy}, generators {found[0].generator_share:.0%} each"])
