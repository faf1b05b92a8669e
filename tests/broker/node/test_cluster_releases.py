"""Brokers of two releases in one cluster: whoever is newer asks the older one in what that one serves (see `spoken`).

So far there is one release; the one before it is forged: its brokers serve earlier versions of what brokers ask of each
other, and the cluster fails where a request comes in another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from barnabas.protocol.api import SPOKEN, ApiKey
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest
from tests.broker.node.cluster import Cluster
from tests.broker.node.controllers import Controllers

OLD: Mapping[int, tuple[int, int]] = {
    ApiKey.FETCH: (4, 14),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.CREATE_TOPICS: (2, 5),
    ApiKey.VOTE: (0, 1),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 0),
    ApiKey.END_QUORUM_EPOCH: (0, 0),
    ApiKey.ALTER_PARTITION: (2, 2),
    ApiKey.UPDATE_FEATURES: (0, 0),
    ApiKey.FETCH_SNAPSHOT: (0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 2),
    ApiKey.BROKER_HEARTBEAT: (0, 0),
}
"""Before replica states, broker epochs of members, pre-votes, directory ids, features at level 0, previous epochs."""


def works(three: Cluster, name: str) -> None:
    """A change that a client asks of each broker, records on each leader, producer ids, all of it agreed on."""
    for node_id in (1, 2, 3):
        topic = f"{name}-{node_id}"
        told = three.ask(node_id, CreateTopicsRequest([CreatableTopic(topic, 3, 3)]), 7).topics[0]
        assert told.error_code == 0, (node_id, told.error_message)
        three.until(partial(heard, three, topic))
        assert three.ask(node_id, InitProducerIdRequest(None), 5).error_code == 0
        for partition in range(3):
            assert three.put(topic.encode(), topic=topic, partition=partition).error_code == 0
            three.until(partial(agreed, three, topic, partition))


def heard(three: Cluster, topic: str) -> bool:
    return all(topic in one.core.image.topics for one in three.nodes.values())


def agreed(three: Cluster, topic: str, partition: int) -> bool:
    return len(set(three.ends(partition, topic).values())) == 1


def start(three: Cluster, node_id: int) -> None:
    node = three.start(node_id)
    three.until(lambda: node.core.ready)
    there = 1 if node_id != 1 else 2
    three.until(lambda: sorted(three.state(node_id=there).isr) == [1, 2, 3])


def stop(three: Cluster, node_id: int) -> None:
    three.stop(node_id)
    if isinstance(three, Controllers):
        three.until(lambda: three.active > 0)


@pytest.mark.parametrize("order", [(2, 3, 1), (1, 2, 3)])
@pytest.mark.parametrize("kind", [Cluster, Controllers])
def test_a_rolling_upgrade_from_a_release_that_serves_earlier_versions(
    kind: type[Cluster], order: tuple[int, ...]
) -> None:
    three = kind(served=OLD, metadata_log_max_record_bytes_between_snapshots=2000)
    three.create(min_insync_replicas=2)
    works(three, "before")
    asked: set[int] = set()
    for node_id in order:
        stop(three, node_id)
        del three.served[node_id]
        three.spoken.clear()
        start(three, node_id)
        works(three, f"with-{node_id}")
        asked |= {key for one, to, key in three.spoken if one not in three.served and to in three.served}
    if order[0] != 1 and kind is Cluster:
        assert asked >= {
            ApiKey.FETCH,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.ALTER_PARTITION,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.CREATE_TOPICS,
        }, "the controller was the last to be upgraded"
    spoken = {(key, at) for (_, _, key), all_at in three.spoken.items() for at in all_at}
    assert (ApiKey.FETCH, SPOKEN[ApiKey.FETCH][1]) in spoken, "and among newer ones the newest versions are spoken"
    three.advance(1000)
    assert all(one.values() == three[1].values() for one in three.nodes.values())
    if isinstance(three, Controllers):
        three.check()


def test_a_newer_controller_among_older_ones_is_sent_their_snapshot_elected_and_followed() -> None:
    """Whoever is asked for a pre-vote and knows none is asked for its vote."""
    three = Controllers(served=OLD, metadata_log_max_record_bytes_between_snapshots=2000)
    newer = three.others()[0]
    three.kill(newer)
    del three.served[newer]
    for number in range(20):
        three.create(f"topic-{number}", factor=2, node_id=three.active)
    three.start(newer)
    three.until(lambda: three[newer].core.ready)
    for _ in range(8):
        if three.active == newer:
            break
        gone = three.active
        three.kill(gone)
        three.until(lambda: three.active > 0)
        three.start(gone)
        three.until(partial(getattr, three[gone].core, "ready"))
    assert three.active == newer
    three.create(factor=3, node_id=newer, min_insync_replicas=2)
    assert three.put(b"x").error_code == 0
    stop(three, newer)
    asked = {key for one, _, key in three.spoken if one == newer}
    assert asked >= {ApiKey.FETCH_SNAPSHOT, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH}
    three.check()
