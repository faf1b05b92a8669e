"""K13 to K18, K37, K38: what else is asked of groups: offsets, lists, descriptions, deleting; sessions that end."""

import time
from typing import Any

from tests.conformance.consumers import Consumer, described, listed, settle
from tests.conformance.members import Member
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.consumer_groups import fresh
from tests.conformance.scenarios.group_settings import BEAT, SESSION, alter, told
from tests.conformance.world import EARLY_MS_MAX, World, error, pause

NO_EPOCH = -1


def commit(world: World, group: str, topic: str, version: int = 9, partition: int = 0, **who: Any) -> str:
    """OffsetCommit of offset 7 of one partition."""
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": NO_EPOCH,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [{"partition_index": partition, "committed_offset": 7}]}],
        **who,
    }
    return error(world.call("offset_commit", version, body).body.topics[0].partitions[0].error_code)


def fetch(world: World, group: str, topic: str, member_id: str | None = None, epoch: int = NO_EPOCH) -> str:
    """OffsetFetch v9 of partition 0."""
    asked = {"group_id": group, "member_id": member_id, "member_epoch": epoch}
    topics = [{"name": topic, "partition_indexes": [0]}]
    told = world.call("offset_fetch", 9, {"groups": [{**asked, "topics": topics}]}).body.groups[0]
    offsets = [each.committed_offset for topic in told.topics for each in topic.partitions]
    return f"{error(told.error_code)} {' '.join(map(str, offsets))}".strip()


@scenario(
    "K13",
    "commits and fetches of offsets: by a member, of older and later epochs, by nobody; then it has left",
    {
        "member: v9": "NONE",
        "member: v8": "UNSUPPORTED_VERSION(35)",
        "member: fetch": "NONE 7",
        "older: v9": "NONE",
        "older: v8": "UNSUPPORTED_VERSION(35)",
        "older: fetch": "STALE_MEMBER_EPOCH(113)",
        "later: v9": "STALE_MEMBER_EPOCH(113)",
        "later: v8": "UNSUPPORTED_VERSION(35)",
        "later: fetch": "STALE_MEMBER_EPOCH(113)",
        "epoch 0: v9": "STALE_MEMBER_EPOCH(113)",
        "epoch 0: v8": "UNSUPPORTED_VERSION(35)",
        "epoch 0: fetch": "STALE_MEMBER_EPOCH(113)",
        "nobody: v9": "UNKNOWN_MEMBER_ID(25)",
        "nobody: v8": "UNKNOWN_MEMBER_ID(25)",
        "nobody: fetch": "UNKNOWN_MEMBER_ID(25)",
        "without a member: v9": "UNKNOWN_MEMBER_ID(25)",
        "without a member: v8": "UNKNOWN_MEMBER_ID(25)",
        "without a member: fetch": "UNKNOWN_MEMBER_ID(25)",
        "a member without an epoch: v9": "STALE_MEMBER_EPOCH(113)",
        "a member without an epoch: v8": "UNSUPPORTED_VERSION(35)",
        "a member without an epoch: fetch": "STALE_MEMBER_EPOCH(113)",
        "the other, what it was given late": "NONE",
        "the same, of the epoch before": "STALE_MEMBER_EPOCH(113)",
        "no member at all: fetch": "NONE 7",
        "left: v9": "UNKNOWN_MEMBER_ID(25)",
        "empty: v9": "NONE",
        "empty: by a member": "UNKNOWN_MEMBER_ID(25)",
        "empty: fetch": "NONE 7",
    },
)
def k13(world: World) -> Facts:
    topic, group = world.topic(2), fresh(world)
    with Consumer(world, group, "A", topic) as a, Consumer(world, group, "B", topic) as b:
        a.join()
        b.join()
        settle(world, {a: [1], b: [1]})
        facts = {}
        for name, who in {
            "member": (a.member_id, 3),
            "older": (a.member_id, 2),
            "later": (a.member_id, 4),
            "epoch 0": (a.member_id, 0),
            "nobody": ("nobody", 3),
            "without a member": ("", NO_EPOCH),
            "a member without an epoch": (a.member_id, NO_EPOCH),
        }.items():
            mine: dict[str, Any] = {"member_id": who[0], "generation_id_or_member_epoch": who[1]}
            facts[f"{name}: v9"] = commit(world, group, topic, **mine)
            facts[f"{name}: v8"] = commit(world, group, topic, 8, **mine)
            facts[f"{name}: fetch"] = fetch(world, group, topic, *who)
        given: dict[str, Any] = {"member_id": b.member_id, "partition": b.owned[topic][0]}
        facts["the other, what it was given late"] = commit(
            world, group, topic, generation_id_or_member_epoch=3, **given
        )
        facts["the same, of the epoch before"] = commit(world, group, topic, generation_id_or_member_epoch=2, **given)
        facts["no member at all: fetch"] = fetch(world, group, topic, None)
        a.leave()
        facts["left: v9"] = commit(world, group, topic, member_id=a.member_id, generation_id_or_member_epoch=3)
        b.leave()
        facts["empty: v9"] = commit(world, group, topic)
        facts["empty: by a member"] = commit(
            world, group, topic, member_id=a.member_id, generation_id_or_member_epoch=3
        )
        facts["empty: fetch"] = fetch(world, group, topic)
    return facts


