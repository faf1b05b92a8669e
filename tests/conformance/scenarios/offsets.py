"""G60 to G62, G80 to G85: committed offsets are taken, told, forgotten and deleted with their group."""

from typing import Any

from tests.conformance.members import Member, Names, beats_until, leave, subscription
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.joining import AGAIN, fresh
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import World, error

COMMIT, FETCH = 9, 9
BY_NOBODY = {"generation_id_or_member_epoch": -1, "member_id": ""}

Commits = list[tuple[str, list[dict[str, Any]]]]


def part(index: int = 0, offset: int = 5, metadata: str | None = "m", epoch: int = -1) -> dict[str, Any]:
    """One partition of an OffsetCommit."""
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": metadata,
    }


def commit(world: World, group: str, commits: Commits, by: dict[str, Any] | None = None, version: int = COMMIT) -> str:
    """OffsetCommit; the errors of the partitions in words."""
    topics = [{"name": name, "partitions": parts} for name, parts in commits]
    body = world.call("offset_commit", version, {"group_id": group, **(by or BY_NOBODY), "topics": topics}).body
    return " ".join(error(one.error_code) for topic in body.topics for one in topic.partitions) or "nothing"


def by(member: Member, **changed: Any) -> dict[str, Any]:
    """Who commits, as a request says it."""
    said = {
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
    }
    return said | changed


def offsets(world: World, group: str, asked: list[tuple[str, tuple[int, ...]]] | None, names: Names) -> str:
    """OffsetFetch of one group; null topics for None."""
    topics = None if asked is None else [{"name": name, "partition_indexes": parts} for name, parts in asked]
    body = {"groups": [{"group_id": group, "member_epoch": -1, "topics": topics}], "require_stable": False}
    return told(world.call("offset_fetch", FETCH, body).body.groups[0], names)


def told(group: Any, names: Names) -> str:
    """One group of an OffsetFetch answer."""
    parts = [
        f"{names.get(topic.name, topic.name)}-{one.partition_index} {one.committed_offset} {one.metadata!r}"
        + (f" epoch {one.committed_leader_epoch}" if one.committed_leader_epoch != -1 else "")
        + ("" if error(one.error_code) == "NONE" else f" {error(one.error_code)}")
        for topic in group.topics
        for one in topic.partitions
    ]
    return f"{error(group.error_code)}: {', '.join(parts)}"


@scenario(
    "G60",
    "OffsetCommit by nobody to a group that is not there; what is told of it, of others, and of a group that is not",
    {
        "generation 1": "GROUP_ID_NOT_FOUND(69)",
        "generation 1, v8": "ILLEGAL_GENERATION(22)",
        "no group yet": "NONE: t-0 -1 ''",
        "commit": "NONE",
        "committed": "NONE: t-0 5 'm' epoch 0",
        "not committed": "NONE: t-1 -1 '', u-0 -1 ''",
        "no such partition": "NONE: t-0 5 'm' epoch 0, t-7 -1 '', t--1 -1 ''",
        "no such topic": "NONE: absent-0 -1 ''",
        "all": "NONE: t-0 5 'm' epoch 0",
        "no topics": "NONE: ",
        "twice": "NONE: t-0 5 'm' epoch 0, t-0 5 'm' epoch 0, t-0 5 'm' epoch 0",
        "no such group": "NONE: t-0 -1 ''",
        "all of no such group": "NONE: ",
        "by a member": "NONE",
        "by a generation": "UNKNOWN_MEMBER_ID(25)",
        "nothing": "nothing",
    },
    differs={"twice": "NONE: t-0 5 'm' epoch 0"},
    note="what is named twice is told once",
)
def g60(world: World) -> Facts:
    group, _ = fresh(world)
    topic, other = world.topic(2), world.topic()
    coordinator(world, group + "-not")
    names = {topic: "t", other: "u"}
    facts = {"generation 1": commit(world, group, [(topic, [part()])], {"generation_id_or_member_epoch": 1})}
    facts["generation 1, v8"] = commit(world, group, [(topic, [part()])], {"generation_id_or_member_epoch": 1}, 8)
    facts["no group yet"] = offsets(world, group, [(topic, (0,))], names)
    facts["commit"] = commit(world, group, [(topic, [part(epoch=0)])])
    facts |= {
        "committed": offsets(world, group, [(topic, (0,))], names),
        "not committed": offsets(world, group, [(topic, (1,)), (other, (0,))], names),
        "no such partition": offsets(world, group, [(topic, (0, 7, -1))], names),
        "no such topic": offsets(world, group, [("absent", (0,))], names),
        "all": offsets(world, group, None, names),
        "no topics": offsets(world, group, [], names),
        "twice": offsets(world, group, [(topic, (0, 0)), (topic, (0,))], names),
        "no such group": offsets(world, group + "-not", [(topic, (0,))], names),
        "all of no such group": offsets(world, group + "-not", None, names),
        "by a member": commit(
            world, group, [(topic, [part()])], {"generation_id_or_member_epoch": -1, "member_id": "x"}
        ),
        "by a generation": commit(world, group, [(topic, [part()])], {"generation_id_or_member_epoch": 1}),
        "nothing": commit(world, group, []),
    }
    return facts


