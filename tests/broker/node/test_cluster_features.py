"""Two releases in one cluster: an upgrade in order, what a start leaves alone, and who is refused (see `features`)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.broker.cluster.features import ELIGIBLE, GROUPS, METADATA, SAFE_DOWNGRADE, SUPPORTED_FEATURES, UPGRADE
from barnabas.broker.cluster.judgement import DIRECTORY
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.api_versions import ApiVersionsRequest
from barnabas.protocol.requests.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.node.cluster import Cluster, Node
from tests.broker.node.controllers import Controllers

LEVEL = SUPPORTED_FEATURES[METADATA][1]
NEXT = {**SUPPORTED_FEATURES, METADATA: (7, LEVEL + 1), "next.version": (0, 1)}
"""What the release after this one knows."""


def update(cluster: Cluster, node_id: int, how: int = UPGRADE, *, dry: bool = False, **levels: int) -> tuple[int, str]:
    """What a client is answered who asks a broker for these levels."""
    updates = [FeatureUpdateKey(name.replace("_", "."), level, upgrade_type=how) for name, level in levels.items()]
    told = cluster.ask(node_id, UpdateFeaturesRequest(feature_updates=updates, validate_only=dry), 2)
    return told.error_code, told.error_message or ""


def seen(cluster: Cluster) -> list[Mapping[str, int]]:
    """The levels as each broker has them, once all have heard the same."""
    images = [one.core.image for one in cluster.nodes.values()]
    cluster.until(lambda: all(one.features == images[0].features for one in images))
    return [one.features for one in images]


def restart(cluster: Cluster, node_id: int) -> Node:
    """Stop a broker in good order and start it as the release that it is now, until it is back in sync."""
    cluster.stop(node_id)
    if isinstance(cluster, Controllers):
        cluster.until(lambda: cluster.active > 0)
    node = cluster.start(node_id)
    cluster.until(lambda: node.core.ready)
    there = node_id if node_id == 1 else 1
    cluster.until(lambda: sorted(cluster.state(node_id=there).isr) == [1, 2, 3])
    return node


@pytest.mark.parametrize("kind", [Cluster, Controllers])
def test_an_upgrade_in_order_brokers_first_and_then_the_level(kind: type[Cluster]) -> None:
    three = kind()
    three.create(replicas={0: [1, 2, 3]}, min_insync_replicas=2)
    levels = {ELIGIBLE: 1, GROUPS: 1, METADATA: LEVEL}
    for node_id in (1, 2, 3):
        code, told = update(three, 2, metadata_version=LEVEL + 1)
        assert code == ErrorCode.INVALID_UPDATE_VERSION
        assert told.endswith(f" only supports versions 7-{LEVEL}"), "somebody is of the release before"
        three.releases[node_id] = NEXT
        restart(three, node_id)
        assert three.put(b"%d" % node_id).error_code == 0, "both releases are in one cluster"
        assert seen(three) == [levels] * 3, "and no restart raises a level, nor begins a feature"
    assert update(three, 3, dry=True, metadata_version=LEVEL + 1) == (0, "")
    assert seen(three) == [levels] * 3
    code, told = update(three, 3, metadata_version=LEVEL + 1, group_version=2)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert "for feature group.version. Local controller" in told
    assert seen(three) == [levels] * 3, "all or nothing"
    assert update(three, 3, metadata_version=LEVEL + 1, next_version=1) == (0, "")
    three.until(lambda: all(one.core.image.features[METADATA] == LEVEL + 1 for one in three.nodes.values()))
    assert seen(three) == [{**levels, METADATA: LEVEL + 1, "next.version": 1}] * 3
    restart(three, 3)
    assert three.put(b"after").error_code == 0


@pytest.mark.parametrize("kind", [Cluster, Controllers])
def test_a_release_that_does_not_know_the_level_does_not_start_and_says_so(kind: type[Cluster]) -> None:
    three = kind()
    three.create(replicas={0: [1, 2, 3]}, min_insync_replicas=2)
    for node_id in (1, 2, 3):
        three.releases[node_id] = NEXT
        restart(three, node_id)
    assert update(three, 1, metadata_version=LEVEL + 1) == (0, "")
    three.until(lambda: all(one.core.image.features[METADATA] == LEVEL + 1 for one in three.nodes.values()))
    three.stop(3)
    del three.releases[3]
    late = three.start(3)
    three.until(lambda: late.core.fault is not None)
    assert "levels" in str(late.core.fault)
    assert "does not know" in str(late.core.fault)
    assert "\n" not in str(late.core.fault)
    assert three.put(b"x").error_code == 0, "the others go on"
    three.kill(3)
    three.releases[3] = NEXT
    three.start(3)
    three.until(lambda: sorted(three.state().isr) == [1, 2, 3])


def test_one_that_stands_for_its_own_controller_and_does_not_know_the_level_changes_nothing() -> None:
    three = Cluster(1)
    three.stop(1)
    three.releases[1] = NEXT
    one = three.start(1)
    three.until(lambda: one.core.ready)
    assert update(three, 1, metadata_version=LEVEL + 1) == (0, "")
    three.stop(1)
    log = f"{DIRECTORY}/{0:020d}.log"
    before = three.disks[1].load(log)
    del three.releases[1]
    back = three.start(1)
    three.until(lambda: back.core.fault is not None)
    assert f"metadata.version {LEVEL + 1}, known from 7 to {LEVEL}): a newer one wrote it" in str(back.core.fault)
    assert three.disks[1].load(log) == before


@pytest.mark.parametrize("kind", [Cluster, Controllers])
def test_a_broker_that_is_away_counts_until_it_is_unregistered(kind: type[Cluster]) -> None:
    three = kind()
    three.create(replicas={0: [1, 2, 3]}, min_insync_replicas=2)
    for node_id in (1, 2):
        three.releases[node_id] = NEXT
        restart(three, node_id)
    three.stop(3)
    if isinstance(three, Controllers):
        three.until(lambda: three.active > 0)
    code, told = update(three, 1, metadata_version=LEVEL + 1)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert told.endswith(f"Broker 3 only supports versions 7-{LEVEL}")


@pytest.mark.parametrize("kind", [Cluster, Controllers])
def test_a_feature_that_was_put_off_is_off_after_a_restart(kind: type[Cluster]) -> None:
    """So it is with Apache Kafka 4.3.0; its other scenarios would notice one of that."""
    three = kind()
    three.create(replicas={0: [1, 2, 3]}, min_insync_replicas=2)
    assert update(three, 2, SAFE_DOWNGRADE, eligible_leader_replicas_version=0) == (0, "")
    for node_id in (1, 2, 3):
        restart(three, node_id)
    assert seen(three) == [{GROUPS: 1, METADATA: LEVEL}] * 3


def test_groups_of_the_consumer_protocol_are_served_while_their_feature_is_on() -> None:
    three = Cluster()

    def beat(node_id: int) -> int:
        request = ConsumerGroupHeartbeatRequest("g", "A", rebalance_timeout_ms=5000, subscribed_topic_names=["t"])
        request.topic_partitions = []
        return int(three.ask(node_id, request, 1).error_code)

    def told(node_id: int) -> tuple[int, int]:
        answer = three.ask(node_id, ApiVersionsRequest("me", "1"), 4)
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        return levels.get(GROUPS, 0), answer.finalized_features_epoch

    before = told(2)
    assert before[0] == 1
    assert beat(2) != ErrorCode.UNSUPPORTED_VERSION
    assert update(three, 2, SAFE_DOWNGRADE, group_version=0) == (0, "")
    three.until(lambda: all(GROUPS not in one.core.image.features for one in three.nodes.values()))
    assert beat(2) == beat(1) == ErrorCode.UNSUPPORTED_VERSION
    described = three.ask(3, ConsumerGroupDescribeRequest(["g"]), 1)
    assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    level, epoch = told(2)
    assert level == 0
    assert epoch > before[1], "or clients would not believe it"
    assert update(three, 3, group_version=1) == (0, "")
    three.until(lambda: told(2)[0] == 1)
    assert beat(2) != ErrorCode.UNSUPPORTED_VERSION


def test_nobody_becomes_eligible_while_that_feature_is_off() -> None:
    three = Cluster()
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2)
    assert update(three, 2, SAFE_DOWNGRADE, eligible_leader_replicas_version=0) == (0, "")
    for node_id in (3, 2):
        three.paused.add(node_id)
        three.until(lambda node_id=node_id: three.nodes[1].core.image.brokers[node_id].fenced)  # type: ignore[misc]
    assert (three.state().isr, three.state().elr, three.leader()) == ((1,), (), 1)
    assert update(three, 1, eligible_leader_replicas_version=1) == (0, "")
    three.paused.clear()
    three.until(lambda: sorted(three.state().isr) == [1, 2, 3])
    three.paused |= {2, 3}
    three.until(lambda: three.state().isr == (1,))
    assert three.state().elr, "on again, who left has what was committed"
