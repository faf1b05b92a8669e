"""What patterns match is found and written in steps, however much it is."""

from __future__ import annotations

import pytest

from barnabas.broker.group.consumer.resolving import BATCH_MS
from barnabas.protocol.errors import ErrorCode
from tests.broker.group.consumer.world import ConsumerWorld

LONG = "t" * 240


@pytest.fixture
def world() -> ConsumerWorld:
    world = ConsumerWorld()
    for number in range(200):
        world.topics.have(f"{LONG}{number}", 1)
    return world


def test_what_many_patterns_match_is_written_in_several_batches(world: ConsumerWorld) -> None:
    """Each of 30 patterns matches 200 topics of long names: 1.4 MB, and a batch takes one."""
    for number in range(30):
        assert world.beat(f"m{number}", pattern=f"t+[0-9]*|x{number}").error_code == 0
    world.advance(BATCH_MS + 1)
    assert world.beat("m0", world.member("m0").current.epoch).error_code == 0
    group = world.consumers()
    assert len(group.patterns) == 30
    assert group.resolved.keys() == group.patterns.keys()
    assert {len(one.topics) for one in group.resolved.values()} == {201}
    assert group.epoch == 3, "what all of them match is one change"


def test_what_cannot_be_written_is_tried_again_after_a_while(
    world: ConsumerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Each heartbeat of each member looked through all topics, and failed."""
    world.beat("a", pattern="t.*")
    assert world.beat("a", 1).member_epoch == 2
    world.advance(BATCH_MS + 1)
    world.topics.have("t-new", 1)
    world.journal.fault = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert world.beat("a", 2).error_code == 0
    assert caplog.text.count("cannot be written yet") == 1
    world.journal.fault = None
    assert "t-new" not in world.consumers().names
    world.advance(BATCH_MS)
    world.beat("a", 2)
    assert "t-new" in world.consumers().names