@scenario(
    "G61",
    "commits to a stable group: by nobody, its member, an older generation, a stranger; 4096 and 4097 characters",
    {
        "nobody": "UNKNOWN_MEMBER_ID(25)",
        "its member": "NONE",
        "generation 0": "ILLEGAL_GENERATION(22)",
        "generation -1": "ILLEGAL_GENERATION(22)",
        "a stranger": "UNKNOWN_MEMBER_ID(25)",
        "a strange instance": "UNKNOWN_MEMBER_ID(25)",
        "4096, 4097, 4096 of two bytes each": "NONE OFFSET_METADATA_TOO_LARGE(12) NONE",
        "left by all, nobody": "NONE",
        "left by all, its member": "UNKNOWN_MEMBER_ID(25)",
        "left by all, null metadata": "NONE",
        "then": "NONE: t-0 7 ''",
    },
)
def g61(world: World) -> Facts:
    group, names = fresh(world)
    topic = world.topic(3)
    one: Commits = [(topic, [part()])]
    with Member(world, group, "A", names).stable() as a:
        facts = {
            "nobody": commit(world, group, one),
            "its member": commit(world, group, one, by(a)),
            "generation 0": commit(world, group, one, by(a, generation_id_or_member_epoch=0)),
            "generation -1": commit(world, group, one, by(a, generation_id_or_member_epoch=-1)),
            "a stranger": commit(world, group, one, by(a, member_id="nobody")),
            "a strange instance": commit(world, group, one, by(a, group_instance_id="i")),
            "4096, 4097, 4096 of two bytes each": commit(
                world,
                group,
                [(topic, [part(0, 6, "m" * 4096), part(1, 6, "m" * 4097), part(2, 6, "\u00e4" * 4096)])],
                by(a),
            ),
        }
        leave(world, group, {"member_id": a.member_id})
        facts["left by all, nobody"] = commit(world, group, one)
        facts["left by all, its member"] = commit(world, group, one, by(a))
        facts["left by all, null metadata"] = commit(world, group, [(topic, [part(0, 7, None)])])
        facts["then"] = offsets(world, group, [(topic, (0,))], {topic: "t"})
    return facts


@scenario(
    "G62",
    "DeleteGroups: with members, with none, one that is not there, twice in one request, of nobody; its offsets",
    {
        "none": "nothing",
        "stable": "group NON_EMPTY_GROUP(68)",
        "three": "absent GROUP_ID_NOT_FOUND(69); group NON_EMPTY_GROUP(68); simple NONE",
        "simple, its offsets": "NONE: ",
        "left, its offsets": "NONE: t-0 5 'm'",
        "twice": "group NONE",
        "again": "group GROUP_ID_NOT_FOUND(69)",
        "its offsets": "NONE: ",
        "heartbeat": "UNKNOWN_MEMBER_ID(25)",
    },
)
def g62(world: World) -> Facts:
    group, names = fresh(world)
    simple, absent, topic = world.fresh(), world.fresh(), world.topic()
    coordinator(world, simple, absent)
    letters = {group: "group", simple: "simple", absent: "absent"}

    def delete(*groups: str) -> str:
        results = world.call("delete_groups", 2, {"groups_names": groups}).body.results
        return "; ".join(sorted(f"{letters[one.group_id]} {error(one.error_code)}" for one in results)) or "nothing"

    commit(world, simple, [(topic, [part()])])
    with Member(world, group, "A", names) as a:
        a.ask_id()
        facts = {"none": delete()}
        a.stable()
        commit(world, group, [(topic, [part()])], by(a))
        facts["stable"] = delete(group)
        facts["three"] = delete(group, absent, simple)
        facts["simple, its offsets"] = offsets(world, simple, None, {})
        leave(world, group, {"member_id": a.member_id})
        facts["left, its offsets"] = offsets(world, group, None, {topic: "t"})
        facts["twice"] = delete(group, group)
        facts["again"] = delete(group)
        facts["its offsets"] = offsets(world, group, None, {})
        facts["heartbeat"] = a.heartbeat()
    return facts


