"""A topic that lets a replica lead that was not in sync: what that may take, and that all else holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.simulator import run
from barnabas.simulator.checks.unclean import Unclean
from barnabas.simulator.faults import KILL
from barnabas.simulator.plan import LOOSE_HOMES, Plan, draw
from barnabas.simulator.run import play
from tests.durability.plants import Change
from tests.simulator.plant import Plant, planted

LOST = "acknowledged records lost to an unclean election"
UNCLEAN = "elections of an unclean leader"
GOES_ON = Plant(
    "A leader does not say that a follower's log is another.",
    (
        Change(
            "barnabas.broker.replica.fetch:_read",
            "if there.leader_epoch < epoch or there.end_offset < offset:",
            "if False:",
        ),
    ),
    "unclean",
    45,
)
SEARCHED = (45, 23, 31, 38, 49)


def its_story(plan: Plan) -> Plan:
    """Nothing but the two kills, and whom they hit."""
    gone, other = [one for one in plan.faults if one.kind == KILL and one.node in LOOSE_HOMES and not one.waits][:2]
    moved = [gone._replace(at_ms=10_000), other._replace(at_ms=10_000 + other.at_ms - gone.at_ms)]
    return replace(plan, duration_ms=25_000, members=[], consumers=[], moves=False, faults=moved)


def test_one_synced_cluster_in_eight_has_such_a_topic() -> None:
    plans = [draw(str(seed)) for seed in range(400)]
    assert len(plans) / 20 < sum(plan.unclean for plan in plans) < len(plans) / 8
    assert not any(plan.unclean and (plan.remakes or not plan.synced) for plan in plans)
    assert not any(draw(str(seed), brokers=1).unclean for seed in range(60))


def test_who_was_not_in_sync_leads_and_what_the_last_leader_had_alone_is_lost() -> None:
    plan = draw(str(SEARCHED[0]))
    assert plan.unclean
    outcome = play(its_story(plan))
    assert outcome.broken is None
    assert outcome.reached[UNCLEAN] == 1
    assert outcome.reached[LOST] > 0
    assert outcome.acknowledged > outcome.reached[LOST]


def test_a_log_that_is_not_cut_to_what_such_a_leader_has_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who look into brokers see it sooner; this one has what is read in the end, and the replicas' batches."""
    monkeypatch.setattr(run, "all_checks", lambda: [Unclean()])
    plans = [its_story(draw(str(seed))) for seed in SEARCHED]
    with planted(GOES_ON):
        found = (play(plan).broken or "" for plan in plans)
        assert any(one.startswith(GOES_ON.found_as) for one in found)
    assert play(plans[0]).broken is None, "the plant is gone, and so is what it broke"
