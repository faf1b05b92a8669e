"""ISR changes through the core's own controller: proposed, written to the metadata log, published, answered."""

from __future__ import annotations

from tests.broker.replica.stage import Stage, codes
from tests.broker.replica.world import P


def isr(stage: Stage) -> tuple[int, ...]:
    state = stage.world.core.image.partition("t", 1)
    partition = stage.manager.partition(P(1))
    assert state is not None
    assert partition is not None
    assert partition.isr.committed == state.isr
    assert partition.isr.pending is None
    return state.isr


def count(stage: Stage, name: str) -> float:
    values = stage.world.core.registry.read("ReplicaManager", name)
    assert values is not None
    return values["count"]


def test_a_silent_follower_leaves_and_the_waiting_produce_completes_and_it_comes_back():
    stage = Stage([1], (1, 2, 3), own_controller=True)
    produced = stage.produce(P(1))
    stage.caught_up(2, P(1))
    stage.world.advance(20_000)
    stage.caught_up(2, P(1))
    assert isr(stage) == (1, 2, 3)
    stage.world.advance(25_000)
    assert isr(stage) == (1, 2)
    assert stage.high_watermark(P(1)) == 1
    assert codes(produced) == [7]  # its own time was up before
    assert count(stage, "IsrShrinksPerSec") == 1

    stage.caught_up(3, P(1))
    stage.world.settle()
    assert isr(stage) == (1, 2, 3)
    assert count(stage, "IsrExpandsPerSec") == 1
    state = stage.world.core.image.partition("t", 1)
    assert state is not None
    assert (state.leader_epoch, state.partition_epoch) == (0, 2)  # an ISR change raises the partition epoch alone
