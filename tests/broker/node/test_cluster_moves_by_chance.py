"""As `test_cluster_by_chance`, with a fourth broker, while partitions move, are sent elsewhere and called back."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.broker.node.test_cluster_by_chance import Run

STEPS = 30


class MovingRun(Run):
    """One seed. Each partition keeps two replicas or more, for two have to be in sync."""

    BROKERS = (1, 2, 3, 4)

    def step(self) -> None:
        if self.random.randrange(3) == 0:
            self.move(self.random.randrange(2))
        super().step()

    def move(self, partition: int) -> None:
        controller = self.cluster.nodes.get(1)
        if controller is None or not controller.core.ready or 1 in self.cluster.paused:
            return
        replicas = self.random.sample(self.BROKERS, self.random.choice([2, 3, 3]))
        asked = ReassignablePartition(partition, None if self.random.randrange(4) == 0 else replicas)
        topic = ReassignableTopic("t", [asked])
        self.cluster.send(1, AlterPartitionReassignmentsRequest(5000, [topic]), 1)

    def heal(self) -> None:
        super().heal()
        for partition in (0, 1):
            self.cluster.until(partial(self.hosted_where_it_is, partition))

    def hosted_where_it_is(self, partition: int) -> bool:
        """Whether nobody else has a log of it."""
        replicas = self.cluster.state(partition).replicas
        return all((one in replicas) == self.has_log(one, partition) for one in self.BROKERS)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_acknowledged_is_there_wherever_it_goes(seed):
    run = MovingRun(seed)
    assert [run.cluster.put(b"before", partition=number).error_code for number in (0, 1)] == [0, 0]
    for _ in range(STEPS):
        run.step()
        for node in run.cluster.nodes.values():
            for state in node.core.image.topics["t"].partitions.values() if "t" in node.core.image.topics else ():
                assert set(state.isr) <= set(state.replicas)
                assert set(state.adding) <= set(state.replicas)
    run.heal()
    run.check()


def test_a_run_moves_partitions_to_their_end():
    """A run in which nothing was moved would show nothing."""
    seen: set[tuple[tuple[int, ...], bool]] = set()
    for seed in range(4):
        run = MovingRun(seed)
        for _ in range(STEPS):
            run.step()
            controller = run.cluster.nodes.get(1)
            if controller is not None and "t" in controller.core.image.topics:
                topic = controller.core.image.topics["t"]
                seen.update((state.replicas, state.moves) for state in topic.partitions.values())
    assert len({replicas for replicas, moves in seen if not moves}) > 4
    assert any(moves for _, moves in seen)