@scenario(
    "K14",
    "a consumer group, a classic one and none: ConsumerGroupDescribe, DescribeGroups, ListGroups by type",
    {
        "DescribeGroups v6": "GROUP_ID_NOT_FOUND(69): Group g is not a classic group., 'Dead'",
        "DescribeGroups v5": "NONE, 'Dead'",
        "consumer": "Stable, epoch 2, target 2, 'uniform'; A type 1 epoch 2 has [0: 0] of [0: 0]",
        "classic": "GROUP_ID_NOT_FOUND(69): Group g is not a consumer group.",
        "nothing": "GROUP_ID_NOT_FOUND(69): Group g not found.",
        "no name": "INVALID_GROUP_ID(24): None",
        "listed": "consumer Stable consumer, consumer Stable classic",
        "of type consumer": "consumer Stable consumer, none",
        "of type Classic": "none, consumer Stable classic",
        "of type share": "none",
        "of type x": "none",
        "stable": "consumer Stable consumer",
        "empty": "none",
        "reconciling": "none",
    },
)
def k14(world: World) -> Facts:
    topic, group, classic = world.topic(), fresh(world), fresh(world)
    with Consumer(world, group, "A", topic) as a, Member(world, classic, "C", {}) as c:
        a.join()
        c.stable()
        old = world.call("describe_groups", 6, {"groups": (group,)}).body.groups[0]
        older = world.call("describe_groups", 5, {"groups": (group,)}).body.groups[0]
        return {
            "DescribeGroups v6": f"{error(old.error_code)}: {a.plainly(old.error_message)}, {old.group_state!r}",
            "DescribeGroups v5": f"{error(older.error_code)}, {older.group_state!r}",
            "consumer": described(world, group, a),
            "classic": described(world, classic),
            "nothing": described(world, f"{group}-not").replace(group, "g"),
            "no name": described(world, ""),
            "listed": f"{listed(world, group)}, {listed(world, classic)}",
            "of type consumer": ", ".join(listed(world, each, (), ("consumer",)) for each in (group, classic)),
            "of type Classic": ", ".join(listed(world, each, (), ("Classic",)) for each in (group, classic)),
            "of type share": listed(world, group, (), ("share",)),
            "of type x": listed(world, group, (), ("x",)),
            "stable": listed(world, group, ("stable",)),
            "empty": listed(world, group, ("Empty",)),
            "reconciling": listed(world, group, ("reconciling",)),
        }


@scenario(
    "K15",
    "DeleteGroups and OffsetDelete of a consumer group with a member, and of the same, empty",
    {
        "commits": "NONENONE",
        "delete": "NON_EMPTY_GROUP(68)",
        "forget what it has": "NONE GROUP_SUBSCRIBED_TO_TOPIC(86)",
        "forget another": "NONE NONE",
        "left": "NONE 7; NONE -1",
        "forget, empty": "NONE NONE",
        "delete, empty": "NONE",
        "described": "GROUP_ID_NOT_FOUND(69): Group g not found.",
        "delete, gone": "GROUP_ID_NOT_FOUND(69)",
        "comes again": "epoch 2, assigned [0: 0]",
    },
)
def k15(world: World) -> Facts:
    topic, other, group = world.topic(), world.topic(), fresh(world)

    def deleted() -> str:
        return error(world.call("delete_groups", 2, {"groups_names": (group,)}).body.results[0].error_code)

    def forget(name: str) -> str:
        body = {"group_id": group, "topics": [{"name": name, "partitions": [{"partition_index": 0}]}]}
        told = world.call("offset_delete", 0, body).body
        return f"{error(told.error_code)} {error(told.topics[0].partitions[0].error_code)}"

    with Consumer(world, group, "A", topic) as a:
        a.join()
        mine: dict[str, Any] = {"member_id": a.member_id, "generation_id_or_member_epoch": 2}
        facts = {"commits": commit(world, group, topic, **mine) + commit(world, group, other, **mine)}
        facts["delete"] = deleted()
        facts["forget what it has"] = forget(topic)
        facts["forget another"] = forget(other)
        facts["left"] = f"{fetch(world, group, topic)}; {fetch(world, group, other)}"
        a.leave()
        facts["forget, empty"] = forget(topic)
        facts["delete, empty"] = deleted()
        facts["described"] = described(world, group)
        facts["delete, gone"] = deleted()
        a.epoch = 0
        facts["comes again"] = a.join()
    return facts


