"""G01 to G13, G17 to G20: groups of the classic protocol; both brokers have no initial delay (G02: `group_turns`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.conformance.raw import plain
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import HURRIED_MS_MAX, World, after, error

JOIN, SYNC, HEARTBEAT, LEAVE = 5, 3, 3, 3


class Member:
    """One member of a group, over a connection of its own."""

    def __init__(self, world: World, stack: ExitStack, group: str, instance: str | None = None) -> None:
        self.peer = stack.enter_context(world.connect())
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1

    def ask_to_join(
        self, *, session: int = 10_000, rebalance: int = 10_000, kind: str = "consumer", metadata: bytes = b""
    ) -> None:
        """Send a JoinGroup, and do not wait for its answer."""
        body = {
            "group_id": self.group,
            "session_timeout": session,
            "rebalance_timeout": rebalance,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": kind,
            "protocols": [{"name": "range", "metadata": metadata}],
        }
        self.peer.send("join_group", JOIN, body)

    def joined(self) -> Any:
        """The answer to it."""
        told = self.peer.receive()[1].body
        if error(told.error_code) == "NONE":
            self.member_id, self.generation = told.member_id, told.generation_id
        return told

    def join(self, **options: Any) -> Any:
        """Join as clients do: without an id at first, and with the one that is given out then."""
        self.ask_to_join(**options)
        told = self.joined()
        if int(told.error_code) == 79:
            self.member_id = told.member_id
            self.ask_to_join(**options)
            told = self.joined()
        return told

    def begin_to_join(self, **options: Any) -> None:
        """As `join`, up to the request that waits for the others."""
        self.ask_to_join(**options)
        told = self.joined()
        assert int(told.error_code) == 79
        self.member_id = told.member_id
        self.ask_to_join(**options)

    def ask_to_sync(self, assignments: dict[str, bytes] | None = None) -> None:
        """Send a SyncGroup, and do not wait for its answer."""
        given = [{"member_id": name, "assignment": value} for name, value in (assignments or {}).items()]
        self.peer.send("sync_group", SYNC, {**self.named(), "assignments": given})

    def synced(self) -> str:
        """The answer to it: the error, or the assignment."""
        told = self.peer.receive()[1].body
        code = error(told.error_code)
        return f"assigned {bytes(told.assignment)!r}" if code == "NONE" else code

    def named(self) -> dict[str, Any]:
        """Who asks."""
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }

    def heartbeat(self, **other: Any) -> str:
        return error(self.peer.call("heartbeat", HEARTBEAT, {**self.named(), **other}).body.error_code)

    def leave(self, *members: dict[str, Any]) -> str:
        body = {"group_id": self.group, "members": list(members)}
        told = self.peer.call("leave_group", LEAVE, body).body
        return " ".join([error(told.error_code), *(error(one.error_code) for one in told.members)])

    def commit(self, topic: str, offset: int, metadata: str = "", **other: Any) -> str:
        parts = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}]
        body = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "topics": [{"name": topic, "partitions": parts}],
            **other,
        }
        return error(self.peer.call("offset_commit", 7, body).body.topics[0].partitions[0].error_code)


@contextmanager
def members(world: World, group: str, count: int, **options: Any) -> Iterator[list[Member]]:
    """A stable group of so many members, the leader first."""
    coordinator(world, group)
    with ExitStack() as stack:
        made: list[Member] = []
        for _ in range(count):
            made.append(Member(world, stack, group))
            made[-1].begin_to_join(**options)
            for earlier in made[:-1]:
                while earlier.heartbeat() != "REBALANCE_IN_PROGRESS(27)":
                    pass
                earlier.ask_to_join(**options)
            for each in made:
                assert error(each.joined().error_code) == "NONE"
            for each in made[1:]:
                each.ask_to_sync()
            made[0].ask_to_sync({one.member_id: b"%d" % number for number, one in enumerate(made)})
            for each in made:
                assert each.synced().startswith("assigned")
        yield made


@scenario(
    "G01",
    "JoinGroup v5 without an id; again with the id that is given",
    {"first": "MEMBER_ID_REQUIRED(79), an id", "again": "NONE, generation 1, leader itself, 1 member"},
    alone=True,
)
def g01(world: World) -> Facts:
    coordinator(world, "G01")
    with ExitStack() as stack:
        member = Member(world, stack, "G01")
        member.ask_to_join()
        first = member.joined()
        member.member_id = first.member_id
        again = member.join()
        leads = "leader itself" if again.leader == member.member_id else again.leader
        return {
            "first": f"{error(first.error_code)}, {'an id' if first.member_id.startswith('raw-') else first.member_id}",
            "again": f"{error(again.error_code)}, generation {again.generation_id}, {leads}, "
            f"{len(again.members)} member",
        }


@scenario(
    "G03",
    "a third member joins a stable group of two: heartbeats; its answer when one has joined again, when both have",
    {
        "heartbeats": "REBALANCE_IN_PROGRESS(27) REBALANCE_IN_PROGRESS(27)",
        "one has joined": "nothing",
        "both have": "generation 3, 3 generation 3, 0 generation 3, 0",
    },
    alone=True,
)
def g03(world: World) -> Facts:
    with members(world, "G03", 2) as (leader, follower), ExitStack() as stack:
        third = Member(world, stack, "G03")
        third.begin_to_join()
        while leader.heartbeat() == "NONE":
            pass
        heartbeats = f"{leader.heartbeat()} {follower.heartbeat()}"
        leader.ask_to_join()
        waits = third.peer.silent(0.3)
        follower.ask_to_join()
        told = [each.joined() for each in (leader, follower, third)]
        return {
            "heartbeats": heartbeats,
            "one has joined": "nothing" if waits else "an answer",
            "both have": " ".join(f"generation {one.generation_id}, {len(one.members)}" for one in told),
        }


@scenario(
    "G04",
    "heartbeats of a stable group: as it is, of an old generation, by an unknown id, of an unknown group",
    {
        "as it is": "NONE",
        "old generation": "ILLEGAL_GENERATION(22)",
        "unknown id": "UNKNOWN_MEMBER_ID(25)",
        "unknown group": "UNKNOWN_MEMBER_ID(25)",
    },
    alone=True,
)
def g04(world: World) -> Facts:
    coordinator(world, "G04-none")
    with members(world, "G04", 1) as (member,):
        return {
            "as it is": member.heartbeat(),
            "old generation": member.heartbeat(generation_id=0),
            "unknown id": member.heartbeat(member_id="nobody"),
            "unknown group": member.heartbeat(group_id="G04-none"),
        }


@scenario(
    "G05",
    "one of two members is silent for its session of 6 s: what the other is told, and what it is itself",
    {"the other": "REBALANCE_IN_PROGRESS(27), 6000 ms", "itself": "UNKNOWN_MEMBER_ID(25)"},
    alone=True,
)
def g05(world: World) -> Facts:
    with members(world, "G05", 2, session=6000) as (leader, follower):
        assert follower.heartbeat() == "NONE"
        began = time.monotonic()
        while (told := leader.heartbeat()) == "NONE":
            leader.peer.silent(0.02)
        ms = (time.monotonic() - began) * 1000
        return {"the other": f"{told}, {after(ms, 6000, early=HURRIED_MS_MAX)}", "itself": follower.heartbeat()}


@scenario(
    "G06",
    "JoinGroup with sessions of 5999, 1800001 and 6000 ms; of a nameless group; of another protocol type",
    {
        "5999": "INVALID_SESSION_TIMEOUT(26)",
        "1800001": "INVALID_SESSION_TIMEOUT(26)",
        "6000": "MEMBER_ID_REQUIRED(79)",
        "nameless": "INVALID_GROUP_ID(24)",
        "other type": "INCONSISTENT_GROUP_PROTOCOL(23)",
    },
    alone=True,
)
def g06(world: World) -> Facts:
    with members(world, "G06", 1), ExitStack() as stack:
        facts: Facts = {}
        for session in (5999, 1800001, 6000):
            member = Member(world, stack, "G06")
            member.ask_to_join(session=session)
            facts[str(session)] = error(member.joined().error_code)
        member = Member(world, stack, "")
        member.ask_to_join()
        facts["nameless"] = error(member.joined().error_code)
        member = Member(world, stack, "G06")
        member.ask_to_join(kind="connect")
        facts["other type"] = error(member.joined().error_code)
        return facts


@scenario(
    "G07",
    "a follower's SyncGroup before its leader's, which leaves it out; the same again; of an old generation",
    {
        "before": "nothing",
        "leader": "assigned b'all'",
        "follower": "assigned b''",
        "again": "assigned b''",
        "old generation": "ILLEGAL_GENERATION(22)",
    },
    alone=True,
)
def g07(world: World) -> Facts:
    with members(world, "G07", 2) as (leader, follower):
        leader.ask_to_join()
        while follower.heartbeat() != "REBALANCE_IN_PROGRESS(27)":
            pass
        follower.ask_to_join()
        leader.joined()
        follower.joined()
        follower.ask_to_sync()
        before = "nothing" if follower.peer.silent(0.3) else "an answer"
        leader.ask_to_sync({leader.member_id: b"all"})
        facts = {"before": before, "leader": leader.synced(), "follower": follower.synced()}
        follower.ask_to_sync()
        facts["again"] = follower.synced()
        follower.generation -= 1
        follower.ask_to_sync()
        facts["old generation"] = follower.synced()
        return facts


@scenario(
    "G08",
    "the leader never assigns: a follower that waits, and the leader, after a rebalance timeout of 1500 ms",
    {"follower": "REBALANCE_IN_PROGRESS(27), 1500 ms", "leader": "UNKNOWN_MEMBER_ID(25)"},
    alone=True,
)
def g08(world: World) -> Facts:
    with members(world, "G08", 2) as (leader, follower):
        leader.ask_to_join(rebalance=1500)
        while follower.heartbeat() != "REBALANCE_IN_PROGRESS(27)":
            pass
        follower.ask_to_join(rebalance=1500)
        began = time.monotonic()
        follower.generation += 1
        follower.ask_to_sync()  # before the answer is there: no time passes that the timeout could run out in
        leader.joined()
        follower.joined()
        told = follower.synced()
        ms = (time.monotonic() - began) * 1000
        return {"follower": f"{told}, {after(ms, 1500)}", "leader": leader.heartbeat()}


@scenario(
    "G09",
    "a static member comes back under a new id to a stable group: its answer; its assignment; the old id; the others",
    {
        "back": "NONE, generation 2, the leader is the old one, 0 members",
        "assignment": "assigned b'b'",
        "old id": "FENCED_INSTANCE_ID(82)",
        "the other": "NONE",
    },
    alone=True,
)
def g09(world: World) -> Facts:
    coordinator(world, "G09")
    with ExitStack() as stack:
        a, b = Member(world, stack, "G09", "a"), Member(world, stack, "G09", "b")
        a.join()
        b.ask_to_join()
        while a.heartbeat() != "REBALANCE_IN_PROGRESS(27)":
            pass
        a.ask_to_join()
        a.joined()
        b.joined()
        b.ask_to_sync()
        a.ask_to_sync({a.member_id: b"a", b.member_id: b"b"})
        a.synced()
        b.synced()
        back = Member(world, stack, "G09", "b")
        told = back.join()
        leader = "the old one" if told.leader == a.member_id else "another"
        back.ask_to_sync()
        return {
            "back": f"{error(told.error_code)}, generation {told.generation_id}, the leader is {leader}, "
            f"{len(told.members)} members",
            "assignment": back.synced(),
            "old id": b.heartbeat(),
            "the other": a.heartbeat(),
        }


@scenario(
    "G10",
    "LeaveGroup v3 of a member and an unknown one; of a static one by its instance alone, twice; what the rest is told",
    {
        "left": "NONE NONE UNKNOWN_MEMBER_ID(25)",
        "the rest": "REBALANCE_IN_PROGRESS(27)",
        "by instance": "NONE NONE",
        "again": "NONE UNKNOWN_MEMBER_ID(25)",
    },
    alone=True,
)
def g10(world: World) -> Facts:
    with members(world, "G10", 2) as (leader, follower), ExitStack() as stack:
        facts = {"left": leader.leave({"member_id": follower.member_id}, {"member_id": "nobody"})}
        facts["the rest"] = leader.heartbeat()
        coordinator(world, "G10-static")
        static = Member(world, stack, "G10-static", "i")
        static.join()
        for name in ("by instance", "again"):
            facts[name] = static.leave({"member_id": "", "group_instance_id": "i"})
        return facts


def fetched(world: World, group: str, topic: str, *partitions: int) -> str:
    """What a group has committed."""
    asked = [{"name": topic, "partition_indexes": partitions}]
    told = world.call("offset_fetch", 7, {"group_id": group, "topics": asked}).body
    parts = [f"{one.committed_offset} {one.metadata!r}" for topic in told.topics for one in topic.partitions]
    return ", ".join([error(told.error_code), *parts])


@scenario(
    "G11",
    "OffsetCommit without generation and group; of an unknown partition; OffsetFetch of both, and of an unknown group",
    {
        "commit": "NONE",
        "unknown topic": "UNKNOWN_TOPIC_OR_PARTITION(3)",
        "fetch": "NONE, 5 'm', -1 ''",
        "unknown group": "NONE, -1 ''",
        "of a generation": "ILLEGAL_GENERATION(22)",
    },
    alone=True,
)
def g11(world: World) -> Facts:
    coordinator(world, "G11", "G11-none")
    topic = world.topic()
    with ExitStack() as stack:
        member, other = Member(world, stack, "G11"), Member(world, stack, "G11-none")
        return {
            "commit": member.commit(topic, 5, "m"),
            "unknown topic": member.commit("nothing", 5),
            "fetch": fetched(world, "G11", topic, 0, 7),
            "unknown group": fetched(world, "G11-none", topic, 0),
            "of a generation": other.commit(topic, 5, generation_id_or_member_epoch=1),
        }


@scenario(
    "G12",
    "OffsetCommit to a stable group: by nobody, by its member, of another generation, with 4096 and 4097 characters",
    {
        "nobody": "UNKNOWN_MEMBER_ID(25)",
        "member": "NONE",
        "another generation": "ILLEGAL_GENERATION(22)",
        "4096": "NONE",
        "4097": "OFFSET_METADATA_TOO_LARGE(12)",
    },
    alone=True,
)
def g12(world: World) -> Facts:
    topic = world.topic()
    with members(world, "G12", 1) as (member,):
        return {
            "nobody": member.commit(topic, 5, member_id="", generation_id_or_member_epoch=-1),
            "member": member.commit(topic, 5),
            "another generation": member.commit(topic, 5, generation_id_or_member_epoch=9),
            "4096": member.commit(topic, 5, "m" * 4096),
            "4097": member.commit(topic, 5, "m" * 4097),
        }


def deleted(world: World, *groups: str) -> str:
    """DeleteGroups; the errors in words."""
    told = world.call("delete_groups", 1, {"groups_names": groups}).body.results
    return " ".join(f"{one.group_id} {error(one.error_code)}" for one in sorted(told, key=lambda one: one.group_id))


@scenario(
    "G13",
    "DeleteGroups of a stable group and of an unknown one; of the same, empty; what it had committed",
    {
        "stable": "G13 NON_EMPTY_GROUP(68) G13-none GROUP_ID_NOT_FOUND(69)",
        "empty": "G13 NONE",
        "committed": "NONE, -1 ''",
        "described": "Dead",
    },
    alone=True,
)
def g13(world: World) -> Facts:
    topic = world.topic()
    coordinator(world, "G13-none")
    with members(world, "G13", 1) as (member,):
        member.commit(topic, 5)
        facts = {"stable": deleted(world, "G13", "G13-none")}
        member.leave({"member_id": member.member_id})
        facts["empty"] = deleted(world, "G13")
        facts["committed"] = fetched(world, "G13", topic, 0)
        facts["described"] = world.call("describe_groups", 5, {"groups": ("G13",)}).body.groups[0].group_state
        return facts


@scenario(
    "G17",
    "DescribeGroups and ListGroups of a stable group and of the same, empty; lists by state and type",
    {
        "stable": "Stable consumer range, b'meta' b'0', raw /127.0.0.1",
        "in state Stable": "G17 consumer Stable classic",
        "in state stable, type Classic": "G17 consumer Stable classic",
        "in state Empty": "none",
        "of type consumer": "none",
        "empty": "Empty consumer , ",
    },
    alone=True,
)
def g17(world: World) -> Facts:
    def described() -> str:
        told = world.call("describe_groups", 5, {"groups": ("G17",)}).body.groups[0]
        each = [
            f"{bytes(one.member_metadata)!r} {bytes(one.member_assignment)!r}, {one.client_id} {one.client_host}"
            for one in told.members
        ]
        return f"{told.group_state} {told.protocol_type} {told.protocol_data}, {' '.join(each)}"

    def listed(states: tuple[str, ...], types: tuple[str, ...] = ()) -> str:
        told = plain(world.call("list_groups", 5, {"states_filter": states, "types_filter": types}).body)["groups"]
        mine = [" ".join(one.values()) for one in told if one["group_id"] == "G17"]
        return mine[0] if mine else "none"

    with members(world, "G17", 1, metadata=b"meta") as (member,):
        facts = {
            "stable": described(),
            "in state Stable": listed(("Stable",)),
            "in state stable, type Classic": listed(("stable",), ("Classic",)),
            "in state Empty": listed(("Empty",)),
            "of type consumer": listed((), ("consumer",)),
        }
        member.leave({"member_id": member.member_id})
        facts["empty"] = described()
        return facts


@scenario(
    "G18",
    "OffsetDelete of a stable group: of a topic it consumes, of another, of an unknown one; of the first, empty",
    {
        "stable": "NONE: GROUP_SUBSCRIBED_TO_TOPIC(86) NONE UNKNOWN_TOPIC_OR_PARTITION(3)",
        "left": "NONE, 5 ''; NONE, -1 ''",
        "empty": "NONE: NONE",
        "then": "NONE, -1 ''",
    },
    alone=True,
)
def g18(world: World) -> Facts:
    mine, other = world.topic(), world.topic()

    def forget(*topics: str) -> str:
        asked = [{"name": name, "partitions": [{"partition_index": 0}]} for name in topics]
        told = world.call("offset_delete", 0, {"group_id": "G18", "topics": asked}).body
        codes = {topic.name: error(topic.partitions[0].error_code) for topic in told.topics}
        return f"{error(told.error_code)}: {' '.join(codes[name] for name in topics)}"

    name = mine.encode()
    metadata = b"\x00\x00\x00\x00\x00\x01" + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"
    with members(world, "G18", 1, metadata=metadata) as (member,):
        for topic in (mine, other):
            member.commit(topic, 5)
        facts = {"stable": forget(mine, other, "nothing")}
        facts["left"] = f"{fetched(world, 'G18', mine, 0)}; {fetched(world, 'G18', other, 0)}"
        member.leave({"member_id": member.member_id})
        facts["empty"] = forget(mine)
        facts["then"] = fetched(world, "G18", mine, 0)
        return facts


@scenario(
    "G19",
    "while a join waits: heartbeat, commit and SyncGroup of another member; JoinGroup of the one that waits, once more",
    {
        "heartbeat": "REBALANCE_IN_PROGRESS(27)",
        "commit": "NONE",
        "sync": "REBALANCE_IN_PROGRESS(27)",
        "in the end": "generation 3 generation 3",
    },
    alone=True,
)
def g19(world: World) -> Facts:
    topic = world.topic()
    with members(world, "G19", 2) as (leader, follower):
        leader.ask_to_join()
        while follower.heartbeat() == "NONE":
            pass
        facts = {"heartbeat": follower.heartbeat(), "commit": follower.commit(topic, 5)}
        follower.ask_to_sync()
        facts["sync"] = follower.synced()
        follower.ask_to_join()
        told = [each.joined() for each in (leader, follower)]
        facts["in the end"] = " ".join(f"generation {one.generation_id}" for one in told)
        return facts


@scenario(
    "G20",
    "a member's only protocol is another's second choice; what is elected; who knows neither",
    {"elected": "y y", "neither": "INCONSISTENT_GROUP_PROTOCOL(23)"},
    alone=True,
)
def g20(world: World) -> Facts:
    coordinator(world, "G20")

    def ask(peer: Any, member_id: str, *names: str) -> None:
        body = {
            "group_id": "G20",
            "session_timeout": 10000,
            "rebalance_timeout": 10000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": b""} for name in names],
        }
        peer.send("join_group", 3, body)

    with world.connect() as one, world.connect() as two, world.connect() as three:
        ask(one, "", "x", "y")
        first = one.receive()[1].body
        ask(two, "", "y")
        named = {"group_id": "G20", "generation_id": first.generation_id, "member_id": first.member_id}
        while int(one.call("heartbeat", HEARTBEAT, named).body.error_code) == 0:
            pass
        ask(one, first.member_id, "x", "y")
        told = [peer.receive()[1].body for peer in (one, two)]
        ask(three, "", "z")
        neither = error(three.receive()[1].body.error_code)
        return {"elected": " ".join(each.protocol_name for each in told), "neither": neither}