@scenario(
    "G80",
    "one OffsetCommit: a partition twice, a topic twice, unknown ones, strange offsets and epochs",
    {
        "partition twice": "NONE NONE",
        "it has": "NONE: t-0 2 'b'",
        "topic twice": "NONE NONE NONE",
        "they have": "NONE: t-1 2 'b', t-2 3 'm'",
        "unknown partitions": "UNKNOWN_TOPIC_OR_PARTITION(3) UNKNOWN_TOPIC_OR_PARTITION(3) NONE",
        "unknown topic": "UNKNOWN_TOPIC_OR_PARTITION(3) UNKNOWN_TOPIC_OR_PARTITION(3)",
        "no partitions": "nothing",
        "offset -1, epoch 7": "NONE",
        "offset -1 told": "NONE: t-0 -1 '' epoch 7",
        "offset -5, epoch -3": "NONE",
        "offset -5 told": "NONE: t-1 -5 '' epoch -3",
        "largest offset": "NONE",
        "largest told": "NONE: t-2 9223372036854775807 ''",
    },
)
def g80(world: World) -> Facts:
    group, _ = fresh(world)
    topic = world.topic(3)
    names = {topic: "t"}
    facts = {"partition twice": commit(world, group, [(topic, [part(0, 1, "a"), part(0, 2, "b")])])}
    facts["it has"] = offsets(world, group, [(topic, (0,))], names)
    facts["topic twice"] = commit(world, group, [(topic, [part(1, 1, "a")]), (topic, [part(1, 2, "b"), part(2, 3)])])
    facts["they have"] = offsets(world, group, [(topic, (1, 2))], names)
    facts["unknown partitions"] = commit(world, group, [(topic, [part(9), part(-1), part(0, 8)])])
    facts["unknown topic"] = commit(world, group, [("absent", [part(), part(1)])])
    facts["no partitions"] = commit(world, group, [(topic, [])])
    facts["offset -1, epoch 7"] = commit(world, group, [(topic, [part(0, -1, "", 7)])])
    facts["offset -1 told"] = offsets(world, group, [(topic, (0,))], names)
    facts["offset -5, epoch -3"] = commit(world, group, [(topic, [part(1, -5, "", -3)])])
    facts["offset -5 told"] = offsets(world, group, [(topic, (1,))], names)
    facts["largest offset"] = commit(world, group, [(topic, [part(2, 2**63 - 1, "")])])
    facts["largest told"] = offsets(world, group, [(topic, (2,))], names)
    return facts


@scenario(
    "G81",
    "commits while the group waits for all to join, while it is to be assigned, and by one that did not sync",
    {
        "waiting, A": "NONE",
        "waiting, B": "ILLEGAL_GENERATION(22)",
        "waiting, nobody": "UNKNOWN_MEMBER_ID(25)",
        "to be assigned, A": "REBALANCE_IN_PROGRESS(27)",
        "to be assigned, A of old": "ILLEGAL_GENERATION(22)",
        "to be assigned, nobody": "UNKNOWN_MEMBER_ID(25)",
        "stable, B without its SyncGroup": "NONE",
    },
)
def g81(world: World) -> Facts:
    group, names = fresh(world)
    one: Commits = [(world.topic(), [part()])]
    with Member(world, group, "A", names).stable() as a, Member(world, group, "B", names) as b:
        b.send_join()
        beats_until(world, a, AGAIN)
        facts = {
            "waiting, A": commit(world, group, one, by(a)),
            "waiting, B": commit(world, group, one, by(b)),
            "waiting, nobody": commit(world, group, one),
        }
        a.send_join()
        a.heard(), b.heard()
        facts |= {
            "to be assigned, A": commit(world, group, one, by(a)),
            "to be assigned, A of old": commit(world, group, one, by(a, generation_id_or_member_epoch=1)),
            "to be assigned, nobody": commit(world, group, one),
        }
        a.sync({a.member_id: b"a"})
        facts["stable, B without its SyncGroup"] = commit(world, group, one, by(b))
    return facts


