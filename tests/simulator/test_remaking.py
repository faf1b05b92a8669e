"""A topic that is deleted while it is written to, and made anew: nothing of it is in the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.simulator import run
from barnabas.simulator.checks.anew import Anew
from barnabas.simulator.plan import SEVERAL, draw
from barnabas.simulator.run import play
from tests.durability.plants import Change
from tests.simulator.plant import Plant, planted

KEEPS_THE_LOG = Plant(
    "A topic that is deleted leaves its log, and the next one of its name goes on with it.",
    (
        Change("barnabas.broker.log.manager:LogManager.delete", "if log is None:", "if True:"),
        Change(
            "barnabas.broker.log.manager:LogManager.create",
            "if log.topic_id not in (topic_id, ZERO_UUID):",
            "if False:",
        ),
    ),
    "anew",
    95,
)
SEARCHED = (95, 92, 11, 97, 16)
SHORT_MS = 10_000


def test_one_cluster_in_five_has_a_topic_that_is_made_anew() -> None:
    plans = [draw(str(seed)) for seed in range(300)]
    assert len(plans) / 10 < sum(plan.remakes for plan in plans) < len(plans) / 3
    assert not any(draw(str(seed), brokers=1).remakes for seed in range(60))


def test_a_topic_is_deleted_and_made_anew() -> None:
    plan = draw("39", 20_000, SEVERAL)
    outcome = play(replace(plan, members=[], consumers=[], moves=False, faults=[], remakes=True))
    assert outcome.broken is None
    assert outcome.reached["topics made anew"] > 0


def test_what_a_deleted_topic_leaves_to_the_next_is_found_by_its_records_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who look into brokers see it sooner; this one has what clients were told, and what is read."""
    monkeypatch.setattr(run, "all_checks", lambda: [Anew()])
    plans = [draw(str(seed), SHORT_MS, SEVERAL) for seed in SEARCHED]
    assert all(plan.remakes for plan in plans)
    with planted(KEEPS_THE_LOG):
        found = (play(plan).broken or "" for plan in plans)
        assert any(one.startswith(KEEPS_THE_LOG.found_as) for one in found)
    assert play(plans[0]).broken is None, "the plant is gone, and so is what it broke"
