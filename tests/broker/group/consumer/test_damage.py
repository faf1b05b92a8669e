"""Records of `__consumer_offsets` that are not what they were: each is told, or taken; nothing breaks then or later."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

import pytest

from barnabas.broker.group.consumer.describing import describe_consumer
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.values import MemberRecord
from barnabas.broker.group.deleting import delete_group, forget_topics
from barnabas.broker.group.expiry import expire
from barnabas.broker.group.loading import Loader, activate
from barnabas.broker.group.looking import describe, snapshot
from barnabas.broker.group.offsets import delete
from barnabas.broker.group.records import decode, encode
from barnabas.broker.jobs import at_once
from barnabas.broker.log import Log
from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import read_header
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import Buffer, TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import BatchBuilder, decode_records
from barnabas.protocol.requests.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.requests.describe_groups import DescribeGroupsResponse
from tests.broker.group.consumer.world import ConsumerWorld

Pair = tuple[Buffer | None, Buffer | None]


def lived() -> list[Pair]:
    """What groups of all kinds write: static and dynamic members, a pattern, offsets, members of both protocols."""
    world = ConsumerWorld()
    world.classic_member(group="classic")
    first = world.classic(group="static", instance="i")
    world.until(first)
    a = first.response.member_id
    world.sync(a, 1, {a: b"\0\1\0\0\0\0\0\0\0\0"}, "static", "i")
    world.stable(2, group="other")
    world.commit({0: 5, 1: 6}, "simple", metadata="m")
    for number in range(2):
        world.comes(f"m{number}", group="modern", instance="j" if number else None, assignor="range")
    world.comes("m2", group="modern", pattern="t.*")
    world.settled("m0", "m1", "m2", group="modern")
    world.commit({0: 5}, "modern", "m0", world.member("m0", "modern").current.epoch)
    world.comes("n0", group="mixed")
    world.classic_member(group="mixed")
    return world.journal.records


def loaded(records: Sequence[Pair]) -> ConsumerWorld:
    """A shard that has read them."""
    world = ConsumerWorld()
    world.shard = world._new_shard()
    loader = Loader(world.shard, cast("Log", None))
    builder = BatchBuilder(1 << 20)
    for key, value in records:
        assert builder.try_append(world.wall_ms, key, value)
    batch = builder.build()
    loader._take(read_header(batch), list(decode_records(batch)))
    for _ in activate(world.shard, world.now_ms):
        pass
    return world


def live(world: ConsumerWorld) -> None:
    """What may happen to each group."""
    for name in list(world.shard.groups):
        _look(world, name)
        _ask(world, name)
        if name in world.shard.groups:
            _look(world, name)
    world.advance(60_000)
    for group in list(world.shard.groups.values()):
        world.leave(*group.members, group=group.group_id)
    world.advance(600_000)
    gone = [TopicPartition("t", 0)]
    world.topics.lose("t")
    for _ in forget_topics(world.shard, gone, world.now_ms):
        pass
    for _ in expire(world.shard, world.wall_ms, world.now_ms):
        pass
    for name in list(world.shard.groups):
        with suppress(KafkaError):
            delete(world.shard, name, gone, world.now_ms)
            for _ in delete_group(world.shard, name, world.now_ms):
                pass
    world.restart()


def _look(world: ConsumerWorld, name: str) -> None:
    group = world.shard.groups[name]
    snapshot(group)
    codec.encode_response(ApiKey.DESCRIBE_GROUPS, 6, 1, DescribeGroupsResponse(groups=[describe(world.shard, name, 6)]))
    if isinstance(group, ConsumerGroup):
        told = ConsumerGroupDescribeResponse(groups=[at_once(describe_consumer(world.shard, name)).group])
        codec.encode_response(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, 1, told)


def _ask(world: ConsumerWorld, name: str) -> None:
    for member_id in list(world.shard.groups[name].members):
        for epoch in (1, 2, 3):
            world.heartbeat(member_id, epoch, name)
            world.sync(member_id, epoch, {member_id: b"a"}, name)
            world.beat(member_id, epoch, group=name)
            with suppress(KafkaError):
                world.commit({0: 7}, name, member_id, epoch)
        world.classic(member_id, group=name)
    for instance in ("i", "j", None):
        world.classic(group=name, instance=instance)
        world.join(group=name, instance=instance)
    world.beat("new", group=name)
    with suppress(KafkaError):
        world.commit({0: 7}, name)


def damaged(data: bytes) -> Iterator[bytes]:
    """A byte that is another; an end that is missing."""
    for at in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            yield data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
        yield data[:at]


@pytest.mark.parametrize("part", range(2))
def test_a_record_that_is_not_what_it_was_breaks_nothing(part: int, caplog: pytest.LogCaptureFixture) -> None:
    """Some of all single changes here; all of them were tried once (7 minutes)."""
    records = lived()
    chance = random.Random(part)
    for at, (key, value) in enumerate(records):
        if at % 2 != part:
            continue
        key, value = bytes(key or b""), None if value is None else bytes(value)
        changed = [(one, value) for one in damaged(key)] + [(key, one) for one in damaged(value or b"")]
        for pair in [*chance.sample(changed, len(changed) // 60), (key, records[at - 1][1])]:
            live(loaded([*records[:at], pair, *records[at + 1 :]]))
    assert [
        one for one in caplog.records if one.levelname == "ERROR" and "is passed over" not in one.getMessage()
    ] == []


def test_members_that_asked_for_an_assignor_which_is_no_more_hold_nobody_up() -> None:
    """Each heartbeat that was to make a target ended in a defect, as it does in Apache Kafka."""
    records = lived()
    for key, value in list(records):
        record = decode(key, value)
        if isinstance(record, MemberRecord) and record.group_id == "modern" and record.subscription is not None:
            records.append(encode(record._replace(subscription=record.subscription._replace(assignor="strange"))))
    world = loaded(records)
    assert at_once(describe_consumer(world.shard, "modern")).group.assignor_name == "uniform"
    assert world.beat("new", group="modern").error_code == 0
    names = ("m0", "m1", "m2", "new")
    world.settled(*names, group="modern")
    assert sorted(number for one in names for number in world.has(one, "modern").get("t", [])) == [0, 1, 2, 3]


def test_classic_members_without_a_protocol_in_common_stay_in_a_group_that_needs_none() -> None:
    """The last member of the consumer protocol could not leave: no protocol could be elected for the others."""
    world = ConsumerWorld()
    world.comes("n0", group="mixed")
    for _ in range(2):
        world.classic_member(group="mixed")
    one = next(name for name, member in world.consumers("mixed").members.items() if member.classic is not None)
    said = world.member(one, "mixed").subscription
    assert said.classic is not None
    odd = said._replace(classic=said.classic._replace(protocols=(("strange", said.classic.protocols[0][1]),)))
    world = loaded([*world.journal.records, encode(MemberRecord("mixed", one, odd))])
    assert world.beat("n0", -1, group="mixed").error_code == 0
    assert "n0" not in world.consumers("mixed").members
    assert world.consumers("mixed").classics == 2
