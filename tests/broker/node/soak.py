"""Four brokers in virtual time while partitions move, seeds without end: `./dev soak --only moves`.

As `test_cluster_moves_by_chance`, and beside kills, power failures, pauses and cuts also: disks that are full for some
calls, a broker that is drained, a minimum of replicas that rises and falls, and bits that flip under a leader.
"""

from __future__ import annotations

import itertools
import logging
import time
from functools import partial

from barnabas.protocol.batch import HEADER_SIZE, batches
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.node.test_cluster_moves_by_chance import MovingRun

STEPS = 40
TOPIC = 2
"""The kind of resource whose settings are changed."""


class HardRun(MovingRun):
    """One seed; `done` counts what came of it beside the blows of the others."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.done: set[str] = set()

    def step(self) -> None:
        getattr(self, self.random.choice(["full", "drain", "minimum", "flip", "nothing", "nothing"]))()
        super().step()

    def nothing(self) -> None:
        """The others' turn."""

    def full(self) -> None:
        """Some calls for room of one broker are refused."""
        one = self.random.choice(self.BROKERS)
        if one not in self.down:
            self.cluster[one].disk.faults.refuse(self.random.choice([1, 2, 3, 8]), self.random.choice([1, 2, 5]))
            self.done.add("full")

    def drain(self) -> None:
        """Whatever lies on one broker goes to others."""
        one, decides = self.random.choice(self.BROKERS), self.cluster.nodes.get(1)
        if decides is None or not decides.core.ready or 1 in self.cluster.paused:
            return
        states = decides.core.image.topics["t"].partitions
        others = [each for each in self.BROKERS if each != one]
        parts = [
            ReassignablePartition(number, self.random.sample(others, min(len(others), len(state.replicas))))
            for number, state in states.items()
            if one in state.replicas
        ]
        self.cluster.send(1, AlterPartitionReassignmentsRequest(5000, [ReassignableTopic("t", parts)]), 1)
        self.done.add("drain")

    def minimum(self) -> None:
        """What has to be in sync is all, or all but one; the last is in force in the end."""
        self._minimum(self.random.choice([2, 3]))

    def _minimum(self, count: int) -> None:
        decides = self.cluster.nodes.get(1)
        if decides is not None and decides.core.ready and 1 not in self.cluster.paused:
            config = AlterableConfig("min.insync.replicas", 0, str(count))
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [config])])
            self.cluster.send(1, request, 1)
            self.done.add("minimum")

    def flip(self) -> None:
        """A bit of a leader's turns, where all have what it has, and a consumer asks for that."""
        number = self.random.randrange(2)
        if not self.all_in_sync() or not self.same_ends(number):
            return
        leader = self.cluster.leader(number)
        node = self.cluster[leader]
        name = f"t-{number}/00000000000000000000.log"
        data = node.disk.load(name) if node.disk.exists(name) else b""
        if not data or node.log(number).high_watermark < node.log(number).log_end_offset:
            return
        position, size = self.random.choice(list(batches(data)))
        node.disk.flip(name, position + self.random.randrange(HEADER_SIZE, size), self.random.randrange(8))
        offset = int.from_bytes(data[position : position + 8], "big")
        part = FetchPartition(number, -1, offset, partition_max_bytes=1 << 20)
        answer = self.cluster.send(leader, FetchRequest(topics=[FetchTopic("t", ZERO_UUID, [part])]), 11)
        self.cluster.settle()
        assert answer.done
        told = answer.response.responses[0].partitions[0]
        assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR, f"what is damaged at {offset} is given to a consumer"
        self.done.add("flip")

    def heal(self) -> None:
        for disk in self.cluster.disks.values():
            disk.faults.refuse(1, 0)
        super().heal()
        self._minimum(2)
        self.cluster.until(partial(self.hosted_where_it_is, 0))


def play(seed: int) -> HardRun:
    """One seed to its end.

    Raises:
        AssertionError: a promise was broken.
    """
    run = HardRun(seed)
    assert [run.cluster.put(b"before", partition=number).error_code for number in (0, 1)] == [0, 0]
    for _ in range(STEPS):
        run.step()
    run.heal()
    run.check()
    return run


def soak(seconds: float, seed: str) -> int:
    """Play seeds for so long, from this one on; how many broke a promise."""
    logging.disable()
    deadline, broken, played = time.monotonic() + seconds, 0, 0
    for number in itertools.count(int(seed)):
        if time.monotonic() >= deadline:
            break
        played += 1
        try:
            play(number)
        except Exception as error:
            broken += 1
            print(f"moves: {number}: {error!r}\nrepeat it: ./dev soak --only moves --seed {number}\n", flush=True)
    print(f"moves: {played} seeds from {seed}, {broken} broke a promise", flush=True)
    return broken
