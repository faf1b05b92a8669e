"""A group goes from one protocol to the other and back, with its offsets, while its members go on."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas.broker.group.consumer import downgrading, preparing, upgrading
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group
from barnabas.broker.group.membership import size_of_member
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.kafka.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from tests.broker.group.consumer.world import ConsumerWorld
from tests.broker.group.world import durable


@pytest.fixture(params=["at once", "as a job"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ConsumerWorld:
    if request.param == "as a job":
        monkeypatch.setattr(upgrading, "MEMBERS_AT_ONCE", 0)
        monkeypatch.setattr(downgrading, "MEMBERS_AT_ONCE", 0)
    return ConsumerWorld(group_initial_rebalance_delay_ms=0)


def alone(world: ConsumerWorld, user_data: bytes | None = None, **options: Any) -> str:
    """A stable classic group of one member that has everything."""
    member_id = world.classic_member(**options)
    everything = encode_assignment(ConsumerProtocolAssignment([TopicPartition("t", [0, 1, 2, 3])], user_data))
    told = world.sync(member_id, world.group.generation, {member_id: everything}, instance=options.get("instance"))
    assert told.error == 0
    return member_id


def test_an_empty_group_becomes_one_of_the_other_protocol_and_keeps_its_offsets(world: ConsumerWorld) -> None:
    world.commit({0: 7})
    world.comes("a")
    assert {key.partition: one.offset for key, one in world.consumers().offsets.items()} == {0: 7}
    world.beat("a", -1)
    classic = world.classic_member()
    assert isinstance(world.shard.groups["g"], Group)
    assert {key.partition: one.offset for key, one in world.group.offsets.items()} == {0: 7}
    world.leave(classic)
    assert world.comes("b") == {"t": [0, 1, 2, 3]}
    assert {key.partition: one.offset for key, one in world.consumers().offsets.items()} == {0: 7}


def test_a_classic_member_stays_when_one_of_the_consumer_protocol_comes(world: ConsumerWorld) -> None:
    old = alone(world)
    world.commit({0: 7}, member_id=old, generation=1)
    new = world.beat("new")
    assert (new.error_code, new.member_epoch, world.given(new)) == (0, 2, {})
    group = world.consumers()
    assert (group.classics, len(group.members), len(group.offsets)) == (1, 2, 1)
    assert world.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    told = world.classic(old, {"t": [0, 1, 2, 3]}).response
    assert (told.error_code, told.generation_id, told.leader, told.members) == (0, 1, "", [])
    kept = world.synced(old, 1)
    assert len(kept["t"]) == 2
    assert world.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS, "it is to say that it has let go"
    told = world.classic(old, kept).response
    assert told.generation_id == 2
    assert world.synced(old, 2) == kept
    assert world.heartbeat(old, 2) == 0
    given = world.given(world.beat("new", 2))
    assert given is not None
    assert sorted(given["t"] + kept["t"]) == [0, 1, 2, 3]
    assert group.state.value == "Stable"


def test_who_waits_to_join_when_the_group_is_converted_is_told_to_join_again(world: ConsumerWorld) -> None:
    old = alone(world)
    second = world.classic(world.classic().response.member_id)
    assert second.waits
    assert world.beat("new").error_code == 0
    assert second.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_heartbeats_in_the_consumer_protocol_is_classic_no_longer(world: ConsumerWorld) -> None:
    """It said nothing else that was new, and stayed a classic one: it was to join again, and put out as it did not."""
    old = alone(world)
    world.beat("new")
    assert world.consumers().classics == 1
    assert world.beat(old, world.member(old).current.epoch).error_code == 0
    assert (world.consumers().classics, world.member(old).classic) == (0, None)
    world.restart()
    assert (world.consumers().classics, world.member(old).classic) == (0, None)


def test_when_the_last_of_the_consumer_protocol_goes_the_group_is_classic_again(world: ConsumerWorld) -> None:
    old = alone(world)
    world.commit({0: 7}, member_id=old, generation=1)
    world.beat("new")
    world.classic(old, {"t": [0, 1, 2, 3]})
    world.classic(old, world.synced(old, 1))
    assert world.beat("new", -1).error_code == 0
    group = world.group
    assert (group.state.value, group.generation, list(group.members)) == ("PreparingRebalance", 2, [old])
    assert len(group.offsets) == 1
    assert world.heartbeat(old, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    told = world.classic(old)
    assert (told.error, told.response.generation_id, told.response.leader) == (0, 3, old)


def test_a_silent_member_of_the_consumer_protocol_leaves_a_classic_group(world: ConsumerWorld) -> None:
    old = alone(world, session_ms=60_000)
    world.beat("new")
    world.advance(45_000)
    assert isinstance(world.shard.groups["g"], Group)
    assert list(world.group.members) == [old]


def test_classic_members_alone_are_out_when_they_do_not_join_or_sync(world: ConsumerWorld) -> None:
    old = alone(world, session_ms=300_000, rebalance_ms=20_000)
    world.beat("new")
    assert world.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(10_000)
    assert world.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(10_000)
    assert list(world.consumers().members) == ["new"], "told to join, it has its rebalance timeout from the first time"
    late = world.classic_member(session_ms=300_000, rebalance_ms=20_000)
    world.beat("new", 2)
    world.advance(20_000)
    assert late not in world.consumers().members, "joined, it never asked for its assignment"


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_that_is_not_to_be_upgraded_stays(policy: str) -> None:
    world = ConsumerWorld(group_consumer_migration_policy=policy, group_initial_rebalance_delay_ms=0)
    old = alone(world)
    told = world.beat("new")
    assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert told.error_message == (
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    )
    assert world.heartbeat(old, 1) == 0


@pytest.mark.parametrize("policy", ["disabled", "Upgrade"])
def test_a_group_that_is_not_to_be_downgraded_stays(policy: str) -> None:
    world = ConsumerWorld(group_initial_rebalance_delay_ms=0)
    alone(world)
    world.beat("new")
    world.config.group_consumer_migration_policy = policy
    world.beat("new", -1)
    assert isinstance(world.shard.groups["g"], ConsumerGroup)


def test_a_group_is_not_converted_to_a_kind_that_may_not_have_so_many() -> None:
    world = ConsumerWorld()
    subscribed = encode_subscription(ConsumerProtocolSubscription(["t"]))
    world.stable(2, protocols=(("range", subscribed),), protocol_type="consumer")
    world.config.group_consumer_max_size = 1
    told = world.beat("new")
    assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "the group size exceeds the consumer group maximum size" in str(told.error_message)


def test_nor_back_to_one_of_fewer() -> None:
    world = ConsumerWorld(group_initial_rebalance_delay_ms=0)
    alone(world)
    world.beat("new")
    world.config.group_max_size = 0
    world.beat("new", -1)
    assert isinstance(world.shard.groups["g"], ConsumerGroup)


def test_what_a_custom_assignor_knows_is_not_thrown_away(world: ConsumerWorld) -> None:
    alone(world, b"mine")
    told = world.beat("new")
    assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in str(told.error_message)


def test_a_group_of_another_protocol_type_is_not_upgraded(world: ConsumerWorld) -> None:
    world.stable(1)
    told = world.beat("new")
    assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "does not use the consumer embedded protocol" in str(told.error_message)


def test_metadata_that_cannot_be_read_refuses_the_newcomer_and_leaves_the_group(world: ConsumerWorld) -> None:
    ids, generation = world.stable(1, protocols=(("range", b"\0\0\xff"),), protocol_type="consumer")
    told = world.beat("new")
    assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "malformed" in str(told.error_message)
    assert world.heartbeat(ids[0], generation) == 0


def test_an_append_that_fails_leaves_the_classic_group(world: ConsumerWorld) -> None:
    old = alone(world)
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.beat("new").error_code == ErrorCode.NOT_COORDINATOR
    world.journal.fault = None
    assert world.heartbeat(old, 1) == 0


def test_a_static_member_goes_over_and_back_under_its_instance_id(world: ConsumerWorld) -> None:
    """The only member: what it has stays its own all the way."""
    old = alone(world, instance="i")
    assert world.comes("new", instance="i") == {"t": [0, 1, 2, 3]}
    assert list(world.consumers().members) == ["new"]
    told = world.classic(instance="i").response
    assert told.error_code == 0
    assert isinstance(world.shard.groups["g"], Group)
    assert world.synced(told.member_id, told.generation_id, instance="i") == {"t": [0, 1, 2, 3]}
    assert world.heartbeat(old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID


def test_a_classic_member_of_another_assignor_does_not_come_in(world: ConsumerWorld) -> None:
    alone(world)
    world.beat("new")
    assert world.classic(names=("roundrobin",)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="test").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_each_is_asked_in_its_own_protocol(world: ConsumerWorld) -> None:
    old = alone(world)
    world.beat("new")
    assert world.heartbeat("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("new", 2).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(old, 7) == ErrorCode.ILLEGAL_GENERATION
    assert world.leave(old, "nobody") == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.leave("new") == [0], "LeaveGroup takes out members of either protocol"
    assert world.consumers().is_empty


def test_a_classic_member_is_told_of_an_old_generation_in_its_own_words(world: ConsumerWorld) -> None:
    old = alone(world)
    world.comes("new")
    for generation in (0, 7):
        with pytest.raises(KafkaError) as fault:
            world.commit({0: 7}, member_id=old, generation=generation, version=8)
        assert fault.value.code == ErrorCode.ILLEGAL_GENERATION


def test_a_converted_group_is_the_same_after_a_restart(world: ConsumerWorld) -> None:
    old = alone(world)
    world.commit({0: 7}, member_id=old, generation=1)
    world.beat("new")
    world.restart()
    assert sorted(world.consumers().members) == sorted([old, "new"])
    assert len(world.consumers().offsets) == 1
    assert world.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.beat("new", -1)
    world.restart()
    assert list(world.group.members) == [old]
    assert len(world.group.offsets) == 1


def subscription(names: list[bytes]) -> bytes:
    said = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", 0, len(names)) + said + struct.pack(">i", -1)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("SAID_MAX", "its members name 3 topics, 2 are looked at"),
        ("bytes", "its members take 52 bytes, and a batch 50"),
    ],
)
def test_a_group_that_says_too_much_is_refused_before_it_is_read(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch, limit: str, words: str
) -> None:
    """Ten megabytes of names were read with every heartbeat of a stranger, and refused by the log: a second each."""
    metadata = subscription([b"t", b"u", b"v"])
    member_id, told = world.join_twice(protocols=(("range", metadata),), protocol_type="consumer")
    world.until(told)
    everything = encode_assignment(ConsumerProtocolAssignment([TopicPartition("t", [0, 1, 2, 3])], None))
    assert world.sync(member_id, 1, {member_id: everything}).error == 0
    if limit == "bytes":
        monkeypatch.setattr(world.journal, "batch_bytes_max", 50)
    else:
        monkeypatch.setattr(upgrading, "SAID_MAX", 2)
    monkeypatch.setattr(preparing, "wants_of", None)
    refused = world.beat("new")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == f"Cannot upgrade classic group g to consumer group because {words}."
    assert world.heartbeat(member_id, 1) == 0


def test_who_has_no_place_has_nothing_converted_for_it(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """All members of a full group were read with every heartbeat of a stranger, and it was refused then: 50 ms each."""
    old = alone(world)
    world.config.group_consumer_max_size = 1
    monkeypatch.setattr(preparing, "wants_of", None)
    refused = world.beat("new")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert world.heartbeat(old, 1) == 0


def test_a_group_that_no_batch_can_hold_stays_and_its_last_member_goes(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was encoded whole and refused by the log, every 500 ms, and the member was never out."""
    old = alone(world, session_ms=300_000, rebalance_ms=300_000)
    world.beat("new")
    monkeypatch.setattr(world.journal, "batch_bytes_max", 300)
    world.advance(45_000)
    assert list(world.consumers().members) == [old]
    world.journal.batch_bytes_max = 3000
    world.comes("newer")
    assert world.beat("newer", -1).error_code == 0
    assert list(world.group.members) == [old]


