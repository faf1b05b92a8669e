"""G66 to G77: what groups refuse, what waits, and how they are told and listed."""

from typing import Any

from tests.conformance.members import JOIN, Member, beats_until, described, join_body, joined, leave, subscription
from tests.conformance.raw import fitting
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.joining import AGAIN, fresh
from tests.conformance.scenarios.offsets import BY_NOBODY, offsets, part
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import World, error


def counted(said: str) -> str:
    """A group in words, with the number of its members only."""
    return f"{said.split('[')[0]}{said.count(' of ')} members"


@scenario(
    "G66",
    "JoinGroup without protocols, without a type, of another type, without a common protocol",
    {
        "no protocols": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "no type": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "neither": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "then no protocols": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "then no type": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "other type": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "none in common": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "one in common": "MEMBER_ID_REQUIRED(79), id new",
        "in other letters": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "A itself, none it had": "INCONSISTENT_GROUP_PROTOCOL(23), id A",
    },
)
def g66(world: World) -> Facts:
    group, names = fresh(world)

    def ask(**changed: Any) -> str:
        return joined(world.call("join_group", JOIN, join_body(group, **changed)), names)

    facts = {
        "no protocols": ask(protocols=[]),
        "no type": ask(protocol_type=""),
        "neither": ask(protocol_type="", protocols=[]),
    }
    with Member(world, group, "A", names).stable(protocols=[("range", b"1"), ("sticky", b"2")]) as a:
        facts |= {
            "then no protocols": ask(protocols=[]),
            "then no type": ask(protocol_type=""),
            "other type": ask(protocol_type="connect"),
            "none in common": ask(protocols=[("roundrobin", b"")]),
            "one in common": ask(protocols=[("roundrobin", b""), ("sticky", b"")]),
            "in other letters": ask(protocols=[("RANGE", b"")]),
            "A itself, none it had": a.join(protocols=[("roundrobin", b"")]),
        }
    return facts


