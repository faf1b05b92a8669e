"""Three brokers to which anything happens, in virtual time: what was acknowledged with acks=all is there in the end."""

from __future__ import annotations

import itertools
import random
from functools import partial

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.broker.node.cluster import Answer, Cluster

STEPS = 25


class Run:
    """One seed: what was acknowledged, and which brokers are down."""

    BROKERS: tuple[int, ...] = (1, 2, 3)
    KIND: type[Cluster] = Cluster

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = self.KIND(
            *self.BROKERS,
            replica_lag_time_max_ms=5000,
            leader_imbalance_check_interval_seconds=20 if seed % 4 < 2 else 300,
            metadata_log_max_record_bytes_between_snapshots=400 if seed % 2 else 20_000_000,
        )
        self.synced = seed % 3 == 1
        """Whether each record is synced, and machines lose their power."""
        self.one_loses = seed % 3 == 2
        """Whether nothing is synced, and a machine loses its power where all others have what it has."""
        interval = 1 if self.synced else 1_000_000
        self.cluster.create(replicas={0: [2, 3, 1], 1: [3, 1, 2]}, min_insync_replicas=2, flush_messages=interval)
        self.sent: list[tuple[int, bytes, Answer]] = []
        self.down: set[int] = set()

    def step(self) -> None:
        cluster, chance = self.cluster, self.random
        what = chance.choice(["produce"] * 6 + ["kill", "start", "start", "stop", "pause", "resume", "cut", "join"])
        one = chance.choice(self.BROKERS)
        if what == "produce":
            self.produce(chance.randrange(2))
        elif what == "kill" and one not in self.down:
            cluster.kill(one, power=self.synced or (self.one_loses and self.all_in_sync()))
            self.down.add(one)
            cluster.paused.discard(one)
        elif what == "stop" and one not in self.down and one not in cluster.paused and cluster[one].core.ready:
            cluster.stop(one)
            self.down.add(one)
        elif what == "start" and self.down:
            back = min(self.down)
            self.down.discard(back)
            cluster.start(back)
        elif what == "pause" and one not in self.down:
            cluster.paused.add(one)
        elif what == "resume":
            cluster.paused.clear()
        elif what == "cut":
            cluster.cut.add(frozenset(chance.choice(list(itertools.combinations(self.BROKERS, 2)))))
        elif what == "join":
            cluster.cut.clear()
        cluster.advance(chance.choice([0, 1, 100, 1000, 6000, 12_000]))

    def produce(self, partition: int) -> None:
        """To whoever thinks that he leads: one that was deposed, too."""
        for node_id, node in self.cluster.nodes.items():
            state = node.core.image.partition("t", partition)
            if node_id not in self.cluster.paused and node.core.ready and state and state.leader == node_id:
                value = b"%d" % len(self.sent)
                answer = self.cluster.produce(value, partition=partition, node_id=node_id, timeout_ms=20_000)
                self.sent.append((partition, value, answer))

    def heal(self) -> None:
        cluster = self.cluster
        cluster.paused.clear()
        cluster.cut.clear()
        for one in sorted(self.down):
            cluster.start(one)
        self.down.clear()

        cluster.until(lambda: self.all_in_sync() and all(node.core.ready for node in cluster.nodes.values()))
        for partition in (0, 1):
            cluster.until(partial(self.same_ends, partition))
            replicas = cluster.state(partition).replicas
            assert len({tuple(cluster[one].values(partition)) for one in replicas}) == 1

    def all_in_sync(self) -> bool:
        """Whether nobody is away, and all replicas have what was acknowledged, as the controller has it."""
        controller = self.cluster.nodes.get(1)
        if controller is None or not controller.core.ready or self.down or self.cluster.paused:
            return False
        states = controller.core.image.topics["t"].partitions.values()
        return all(
            sorted(state.isr) == sorted(state.replicas) and not state.moves and state.leader > 0 for state in states
        )

    def same_ends(self, partition: int) -> bool:
        replicas = self.cluster.state(partition).replicas
        if not all(self.has_log(one, partition) for one in replicas):
            return False
        return len({self.cluster[one].log(partition).log_end_offset for one in replicas}) == 1

    def has_log(self, node_id: int, partition: int) -> bool:
        return TopicPartition("t", partition) in self.cluster[node_id].core.logs.logs

    def check(self) -> None:
        """All that was acknowledged is there, and more is taken."""
        for partition, offset, value in self.acknowledged():
            leader = self.cluster[self.cluster.leader(partition)]
            logged = {at: data for at, _, data in leader.values(partition)}
            assert value in logged.get(offset, b""), f"{value!r} at {partition}-{offset} is lost"
        for number in (0, 1):
            assert self.cluster.put(b"afterwards", partition=number).error_code == 0

    def acknowledged(self) -> list[tuple[int, int, bytes]]:
        """Partition, offset and value of each record that was."""
        return [
            (partition, Cluster.part(answer).base_offset, value)
            for partition, value, answer in self.sent
            if answer.done and answer.response is not None and Cluster.part(answer).error_code == 0
        ]


@pytest.mark.parametrize("seed", range(20))
def test_what_was_acknowledged_is_there_whatever_happens(seed):
    run = Run(seed)
    assert [run.cluster.put(b"before", partition=number).error_code for number in (0, 1)] == [0, 0]
    for _ in range(STEPS):
        run.step()
    run.heal()
    run.check()