def test_members_of_a_group_that_came_back_are_weighed_with_their_assignments(world: ConsumerWorld) -> None:
    old = alone(world, session_ms=300_000)
    world.beat("new")
    world.beat("new", -1)
    waits = world.classic(old, session_ms=300_000)
    world.until(waits)
    assert world.sync(old, waits.response.generation_id, {old: bytes(99)}).error == 0
    (member,) = world.group.members.values()
    assert member.assignment == bytes(99)
    assert world.group.held == member.size == size_of_member(member)


def test_a_group_is_the_same_whichever_way_it_came_back(world: ConsumerWorld) -> None:
    """Taken over whole, and read from the log."""
    old = alone(world, session_ms=300_000)
    world.commit({0: 7}, member_id=old, generation=1)
    world.beat("new")
    world.beat("new", -1)
    live, held = world.group, world.shard.shared.holdings.by_address
    assert (live.held, held) == (live.members[old].size, {"10.0.0.1": sum(held.values())})
    waits = world.classic(old, session_ms=300_000)
    world.until(waits)
    assert waits.response.generation_id == 3
    before = durable(world.shard)["g"]
    world.restart()
    after, offsets = durable(world.shard)["g"]
    assert offsets == before[1]
    assert after.generation == 2, "what is not in the log begins anew"
    assert [one.member_id for one in after.members] == [old]
