"""Partitions that are moved between brokers, to and fro: nothing is lost, and in the end all brokers have all."""

from __future__ import annotations

from dataclasses import replace

from barnabas.simulator.plan import draw
from barnabas.simulator.run import play


def test_one_cluster_in_four_has_somebody_who_moves_partitions() -> None:
    plans = [draw(str(seed)) for seed in range(300)]
    assert len(plans) / 8 < sum(plan.moves for plan in plans) < len(plans) / 2
    assert not any(draw(str(seed), brokers=1).moves for seed in range(60))


def test_partitions_are_moved_and_come_back() -> None:
    plan = draw("22", 8000, 3)
    assert plan.moves
    outcome = play(replace(plan, members=[], consumers=[], faults=[]))
    assert outcome.broken is None
    assert outcome.reached["moves begun"] > 0
    assert outcome.reached["moves back"] >= plan.partitions
    assert outcome.reached["replicas deleted"] > 0
