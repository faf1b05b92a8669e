"""Faults that belong together: who has them, and what a flipped bit, a slow way and a late trigger come to."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.log.losses import Loss, Losses
from barnabas.broker.replica.damage import NOT_HERE
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.faults import FLIP, KILL, KINDS_OF_STORIES, STUCK_DISK, Fault
from barnabas.simulator.metadata_watch import MetadataWatch
from barnabas.simulator.network import Network
from barnabas.simulator.plan import SEVERAL, draw
from barnabas.simulator.run import play
from barnabas.simulator.watching import BrokerWatch
from barnabas.simulator.world import MS, World


def test_one_cluster_in_three_has_a_story_and_none_that_stands_alone() -> None:
    plans = [draw(str(seed), 10_000) for seed in range(300)]
    kinds = [{fault.kind for fault in plan.faults} & set(KINDS_OF_STORIES) for plan in plans]
    assert set().union(*kinds) == set(KINDS_OF_STORIES)
    assert len(plans) / 8 < sum(map(bool, kinds)) < len(plans) / 2
    assert any(fault.on_isr and fault.on_answer for plan in plans for fault in plan.faults)
    alone = [draw(str(seed), 10_000, 1) for seed in range(60)]
    assert not any(fault.kind in KINDS_OF_STORIES for plan in alone for fault in plan.faults)


@pytest.mark.parametrize("node", [1, 2])
def test_a_flipped_bit_costs_one_replica_and_its_start_says_so(node: int) -> None:
    faults = [Fault(4000, FLIP, 500, node=node)]
    outcome = play(replace(draw("3", 8000, SEVERAL), members=[], consumers=[], moves=False, faults=faults))
    assert outcome.broken is None
    assert outcome.reached["starts that found a loss"] == 1


def test_an_isr_falls_while_a_request_waits_for_its_batch_to_be_looked_through() -> None:
    """Few seeds come to error 20 by chance: some are drawn for it."""
    plans = [draw(str(seed), 10_000) for seed in range(200)]
    assert 10 < sum(plan.heavy for plan in plans) < 40
    assert not any(plan.heavy and (plan.synced or plan.controllers > 1) for plan in plans)
    plan = draw("8")
    own = [fault for fault in plan.faults if fault.kind in (STUCK_DISK, KILL) and fault.for_ms >= 5000]
    outcome = play(replace(plan, duration_ms=15_000, members=[], consumers=[], moves=False, faults=own))
    assert outcome.broken is None
    assert outcome.reached["error 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND"] > 0


def test_a_follower_whose_log_parts_from_its_leaders_is_counted() -> None:
    """The seed that finds a leader which does not say so (`divergence_untold`)."""
    outcome = play(draw("13", 10_000, SEVERAL, 1))
    assert outcome.broken is None
    assert outcome.reached["followers told where their logs part"] > 0
    assert outcome.reached["logs cut"] > 0


def test_a_slow_way_is_slow_one_way_until_it_is_healed() -> None:
    network = Network(World("1"))
    network.slow_ways["a", "b"] = 60_000 * MS
    assert min(network.delay_ns("a", "b") for _ in range(9)) >= 6000 * MS
    assert max(network.delay_ns("b", "a") for _ in range(9)) < 6000 * MS
    network.heal()
    assert max(network.delay_ns("a", "b") for _ in range(9)) < 6000 * MS


def test_only_what_was_cut_off_as_damaged_in_the_same_turn_may_take_the_high_watermark_back() -> None:
    """Seed 794: what is found damaged under a leader is remembered over a blackout, and cut when another leads."""
    losses, key = Losses(), TopicPartition("t", 1)
    core: Any = SimpleNamespace(logs=SimpleNamespace(losses=losses))
    watch = BrokerWatch(lambda event: None, MetadataWatch(World("1"), lambda event: None, lambda node_id: core))
    assert not watch._is_repaired(core, key)
    losses.report(Loss("t-0", 14, 59, 3919, "t-0", NOT_HERE.format(3)))
    losses.report(Loss("t-1", 14, 59, 3919, "t-1", "its end was torn"))
    assert not watch._is_repaired(core, key)
    losses.report(Loss("t-1", 14, 59, 3919, "t-1", NOT_HERE.format(3)))
    assert watch._is_repaired(core, key)
    watch._losses = losses.count
    assert not watch._is_repaired(core, key)
