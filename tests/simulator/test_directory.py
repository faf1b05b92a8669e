"""A broker whose data directory fails as a whole ends by itself, others lead, and it comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.simulator.faults import ACTIVE, DIRECTORY, Fault
from barnabas.simulator.plan import SEVERAL, Plan, draw
from barnabas.simulator.run import play

ENDS = "ends of brokers whose directory failed"


def plan_of(*faults: Fault, brokers: int = SEVERAL, controllers: int = 1) -> Plan:
    return replace(draw("3", 8000, brokers, controllers), members=[], consumers=[], faults=list(faults))


@pytest.mark.parametrize("node", [1, 2])
def test_its_broker_ends_others_lead_and_nothing_acknowledged_is_lost(node: int) -> None:
    outcome = play(plan_of(Fault(4000, DIRECTORY, 3000, node=node)))
    assert outcome.broken is None
    assert outcome.reached[ENDS] == 1
    assert outcome.reached["elections"] > 0 or node == 1, "the controller's own directory leaves nobody to elect"


def test_where_it_was_the_active_controller_another_is_elected() -> None:
    outcome = play(plan_of(Fault(4000, DIRECTORY, 3000, node=ACTIVE), controllers=SEVERAL))
    assert outcome.broken is None
    assert outcome.reached[ENDS] == 1
    assert outcome.reached["controller elections"] == 2


def test_a_broker_that_stands_alone_ends_too_and_has_all_when_it_is_mended() -> None:
    outcome = play(plan_of(Fault(4000, DIRECTORY, 3000), brokers=1))
    assert outcome.broken is None
    assert outcome.reached[ENDS] == 1