@scenario(
    "K16",
    "JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members of a consumer group, with their ids",
    {
        "heartbeat": "UNKNOWN_MEMBER_ID(25)",
        "sync": "UNKNOWN_MEMBER_ID(25)",
        "leave": "NONE NONE",
        "left": "UNKNOWN_MEMBER_ID(25): Member A is not a member of group g.",
    },
)
def k16(world: World) -> Facts:
    topic, group = world.topic(), fresh(world)
    with Consumer(world, group, "A", topic) as a, Member(world, group, "C", {}) as c:
        a.join()
        c.member_id, c.generation = a.member_id, 2
        facts = {"heartbeat": c.heartbeat(), "sync": c.sync()}
        left = world.call("leave_group", 5, {"group_id": group, "members": [{"member_id": a.member_id}]}).body
        facts["leave"] = f"{error(left.error_code)} {error(left.members[0].error_code)}"
        facts["left"] = a.ask()
    return facts


def timeouts(world: World, group: str, session_ms: int, interval_ms: int) -> str:
    """Let a group have these; the errors in words."""
    codes = alter(world, group, BEAT, str(interval_ms)), alter(world, group, SESSION, str(session_ms))
    known = f"{session_ms} of "
    world.wait(lambda: told(world, group, (SESSION,)).get(SESSION, "").startswith(known), "the broker knows of it")
    return ", ".join(codes)


@scenario(
    "K17",
    "a group's own session timeout of 1000 ms: what its member is told, and when, silent, it is a member no longer",
    {
        "set": "NONE, NONE",
        "joins": "epoch 2, assigned [0: 0 1 2 3]",
        "interval": "500 ms",
        "gone": "after 1000 ms or more",
        "is unknown": "UNKNOWN_MEMBER_ID(25): Member A is not a member of group g.",
    },
)
def k17(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        facts = {"set": timeouts(world, group, 1000, 500)}
        began = time.monotonic()
        facts |= {"joins": a.join(), "interval": f"{a.interval_ms} ms"}
        world.wait(lambda: described(world, group).startswith("Empty"), "the group is empty")
        ms = (time.monotonic() - began) * 1000
        facts["gone"] = "after 1000 ms or more" if ms >= 1000 - EARLY_MS_MAX else f"after {ms:.1f} ms"
        facts["is unknown"] = a.ask()
    return facts


@scenario(
    "K18",
    "a member with a rebalance timeout of 500 ms goes on with what it is to give up, and beats",
    {
        "A joins": "epoch 2, assigned [0: 0 1 2 3]",
        "B joins": "epoch 2, assigned []",
        "A in the end": "UNKNOWN_MEMBER_ID(25): Member A is not a member of group g.",
        "B has": "[0: 0 1 2 3]",
    },
)
def k18(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with (
        Consumer(world, group, "A", topic, rebalance_timeout=500) as a,
        Consumer(world, group, "B", topic) as b,
    ):
        facts = {"A joins": a.join(), "B joins": b.join()}
        world.wait(lambda: "assigned" in a.beat({topic: [0, 1, 2, 3]}), "A is to give up")
        said = ""

        def out() -> bool:
            nonlocal said
            said = a.beat({topic: [0, 1, 2, 3]})
            return not said.startswith("epoch 2")

        world.wait(out, "A is out")
        facts["A in the end"] = said
        facts["B has"] = b.settled(4)
    return facts


@scenario(
    "K37",
    "a fetch of offsets with a member epoch and no member id",
    {
        "epoch 0": "UNKNOWN_SERVER_ERROR(-1)",
        "its epoch": "UNKNOWN_SERVER_ERROR(-1)",
        "no epoch": "NONE -1",
        "an empty id": "UNKNOWN_MEMBER_ID(25)",
    },
    differs={"epoch 0": "UNKNOWN_MEMBER_ID(25)", "its epoch": "UNKNOWN_MEMBER_ID(25)"},
    note="Apache Kafka looks for the member null and fails within; to ours that is a member that is not there",
)
def k37(world: World) -> Facts:
    topic, group = world.topic(), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        a.join()
        return {
            "epoch 0": fetch(world, group, topic, None, 0),
            "its epoch": fetch(world, group, topic, None, 1),
            "no epoch": fetch(world, group, topic),
            "an empty id": fetch(world, group, topic, "", 1),
        }


@scenario(
    "K38",
    "a static member leaves for a while with partitions to give up, and is away for longer than its 500 ms for it",
    {
        "A joins": "epoch 2, assigned [0: 0 1 2 3]",
        "B joins": "epoch 2, assigned []",
        "A leaves for a while": "epoch -2",
        "B is given": "2",
        "members then": "2",
        "A is back": "epoch 3",
    },
)
def k38(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with (
        Consumer(world, group, "A", topic, rebalance_timeout=500, instance_id="i") as a,
        Consumer(world, group, "B", topic) as b,
    ):
        facts = {"A joins": a.join(), "B joins": b.join()}
        world.wait(lambda: "assigned" in a.beat({topic: [0, 1, 2, 3]}), "A is to give up")
        facts["A leaves for a while"] = a.leave(-2)
        facts["B is given"] = str(len(b.settled(2).split()) - 1)
        pause(1000)
        facts["members then"] = str(described(world, group, a, b).count(" type 1 "))
        a.epoch = 0
        facts["A is back"] = a.join().split(",")[0]
    return facts