@scenario(
    "G67",
    "an empty group id, API by API",
    {
        "DescribeGroups of none": "GROUP_ID_NOT_FOUND(69), Dead, '', '', []",
        "JoinGroup": "INVALID_GROUP_ID(24), id none",
        "SyncGroup": "INVALID_GROUP_ID(24)",
        "Heartbeat": "INVALID_GROUP_ID(24)",
        "LeaveGroup": "INVALID_GROUP_ID(24): ",
        "OffsetCommit": "NONE",
        "OffsetFetch": "NONE, 1 topic(s)",
        "DescribeGroups": "NONE, Empty, '', '', []",
        "ListGroups": "True",
        "DeleteGroups": "NONE",
        "OffsetDelete": "INVALID_GROUP_ID(24)",
        "FindCoordinator": "NONE",
    },
)
def g67(world: World) -> Facts:
    topic = world.topic()
    coordinator(world, "")
    absent = described(world, "")
    commit = {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
    wanted = {"name": topic, "partition_indexes": (0,)}

    def code(api: str, version: int, body: dict[str, Any]) -> Any:
        return world.call(api, version, fitting(api, version, {"group_id": "", **body})).body

    groups = code("offset_fetch", 9, {"groups": [{"group_id": "", "topics": [wanted]}]}).groups
    nobody = {"generation_id": 1, "member_id": "nobody"}
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    simple = {"generation_id_or_member_epoch": -1, "topics": [commit]}
    return {
        "DescribeGroups of none": absent,
        "JoinGroup": joined(world.call("join_group", JOIN, join_body("")), {}),
        "SyncGroup": error(code("sync_group", 5, nobody | named).error_code),
        "Heartbeat": error(code("heartbeat", 4, nobody).error_code),
        "LeaveGroup": leave(world, "", {"member_id": "nobody"}),
        "OffsetCommit": error(code("offset_commit", 9, simple).topics[0].partitions[0].error_code),
        "OffsetFetch": f"{error(groups[0].error_code)}, {len(groups[0].topics)} topic(s)",
        "DescribeGroups": described(world, ""),
        "ListGroups": str("" in [one.group_id for one in world.call("list_groups", 5, {}).body.groups]),
        "DeleteGroups": error(world.call("delete_groups", 2, {"groups_names": ("",)}).body.results[0].error_code),
        "OffsetDelete": error(
            code("offset_delete", 0, {"topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}).error_code
        ),
        "FindCoordinator": error(
            world.call("find_coordinator", 4, {"key_type": 0, "coordinator_keys": ("",)})
            .body.coordinators[0]
            .error_code
        ),
    }


@scenario(
    "G69",
    "an id that was given but never used: heartbeat, SyncGroup, DescribeGroups, a static join with it; joining",
    {
        "heartbeat": "UNKNOWN_MEMBER_ID(25)",
        "SyncGroup": "UNKNOWN_MEMBER_ID(25)",
        "group": "NONE, Empty, '', '', []",
        "static": "UNKNOWN_SERVER_ERROR(-1), id none",
        "joins": "generation 1, range, id A, leader A, members [A]",
        "never given": "UNKNOWN_MEMBER_ID(25), id new",
        "never given, no such group": "UNKNOWN_MEMBER_ID(25), id new",
    },
    differs={"static": "UNKNOWN_MEMBER_ID(25), id A"},
    note="Apache Kafka fails inside when an id that was given to a dynamic member comes with an instance id",
)
def g69(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names) as a:
        a.ask_id()
        return {
            "heartbeat": a.heartbeat(),
            "SyncGroup": a.sync(),
            "group": described(world, group),
            "static": joined(
                world.call("join_group", JOIN, join_body(group, a.member_id, group_instance_id="i")), names
            ),
            "joins": a.join(),
            "never given": joined(world.call("join_group", JOIN, join_body(group, "raw-1")), names),
            "never given, no such group": joined(
                world.call("join_group", JOIN, join_body(group + "-not", "raw-1")), names
            ),
        }


@scenario(
    "G70",
    "the protocol all members know is chosen, and its metadata are told to the leader alone",
    {
        "A": "generation 2, sticky, id A, leader A",
        "metadata": "[('A', b'sa'), ('B', b'sb')]",
        "B": "generation 2, sticky, id B, leader A, members []",
    },
)
def g70(world: World) -> Facts:
    group, names = fresh(world)
    both = [("range", b"ra"), ("sticky", b"sa")]
    with (
        Member(world, group, "A", names).stable(protocols=both) as a,
        Member(world, group, "B", names, protocols=[("sticky", b"sb")]) as b,
    ):
        b.send_join()
        beats_until(world, a, AGAIN)
        a.peer.send("join_group", JOIN, join_body(group, a.member_id, protocols=both))
        _, reply = a.peer.receive()
        told = {names[one.member_id]: one.metadata for one in reply.body.members}
        return {"A": joined(reply, names).split(", members")[0], "metadata": str(sorted(told.items())), "B": b.heard()}


@scenario(
    "G71",
    "a JoinGroup waits: a heartbeat on another connection is answered, one behind it on the same is not until then",
    {
        "A's heartbeat": "REBALANCE_IN_PROGRESS(27)",
        "B's connection": "silent True",
        "A": "generation 2, range, id A, leader A, members [A B]",
        "B": "generation 2, range, id B, leader A, members []",
        "behind it": "ILLEGAL_GENERATION(22)",
    },
)
def g71(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names).stable() as a, Member(world, group, "B", names) as b:
        b.send_join()
        beats_until(world, a, AGAIN)
        behind = {"group_id": group, "generation_id": 1, "member_id": b.member_id}
        b.peer.send("heartbeat", 4, behind)
        facts = {"A's heartbeat": a.heartbeat(), "B's connection": f"silent {b.peer.silent(0.1)}", "A": a.join()}
        facts["B"] = b.heard()
        facts["behind it"] = error(b.peer.receive()[1].body.error_code)
    return facts


@scenario(
    "G72",
    "two stable members: the follower joins unchanged, then changed; in between and at the assignment",
    {
        "unassigned, B unchanged": "generation 2, range, id B, leader A, members []",
        "unassigned, A unchanged": "generation 2, range, id A, leader A",
        "B unchanged": "generation 2, range, id B, leader A, members []",
        "A's heartbeat": "NONE",
        "B changed, A hears": "REBALANCE_IN_PROGRESS(27)",
        "A joins": "generation 3, range, id A, leader A",
        "B joined": "generation 3, range, id B, leader A, members []",
    },
)
def g72(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names).stable() as a, Member(world, group, "B", names) as b:
        b.send_join()
        beats_until(world, a, AGAIN)
        a.send_join()
        a.heard(), b.heard()
        facts = {"unassigned, B unchanged": b.join(), "unassigned, A unchanged": a.join().split(", members")[0]}
        a.sync({a.member_id: b"a", b.member_id: b"b"})
        b.sync()
        facts["B unchanged"] = b.join()
        facts["A's heartbeat"] = a.heartbeat()
        b.send_join(protocols=[("range", subscription("other"))])
        facts["B changed, A hears"] = beats_until(world, a, AGAIN)
        facts["A joins"] = a.join().split(", members")[0]
        facts["B joined"] = b.heard()
    return facts


@scenario(
    "G74",
    "DescribeGroups of a group that is not there (v5, v6), to be assigned, stable, waiting, left by all",
    {
        "none, v5": "NONE, Dead, '', '', []",
        "none, v6": "GROUP_ID_NOT_FOUND(69), Dead, '', '', []",
        "twice in one request": "Dead, Dead",
        "to be assigned": "NONE, CompletingRebalance, 'consumer', '', ['' of dynamic, no metadata]",
        "stable": "NONE, Stable, 'consumer', 'range', ['all' of dynamic, told metadata]",
        "waiting": "NONE, PreparingRebalance, 'consumer', '', 2 members",
        "left by all": "NONE, Empty, 'consumer', '', []",
    },
    differs={"twice in one request": "Dead"},
    note="a group named twice is told once: telling a large one costs as much as it has members",
)
def g74(world: World) -> Facts:
    group, names = fresh(world)
    facts = {"none, v5": described(world, group, 5), "none, v6": described(world, group)}
    twice = world.call("describe_groups", 6, {"groups": (group, group)}).body.groups
    facts["twice in one request"] = ", ".join(one.group_state for one in twice)
    with Member(world, group, "A", names) as a, Member(world, group, "B", names) as b:
        a.join()
        facts["to be assigned"] = described(world, group)
        a.sync({a.member_id: b"all"})
        facts["stable"] = described(world, group)
        b.send_join()
        beats_until(world, a, AGAIN)
        facts["waiting"] = counted(described(world, group))
        leave(world, group, {"member_id": b.member_id}, {"member_id": a.member_id})
        facts["left by all"] = described(world, group)
    return facts


@scenario(
    "G75",
    "ListGroups of a stable, an empty and a simple group: by state and type, in other letters, unknown ones",
    {
        "all": "NONE: empty 'consumer' Empty classic; simple '' Empty classic; stable 'consumer' Stable classic",
        "v3": "NONE: empty 'consumer' - -; simple '' - -; stable 'consumer' - -",
        "v4": "NONE: empty 'consumer' Empty -; simple '' Empty -; stable 'consumer' Stable -",
        "Stable": "NONE: stable 'consumer' Stable classic",
        "stable": "NONE: stable 'consumer' Stable classic",
        "Stable, with blanks": "NONE: stable 'consumer' Stable classic",
        "Empty and Dead": "NONE: empty 'consumer' Empty classic; simple '' Empty classic",
        "no such state": "NONE: ",
        "an empty state": "NONE: ",
        "classic": "NONE: empty 'consumer' Empty classic; simple '' Empty classic; stable 'consumer' Stable classic",
        "CLASSIC": "NONE: empty 'consumer' Empty classic; simple '' Empty classic; stable 'consumer' Stable classic",
        "consumer": "NONE: ",
        "no such type": "NONE: ",
        "Empty and classic": "NONE: empty 'consumer' Empty classic; simple '' Empty classic",
    },
)
def g75(world: World) -> Facts:
    stable, names = fresh(world)
    empty, simple, topic = world.fresh(), world.fresh(), world.topic()
    coordinator(world, empty, simple)
    mine = {stable: "stable", empty: "empty", simple: "simple"}

    def ask(version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> str:
        filters = {"states_filter": states} if version >= 4 else {}
        body = world.call("list_groups", version, filters | ({"types_filter": types} if version >= 5 else {})).body
        told = [
            f"{mine[one.group_id]} {one.protocol_type!r} "
            f"{getattr(one, 'group_state', '-')} {getattr(one, 'group_type', '-')}"
            for one in body.groups
            if one.group_id in mine
        ]
        return f"{error(body.error_code)}: {'; '.join(sorted(told))}"

    part = {"partition_index": 0, "committed_offset": 1}
    body = {"group_id": simple, "generation_id_or_member_epoch": -1, "topics": [{"name": topic, "partitions": [part]}]}
    world.call("offset_commit", 9, body)
    with Member(world, stable, "A", names).stable(), Member(world, empty, "B", names).stable() as b:
        leave(world, empty, {"member_id": b.member_id})
        return {
            "all": ask(),
            "v3": ask(3),
            "v4": ask(4),
            "Stable": ask(states=("Stable",)),
            "stable": ask(states=("stable",)),
            "Stable, with blanks": ask(states=(" Stable ",)),
            "Empty and Dead": ask(states=("Empty", "Dead")),
            "no such state": ask(states=("Resting",)),
            "an empty state": ask(states=("",)),
            "classic": ask(types=("classic",)),
            "CLASSIC": ask(types=("CLASSIC",)),
            "consumer": ask(types=("consumer",)),
            "no such type": ask(types=("other",)),
            "Empty and classic": ask(states=("Empty",), types=("classic",)),
        }


@scenario(
    "G76",
    "FindCoordinator: one group, many, one twice, none; a key type that is not there; v3",
    {
        "one": "NONE at a node",
        "many": "NONE at a node; NONE at a node",
        "twice": "NONE at a node; NONE at a node",
        "none": "none",
        "type 9": "INVALID_REQUEST(42) at none",
        "type -1": "INVALID_REQUEST(42) at none",
        "v3": "NONE at a node",
    },
    differs={"twice": "NONE at a node"},
    note="a key named twice is answered once, so that no answer is larger than what was asked for",
)
def g76(world: World) -> Facts:
    group, _ = fresh(world)

    def ask(*keys: str, kind: int = 0) -> str:
        found = world.call("find_coordinator", 4, {"key_type": kind, "coordinator_keys": keys}).body.coordinators
        return (
            "; ".join(f"{error(one.error_code)} at {'a node' if one.port > 0 else 'none'}" for one in found) or "none"
        )

    old = world.call("find_coordinator", 3, {"key": group, "key_type": 0}).body
    return {
        "one": ask(group),
        "many": ask(group, group + "2"),
        "twice": ask(group, group),
        "none": ask(),
        "type 9": ask(group, kind=9),
        "type -1": ask(group, kind=-1),
        "v3": f"{error(old.error_code)} at {'a node' if old.port > 0 else 'none'}",
    }


@scenario(
    "G78",
    "a partition named twice in an OffsetCommit, once more under its topic named again; a member that leaves twice",
    {
        "committed": "NONE NONE NONE",
        "of no such topic": "UNKNOWN_TOPIC_OR_PARTITION(3) UNKNOWN_TOPIC_OR_PARTITION(3)",
        "then": "NONE: t-0 7 'm'",
        "leaves twice": "NONE: A NONE; A UNKNOWN_MEMBER_ID(25)",
    },
)
def g78(world: World) -> Facts:
    group, names = fresh(world)
    topic = world.topic()
    commits = [(topic, [part(0, 5), part(0, 6)]), (topic, [part(0, 7)])]
    topics = [{"name": name, "partitions": parts} for name, parts in [*commits, ("absent", [part(), part()])]]
    body = world.call("offset_commit", 9, {"group_id": group, **BY_NOBODY, "topics": topics}).body
    facts = {
        name: "; ".join(
            " ".join(error(one.error_code) for one in told.partitions) for told in body.topics if told.name == which
        )
        for name, which in (("committed", topic), ("of no such topic", "absent"))
    }
    facts["then"] = offsets(world, group, [(topic, (0,))], {topic: "t"})
    with Member(world, group, "A", names).stable() as a:
        one = {"member_id": a.member_id}
        facts["leaves twice"] = leave(world, group, one, one, names=names)
    return facts


@scenario(
    "G77",
    "a consumer whose subscription nobody can read, one byte of it: JoinGroup, SyncGroup, its group",
    {
        "joins": "generation 1, range, id A, leader A, members [A]",
        "assigns": "NONE, 'all'",
        "group": "NONE, Stable, 'consumer', 'range', ['all' of dynamic, told metadata]",
    },
)
def g77(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names, protocols=[("range", b"x")]) as a:
        return {"joins": a.join(), "assigns": a.sync({a.member_id: b"all"}), "group": described(world, group)}
