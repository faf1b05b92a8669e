"""Topics that an answer lacks for a moment, that are deleted, and that are made anew under their name."""

from __future__ import annotations

import pytest

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.core import ConsumerCore
from barnabas.client.consume.group.subscription import Subscription
from barnabas.client.errors import NoPosition
from barnabas.protocol.ids import EARLIEST_TIMESTAMP
from barnabas.protocol.requests.fetch import FetchRequest, LeaderIdAndEpoch
from barnabas.protocol.requests.list_offsets import ListOffsetsRequest
from barnabas.protocol.requests.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.consume.test_fetcher import ID, P0, P1, World, answer, asked, batch, data, offsets_answer

NEW_ID = b"n" * 16


class Subscribed(World):
    """A consumer of the topic by its name."""

    def __init__(self, policy: str = "earliest") -> None:
        super().__init__()
        config = ConsumerConfig.of({"bootstrap.servers": "h:1", "auto.offset.reset": policy})
        self.core = ConsumerCore(config, self.wire, lambda: 0.5, lambda: None)  # type: ignore[arg-type]
        self.fetcher = self.core.fetcher
        self.core.subscribe(Subscription(("t",)))
        self.core.assign_topics()

    def told(self, *, topic_id: bytes = ID, partitions: int = 2, error: int = 0, epoch: int = 0) -> None:
        """The cluster tells of the topic, or what is wrong with it."""
        brokers = [MetadataResponseBroker(node, "h", node) for node in (1, 2)]
        parts = [MetadataResponsePartition(0, index, 1, epoch) for index in range(0 if error else partitions)]
        response = MetadataResponse(0, brokers, "c", 1, [MetadataResponseTopic(error, "t", topic_id, False, parts)])
        self.metadata.request_update()
        _, wish, partial = self.metadata.next_request(0)
        self.metadata.update(wish, response, partial, 0)
        self.core.assign_topics()

    def read_to(self, offset: int) -> None:
        """Both partitions are read from 0 up to an offset."""
        self.at(0, 0).answer(answer(data(0, batch(0, offset)), data(1, batch(0, offset))))
        while self.core.fetcher.has_something:
            self.core.records_now(500)


@pytest.mark.parametrize("error", [3, 5, -1])
def test_a_topic_that_an_answer_lacks_keeps_its_positions(error: int) -> None:
    world = Subscribed("latest")
    world.read_to(7)
    world.told(error=error)
    assert world.core.assignment() == [P0, P1]
    world.told()
    assert [world.core.position(where) for where in (P0, P1)] == [7, 7]
    assert asked(world.drive()[0]) == {0: 7, 1: 7}


@pytest.mark.parametrize("seen_to_go", [False, True])
def test_a_topic_made_anew_begins_by_the_reset_policy(seen_to_go: bool, caplog: pytest.LogCaptureFixture) -> None:
    world = Subscribed("earliest")
    world.read_to(7)
    if seen_to_go:
        world.told(error=3)
        world.drive()
    world.told(topic_id=NEW_ID)
    (sent,) = world.drive()
    assert isinstance(sent.request, ListOffsetsRequest)
    assert {each.timestamp for each in sent.request.topics[0].partitions} == {EARLIEST_TIMESTAMP}
    sent.answer(offsets_answer((0, 0), (1, 0)))
    assert asked(world.drive()[0]) == {0: 0, 1: 0}
    assert "t-0: the topic was deleted and made anew, offset 7 is gone" in caplog.text


def test_what_was_fetched_of_the_old_topic_is_handed_out_first() -> None:
    world = Subscribed()
    world.read_to(7)
    world.at(7, 7).answer(answer(data(0, batch(7, 2)), data(1)))
    world.told(topic_id=NEW_ID, partitions=1)
    world.drive()
    assert [record.offset for record in world.core.records_now()] == [7, 8]
    assert isinstance(world.drive()[0].request, ListOffsetsRequest)


def test_without_a_policy_a_topic_made_anew_is_told() -> None:
    world = Subscribed("none")
    world.read_to(7)
    world.told(topic_id=NEW_ID)
    assert world.drive() == []
    with pytest.raises(NoPosition):
        world.core.records_now()


def test_a_seek_goes_to_the_topic_there_is() -> None:
    world = Subscribed()
    world.read_to(7)
    world.core.seek(P0, 3)
    world.core.seek(P1, 4)
    world.told(topic_id=NEW_ID)
    (sent,) = world.drive()
    assert isinstance(sent.request, FetchRequest)
    assert asked(sent) == {0: 3, 1: 4}


def test_a_leader_told_of_the_old_topic_is_none_of_the_new_one() -> None:
    world = Subscribed()
    sent = world.at(0, 0)
    world.told(topic_id=NEW_ID)
    sent.answer(answer(data(0, error=6, current_leader=LeaderIdAndEpoch(2, 9)), data(1)))
    info = world.metadata.cluster.partition("t", 0)
    assert info is not None
    assert (info.leader, info.leader_epoch) == (1, 0)


def test_a_new_topics_leaders_count_from_their_own_first_epoch() -> None:
    """What was read under an old topic's high epoch must not hide that a leader of the new one changed."""
    world = Subscribed()
    world.told(epoch=8)
    world.read_to(7)
    world.told(topic_id=NEW_ID, epoch=0)
    world.drive()[0].answer(offsets_answer((0, 0), (1, 0)))
    world.drive()
    assert world.fetcher.position_of(P0).leader_epoch == 0
