"""Every scenario of the cluster on three of our brokers, as processes, against what Apache Kafka's three said.

As `test_scenarios.py`, with the acts: what is stopped, killed and paused is so once for all scenarios on it. Here the
brokers' timeouts are shorter than where both makes are compared (`targets.SOON`).
"""

import pytest

import tests.conformance.cluster.scenarios
from tests.conformance.cluster.acts import ACTS, CLUSTER
from tests.conformance.cluster.play import play
from tests.conformance.cluster.targets import SOON, Barnabases
from tests.conformance.play import Outcome

assert tests.conformance.cluster.scenarios.__all__  # imported for the list it fills

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    of_module = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    names = [item.callspec.params["id_"] for item in of_module if hasattr(item, "callspec")]
    return play(Barnabases(tmp_path_factory.mktemp("cluster"), SOON), [CLUSTER[name] for name in names])


@pytest.mark.parametrize("id_", CLUSTER)
def test_three_answer_as_apache_kafkas_do(id_: str, outcomes: dict[str, Outcome]) -> None:
    scenario, outcome = CLUSTER[id_], outcomes[id_]
    expected = scenario.ours_expected
    wrong = [f"{name}: {outcome.facts.get(name)}; expected: {expected.get(name)}" for name in outcome.differs(expected)]
    assert not wrong, "\n  ".join([f"{id_}: {scenario.asks}", outcome.failure, *wrong])


def test_every_scenario_says_what_is_expected_and_every_act_is_played() -> None:
    assert [id_ for id_, each in CLUSTER.items() if not each.expected] == []
    assert {each.act for each in CLUSTER.values()} - {None} == set(ACTS)
