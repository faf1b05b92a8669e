"""G86 and G87: groups under settings of the broker, and topics that one request names twice or that are not there."""

from typing import Any
from uuid import UUID

from tests.conformance.consumers import Consumer, described, listed
from tests.conformance.members import JOIN, Member, beats_until, join_body, leave, subscription
from tests.conformance.recordings import recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.joining import AGAIN, fresh
from tests.conformance.scenarios.offsets import by, commit, offsets, part
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.whole import answers
from tests.conformance.world import World, error

SECOND = {"generation_id_or_member_epoch": 1, "member_id": "a stranger"}


def _joins(member: Member, version: int = JOIN, member_id: str = "", **changed: Any) -> str:
    body = join_body(member.group, member_id, **changed)
    if version < 5:
        del body["group_instance_id"]
    return error(member.peer.call("join_group", version, body).body.error_code)


def _classic_sizes(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names).stable() as a, Member(world, group, "B", names) as b:
        b.send_join()
        beats_until(world, a, AGAIN)
        with Member(world, group, "C", names) as c:
            facts = {"a third asks for an id": _joins(c), "a third, v3": _joins(c, 3)}
            facts["a third, of an unknown id"] = _joins(c, member_id="nobody")
            facts["a third, static"] = _joins(c, group_instance_id="i")
        b.heard()
        facts["the first, joined too late"] = a.join()
        return facts


def _sizes(world: World) -> Facts:
    topic, group = world.topic(4), world.fresh()
    coordinator(world, group)
    with (
        Consumer(world, group, "A", topic) as a,
        Consumer(world, group, "B", topic) as b,
        Consumer(world, group, "C", topic) as c,
        Member(world, group, "X", {}) as classic,
    ):
        facts = {"A": a.join(), "B": b.join(), "C": c.join(), "C, static": c.join(instance_id="i")}
        facts["told"] = described(world, group, a, b, c)
        facts["a classic member"] = _joins(classic)
        facts["A leaves"] = a.leave()
        facts["C then"] = c.join()
    return facts


def _conversion(world: World) -> Facts:
    group, names = fresh(world)
    topic = world.topic(4)
    protocols = [("range", subscription(topic))]
    with Member(world, group, "A", names).stable(protocols=protocols) as a, Consumer(world, group, "K", topic) as k:
        facts = {"a consumer joins": k.join(), "the classic one": a.heartbeat()}
        leave(world, group, {"member_id": a.member_id})
        facts["the classic one has left"] = k.join()
        facts["a classic one joins"] = _joins(a)
        facts["a classic one joins, v3"] = _joins(a, 3)
        k.leave()
        facts["the consumer has left"] = _joins(a, 3)
        facts["the group"] = listed(world, group)
    return facts


def _retention(world: World) -> Facts:
    group, names = fresh(world)
    simple, topic, other = world.fresh(), world.topic(), world.topic()
    coordinator(world, simple)
    letters = {topic: "t", other: "u"}

    def briefly(of: str, name: str, **who: Any) -> str:
        topics = [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        body = {"group_id": of, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **who}
        told = world.call("offset_commit", 2, {"retention_time": 1000, **body}).body
        return error(told.topics[0].partitions[0].error_code)

    with Member(world, group, "A", names).stable(protocols=[("range", subscription(topic))]) as a:
        mine = {"generation_id_or_member_epoch": a.generation, "member_id": a.member_id}
        commit(world, simple, [(other, [part()])])
        facts = {"by nobody": briefly(simple, topic), "of what it consumes": briefly(group, topic, **mine)}
        facts["of another topic"] = briefly(group, other, **mine)
        world.wait(lambda: "u-0" not in offsets(world, group, None, letters), "the offset of the other topic to go")
        facts["of what it consumes, later"] = offsets(world, group, None, letters)
        world.wait(lambda: "t-0" not in offsets(world, simple, None, letters), "the offset to go")
        facts["by nobody, later"] = offsets(world, simple, None, letters)
        briefly(simple, other)
        world.wait(lambda: listed(world, simple) == "none", "the group without offsets to go")
        facts["the group without any"] = listed(world, simple)
    return facts


@scenario(
    "G86",
    "groups of 2 members at most, no conversion, metadata of 10 characters, range first, offsets kept for a second",
    recorded("G86"),
    settings={
        "group.consumer.assignors": "range,uniform",
        "group.consumer.max.size": "2",
        "group.consumer.migration.policy": "disabled",
        "group.initial.rebalance.delay.ms": "0",
        "group.max.size": "2",
        "offset.metadata.max.bytes": "10",
        "offsets.retention.check.interval.ms": "500",
    },
)
def g86(world: World) -> Facts:
    """Offsets that OffsetCommit v2 to v4 gives a time of their own are all that goes within a scenario's patience."""
    group, names = fresh(world)
    facts: Facts = {}
    for name, found in {
        "classic": _classic_sizes(world),
        "consumers": _sizes(world),
        "no conversion": _conversion(world),
        "retention": _retention(world),
    }.items():
        facts |= {f"{name}: {each}": text for each, text in found.items()}
    with Member(world, group, "A", names).stable() as a:
        for text in ("m" * 10, "m" * 11, "\u00e4" * 10):
            facts[f"metadata of {len(text.encode())} bytes"] = commit(
                world, group, [(world.topic(), [part(0, 5, text)])], by(a)
            )
    return facts


@scenario(
    "G87",
    "OffsetCommit and OffsetDelete: topics named twice, not there, without partitions: the order of the whole answer",
    recorded("G87"),
)
def g87(world: World) -> Facts:
    group, _ = fresh(world)
    topic, other = world.topic(2), world.topic(2)
    ids = {topic: world.metadata(topic).topic_id, other: world.metadata(other).topic_id, "absent": UUID(int=7)}
    asked: dict[str, list[tuple[str, list[int]]]] = {
        "a topic twice": [(topic, [0]), (topic, [1])],
        "around an unknown one": [(topic, [0]), ("absent", [0]), (topic, [1])],
        "the second partition is not there": [(topic, [0, 9])],
        "nor is the second topic's": [(topic, [0]), (other, [0]), (topic, [9])],
        "an unknown topic twice": [("absent", [0]), (other, [0]), ("absent", [1])],
        "no partitions of an unknown one": [("absent", []), (topic, [0])],
        "no partitions of a known one": [(topic, []), ("absent", [0])],
        "no partitions at all": [(topic, []), (topic, [])],
        "a partition three times": [(topic, [0, 0]), (topic, [0])],
    }

    def committing(name: str, by_id: bool, who: dict[str, Any]) -> dict[str, Any]:
        topics = [
            {**({"topic_id": ids[each]} if by_id else {"name": each}), "partitions": [part(index) for index in parts]}
            for each, parts in asked[name]
        ]
        return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **who}

    def deleting(name: str) -> dict[str, Any]:
        topics = [
            {"name": each, "partitions": [{"partition_index": index} for index in parts]} for each, parts in asked[name]
        ]
        return {"group_id": group, "topics": topics}

    letters = {topic: "T", other: "U"}
    facts: Facts = {}
    for name in asked:
        for version in (9, 10):
            bodies = {f"{name}, v{version}": committing(name, version == 10, {})}
            bodies[f"{name}, v{version}, refused"] = committing(name, version == 10, SECOND)
            facts |= answers(world, "offset_commit", (version,), bodies, letters)
        facts |= answers(world, "offset_delete", (0,), {f"{name}, OffsetDelete": deleting(name)}, letters)
    return facts