@scenario(
    "G82",
    "OffsetDelete: a topic the group consumes, others, twice, unknown ones, nothing; an empty, an unknown group",
    {
        "both": "NONE: mine-0 GROUP_SUBSCRIBED_TO_TOPIC(86), other-0 NONE",
        "again": "NONE: other-0 NONE",
        "twice": "NONE: other-1 NONE, other-1 NONE",
        "unknown": "NONE: absent-0 UNKNOWN_TOPIC_OR_PARTITION(3), other-9 UNKNOWN_TOPIC_OR_PARTITION(3)",
        "nothing": "NONE: ",
        "unknown group": "GROUP_ID_NOT_FOUND(69): ",
        "mine is left": "NONE: mine-0 5 'm', other-0 -1 '', other-1 -1 ''",
        "left by all": "NONE: mine-0 NONE, mine-1 NONE",
        "then": "NONE: ",
        "of another type": "NON_EMPTY_GROUP(68): ",
    },
)
def g82(world: World) -> Facts:
    group, names = fresh(world)
    coordinator(world, group + "-not", group + "-connect")
    mine, other = world.topic(2), world.topic(2)
    letters = {mine: "mine", other: "other"}

    def delete(wanted: list[tuple[str, tuple[int, ...]]], of: str = group) -> str:
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in parts]} for name, parts in wanted
        ]
        body = world.call("offset_delete", 0, {"group_id": of, "topics": topics}).body
        codes = [
            f"{letters.get(topic.name, topic.name)}-{one.partition_index} {error(one.error_code)}"
            for topic in body.topics
            for one in topic.partitions
        ]
        return f"{error(body.error_code)}: {', '.join(codes)}"

    with Member(world, group, "A", names).stable(protocols=[("range", subscription(mine))]) as a:
        commit(world, group, [(mine, [part(0), part(1)]), (other, [part(0), part(1)])], by(a))
        facts = {
            "both": delete([(mine, (0,)), (other, (0,))]),
            "again": delete([(other, (0,))]),
            "twice": delete([(other, (1, 1))]),
            "unknown": delete([("absent", (0,)), (other, (9,))]),
            "nothing": delete([]),
            "unknown group": delete([(mine, (0,))], group + "-not"),
        }
        facts["mine is left"] = offsets(world, group, [(mine, (0,)), (other, (0, 1))], letters)
        leave(world, group, {"member_id": a.member_id})
        facts["left by all"] = delete([(mine, (0, 1))])
        facts["then"] = offsets(world, group, None, letters)
    connect = {"protocol_type": "connect", "protocols": [("one", b"")]}
    with Member(world, group + "-connect", "C", names) as c:
        c.join(**connect)
        c.sync({}, protocol_type="connect", protocol_name="one")
        facts["of another type"] = delete([(mine, (0,))], group + "-connect")
    return facts


@scenario(
    "G84",
    "OffsetFetch of several groups at once, of one twice, of none; with a member and an epoch nobody gave",
    {
        "three": "absent NONE: t-0 -1 ''; one NONE: t-0 1 'm'; two NONE: t-0 2 'm'",
        "one twice": "one NONE: t-0 1 'm'; one NONE: t-0 1 'm'",
        "none": "none",
        "stable": "one NONE: t-0 1 'm'",
        "a member": "one NONE: t-0 1 'm'",
        "an epoch": "one NONE: t-0 1 'm'",
        "a member of none": "absent NONE: t-0 -1 ''",
    },
    differs={"one twice": "one NONE: t-0 1 'm'"},
    note="what is named twice is told once",
)
def g84(world: World) -> Facts:
    one, _ = fresh(world)
    two, absent, topic = world.fresh(), world.fresh(), world.topic()
    coordinator(world, two, absent)
    letters = {one: "one", two: "two", absent: "absent", topic: "t"}
    commit(world, one, [(topic, [part(0, 1)])])
    commit(world, two, [(topic, [part(0, 2)])])

    def ask(*groups: str, stable: bool = False, **changed: Any) -> str:
        topics = [{"name": topic, "partition_indexes": (0,)}]
        asked = [{"group_id": each, "member_epoch": -1, "topics": topics, **changed} for each in groups]
        body = world.call("offset_fetch", FETCH, {"groups": asked, "require_stable": stable}).body
        return "; ".join(sorted(f"{letters[each.group_id]} {told(each, letters)}" for each in body.groups)) or "none"

    return {
        "three": ask(one, two, absent),
        "one twice": ask(one, one),
        "none": ask(),
        "stable": ask(one, stable=True),
        "a member": ask(one, member_id="nobody", member_epoch=3),
        "an epoch": ask(one, member_id=None, member_epoch=3),
        "a member of none": ask(absent, member_id="nobody", member_epoch=3),
    }


@scenario(
    "G85",
    "a topic is deleted and made again: what groups had committed for it",
    {
        "deleted": "NONE: u-0 5 'm'",
        "commit": "UNKNOWN_TOPIC_OR_PARTITION(3)",
        "made again": "NONE: t-0 -1 ''",
    },
)
def g85(world: World) -> Facts:
    group, _ = fresh(world)
    topic, other = world.topic(), world.topic()
    names = {topic: "t", other: "u"}
    commit(world, group, [(topic, [part()]), (other, [part()])])
    world.delete(topic)
    world.wait(lambda: "t-0" not in offsets(world, group, None, names), "the offsets to go")
    facts = {"deleted": offsets(world, group, None, names)}
    facts["commit"] = commit(world, group, [(topic, [part()])])
    world.wait(lambda: world.create(topic) == "NONE", "the topic")
    world.wait(lambda: world.led(topic, 1), "its leader")
    facts["made again"] = offsets(world, group, [(topic, (0,))], names)
    return facts
