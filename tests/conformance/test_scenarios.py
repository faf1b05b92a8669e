"""Every conformance scenario on our broker, a process of its own, against what Apache Kafka 4.3.0 was recorded to say.

One player runs them side by side on one broker (many do nothing but wait), but for those that want settings of their
own; each test then looks at its own outcome.
`./dev oracle` plays the same against a real Apache Kafka; `scenario.py` says how to add one.
"""

import pytest

import tests.conformance.scenarios
from tests.conformance.play import Outcome, play
from tests.conformance.scenario import ALL, Scenario
from tests.conformance.targets import Barnabas

assert tests.conformance.scenarios.__all__  # imported for the list it fills

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    ours = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    names = [item.callspec.params["id_"] for item in ours if hasattr(item, "callspec")]
    return play(Barnabas, tmp_path_factory.mktemp("conformance"), [ALL[name] for name in names])


def shown(scenario: Scenario, outcome: Outcome) -> str:
    lines = [f"{scenario.id}: {scenario.asks}", outcome.failure]
    expected = scenario.ours_expected
    lines += [
        f"  {name}: {outcome.facts.get(name)}; expected: {expected.get(name)}" for name in outcome.differs(expected)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("id_", ALL)
def test_answers_as_apache_kafka_does(id_: str, outcomes: dict[str, Outcome]) -> None:
    scenario, outcome = ALL[id_], outcomes[id_]
    assert not outcome.differs(scenario.ours_expected), shown(scenario, outcome)


def test_every_scenario_says_what_is_expected() -> None:
    """One whose facts are still to be recorded would be a check that cannot fail."""
    assert [id_ for id_, each in ALL.items() if not each.expected] == []
