"""G50 to G57, G59: members of classic groups join, assign, stay, leave and are missed."""

from tests.conformance.members import JOIN, Member, Names, beats_until, join_body, joined, leave, synced
from tests.conformance.raw import fitting
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import EARLY_MS_MAX, World

AGAIN = "REBALANCE_IN_PROGRESS(27)"


def fresh(world: World) -> tuple[str, Names]:
    """A group that nobody used, with its coordinator, and names for its members."""
    group = world.fresh()
    coordinator(world, group)
    return group, {}


@scenario(
    "G50",
    "a new group, v9: JoinGroup without an id, with the one given, and again; without an id at v3",
    {
        "without id": "MEMBER_ID_REQUIRED(79), id new",
        "its id": "raw- True",
        "with it": "generation 1, range, id A, leader A, members [A]",
        "again": "generation 1, range, id A, leader A, members [A]",
        "assigned": "NONE, 'all'",
        "leader again": "generation 2, range, id A, leader A, members [A]",
        "v3": "generation 1, range, id B, leader B, members [B]",
    },
)
def g50(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names) as a:
        required = a.peer.call("join_group", JOIN, join_body(group))
        facts = {"without id": joined(required, names), "its id": f"raw- {required.body.member_id[:4] == 'raw-'}"}
        a.name_itself(required.body.member_id)
        facts["with it"] = a.join()
        facts["again"] = a.join()
        facts["assigned"] = a.sync({a.member_id: b"all"})
        facts["leader again"] = a.join()
    coordinator(world, group + "-v3")
    old = world.call("join_group", 3, fitting("join_group", 3, join_body(group + "-v3")))
    return facts | {"v3": joined(old, {old.body.member_id: "B"})}


@scenario(
    "G52",
    "a stable group of one; a second joins: what the first hears, and both, when the first joins again",
    {
        "A hears": "REBALANCE_IN_PROGRESS(27)",
        "B waits": "True",
        "A syncs": "REBALANCE_IN_PROGRESS(27)",
        "A joins": "generation 2, range, id A, leader A, members [A B]",
        "B joined": "generation 2, range, id B, leader A, members []",
        "old generation": "ILLEGAL_GENERATION(22)",
        "A assigns": "NONE, 'a'",
        "B is assigned": "NONE, 'b'",
        "heartbeats": "NONE, NONE",
    },
)
def g52(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names).stable() as a, Member(world, group, "B", names) as b:
        b.send_join()
        facts = {"A hears": beats_until(world, a, AGAIN), "B waits": str(b.peer.silent(0.1))}
        facts["A syncs"] = a.sync()
        facts["A joins"] = a.join()
        facts["B joined"] = b.heard()
        facts["old generation"] = a.heartbeat(generation_id=1)
        facts["A assigns"] = a.sync({a.member_id: b"a", b.member_id: b"b"})
        facts["B is assigned"] = b.sync()
        facts["heartbeats"] = f"{a.heartbeat()}, {b.heartbeat()}"
    return facts


@scenario(
    "G52b",
    "a stable member with a rebalance timeout of 1000 ms never joins again: the second has the group then",
    {
        "B joined": "generation 2, range, id B, leader B, members [B]",
        "after": "1000 ms or more",
        "A": "UNKNOWN_MEMBER_ID(25)",
        "A commits nothing": "UNKNOWN_MEMBER_ID(25)",
    },
)
def g52b(world: World) -> Facts:
    group, names = fresh(world)
    with (
        Member(world, group, "A", names, rebalance_timeout=1000) as a,
        Member(world, group, "B", names, rebalance_timeout=500) as b,
    ):
        a.send_join()
        a.send_sync(1, {a.member_id: b"all"})
        a.heard()
        assert synced(a.peer.receive()[1]) == "NONE, 'all'"
        b.ask_id()
        reply = b.peer.call("join_group", JOIN, join_body(group, b.member_id, rebalance_timeout=500))
        return {
            "B joined": joined(reply, names),
            "after": "1000 ms or more" if reply.ms >= 1000 - EARLY_MS_MAX else f"{reply.ms:.1f} ms",
            "A": a.heartbeat(),
            "A commits nothing": a.sync(),
        }


@scenario(
    "G53",
    "Heartbeat: of an older and a later generation, an unknown member, group and instance; before the assignment",
    {
        "before the assignment": "NONE",
        "in order": "NONE",
        "generation 0": "ILLEGAL_GENERATION(22)",
        "generation 2": "ILLEGAL_GENERATION(22)",
        "generation -1": "ILLEGAL_GENERATION(22)",
        "unknown member": "UNKNOWN_MEMBER_ID(25)",
        "no member": "UNKNOWN_MEMBER_ID(25)",
        "unknown instance": "UNKNOWN_MEMBER_ID(25)",
        "unknown group": "UNKNOWN_MEMBER_ID(25)",
    },
)
def g53(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names) as a:
        a.join()
        facts = {"before the assignment": a.heartbeat()}
        a.sync({a.member_id: b"all"})
        return facts | {
            "in order": a.heartbeat(),
            "generation 0": a.heartbeat(generation_id=0),
            "generation 2": a.heartbeat(generation_id=2),
            "generation -1": a.heartbeat(generation_id=-1),
            "unknown member": a.heartbeat(member_id="nobody"),
            "no member": a.heartbeat(member_id=""),
            "unknown instance": a.heartbeat(group_instance_id="i"),
            "unknown group": a.heartbeat(group_id=group + "-not"),
        }


@scenario(
    "G54",
    "a member with a session timeout of 6000 ms falls silent: the other is told to join again, it is unknown",
    {
        "A": "generation 2, range, id A, leader A, members [A B]",
        "B": "generation 2, range, id B, leader A, members []",
        "B is assigned": "NONE, 'b'",
        "A hears": "REBALANCE_IN_PROGRESS(27)",
        "B hears": "UNKNOWN_MEMBER_ID(25)",
        "A joins": "generation 3, range, id A, leader A, members [A]",
    },
)
def g54(world: World) -> Facts:
    group, names = fresh(world)
    with (
        Member(world, group, "A", names).stable() as a,
        Member(world, group, "B", names, session_timeout=6000) as b,
    ):
        b.send_join()
        b.send_sync(2)
        beats_until(world, a, AGAIN)
        a.send_join()
        facts = {"A": a.heard(), "B": b.heard()}
        a.sync({a.member_id: b"a", b.member_id: b"b"})
        facts["B is assigned"] = synced(b.peer.receive()[1])
        facts["A hears"] = beats_until(world, a, AGAIN)
        facts["B hears"] = b.heartbeat()
        facts["A joins"] = a.join()
    return facts


@scenario(
    "G55",
    "JoinGroup with session timeouts of 5999, 6000, 1800000, 1800001, 0 and -1 ms",
    {
        "5999 ms": "INVALID_SESSION_TIMEOUT(26), id none",
        "6000 ms": "MEMBER_ID_REQUIRED(79), id new",
        "1800000 ms": "MEMBER_ID_REQUIRED(79), id new",
        "1800001 ms": "INVALID_SESSION_TIMEOUT(26), id none",
        "0 ms": "INVALID_SESSION_TIMEOUT(26), id none",
        "-1 ms": "INVALID_SESSION_TIMEOUT(26), id none",
    },
)
def g55(world: World) -> Facts:
    group, names = fresh(world)
    return {
        f"{timeout} ms": joined(world.call("join_group", JOIN, join_body(group, session_timeout=timeout)), names)
        for timeout in (5999, 6000, 1800000, 1800001, 0, -1)
    }


@scenario(
    "G56",
    "two joined: the follower syncs first and waits; wrong protocols, generations, members; the leader omits it",
    {
        "other protocol": "INCONSISTENT_GROUP_PROTOCOL(23)",
        "other type": "INCONSISTENT_GROUP_PROTOCOL(23)",
        "generation 1": "ILLEGAL_GENERATION(22)",
        "generation 3": "ILLEGAL_GENERATION(22)",
        "unknown member": "UNKNOWN_MEMBER_ID(25)",
        "unknown group": "UNKNOWN_MEMBER_ID(25)",
        "unknown instance": "UNKNOWN_MEMBER_ID(25)",
        "B waits": "True",
        "B's heartbeat elsewhere": "NONE",
        "A assigns itself": "NONE, 'all'",
        "B has": "b''",
        "B again": "NONE, ''",
        "A changes its mind": "NONE, 'all'",
        "null protocol": "INCONSISTENT_GROUP_PROTOCOL(23)",
    },
)
def g56(world: World) -> Facts:
    group, names = fresh(world)
    with (
        Member(world, group, "A", names).stable() as a,
        Member(world, group, "B", names) as b,
        Member(world, group, "C", names) as other,
    ):
        b.send_join()
        beats_until(world, a, AGAIN)
        a.send_join()
        a.heard(), b.heard()
        facts = {
            "other protocol": b.sync(protocol_name="roundrobin"),
            "other type": b.sync(protocol_type="connect"),
            "generation 1": b.sync(generation_id=1),
            "generation 3": b.sync(generation_id=3),
            "unknown member": b.sync(member_id="nobody"),
            "unknown group": b.sync(group_id=group + "-not"),
            "unknown instance": b.sync(group_instance_id="i"),
        }
        b.peer.send("sync_group", 5, b.sync_body())
        facts["B waits"] = str(b.peer.silent(0.1))
        facts["B's heartbeat elsewhere"] = other.heartbeat(member_id=b.member_id, generation_id=2)
        facts["A assigns itself"] = a.sync({a.member_id: b"all", "stranger": b"x"})
        facts["B has"] = repr(b.peer.receive()[1].body.assignment)
        facts["B again"] = b.sync()
        facts["A changes its mind"] = a.sync({a.member_id: b"less"})
        facts["null protocol"] = b.sync(protocol_name=None, protocol_type=None)
    return facts


@scenario(
    "G57",
    "joined, but the leader never assigns: at the end of the rebalance timeout (1000 ms) who did not sync is out",
    {
        "B's SyncGroup": "REBALANCE_IN_PROGRESS(27)",
        "A": "UNKNOWN_MEMBER_ID(25)",
        "B joins": "generation 3, range, id B, leader B, members [B]",
    },
)
def g57(world: World) -> Facts:
    group, names = fresh(world)
    with (
        Member(world, group, "A", names).stable() as a,
        Member(world, group, "B", names, rebalance_timeout=1000) as b,
    ):
        b.send_join()
        b.send_sync(2)
        b.send_join()
        beats_until(world, a, AGAIN)
        a.join(rebalance_timeout=1000)
        b.heard()
        return {"B's SyncGroup": synced(b.peer.receive()[1]), "B joins": b.heard(), "A": a.heartbeat()}


@scenario(
    "G59",
    "LeaveGroup of a dynamic member, of a static one by its instance; the last leaves; who left",
    {
        "B leaves": "NONE: B NONE",
        "A hears": "REBALANCE_IN_PROGRESS(27)",
        "B's heartbeat": "UNKNOWN_MEMBER_ID(25)",
        "A joins": "generation 3, range, id A, leader A, members [A]",
        "assigned": "NONE, 'a'",
        "A leaves": "NONE: i NONE",
        "A's heartbeat": "UNKNOWN_MEMBER_ID(25)",
        "again": "NONE: i UNKNOWN_MEMBER_ID(25)",
        "A comes back": "generation 5, range, id A, leader A, members [A]",
    },
)
def g59(world: World) -> Facts:
    group, names = fresh(world)
    with (
        Member(world, group, "A", names, group_instance_id="i").stable() as a,
        Member(world, group, "B", names) as b,
    ):
        b.send_join()
        beats_until(world, a, AGAIN)
        a.send_join()
        a.heard(), b.heard()
        a.sync({a.member_id: b"a", b.member_id: b"b"})
        b.sync()
        facts = {"B leaves": leave(world, group, {"member_id": b.member_id}, names=names), "A hears": a.heartbeat()}
        facts["B's heartbeat"] = b.heartbeat()
        facts["A joins"] = a.join()
        facts["assigned"] = a.sync({a.member_id: b"a"})
        facts["A leaves"] = leave(world, group, {"member_id": "", "group_instance_id": "i"}, names=names)
        facts["A's heartbeat"] = a.heartbeat()
        facts["again"] = leave(world, group, {"member_id": "", "group_instance_id": "i"}, names=names)
        a.instance_id, a.member_id = "i", ""
        facts["A comes back"] = a.join()
    return facts


@scenario(
    "G59b",
    "LeaveGroup of many: unknown, twice the same, a static one by id and by instance, with the wrong one, of nobody",
    {
        "no such group": "NONE: nobody UNKNOWN_MEMBER_ID(25)",
        "nobody of none": "NONE: ",
        "nobody": "NONE: ",
        "unknown": "NONE: nobody UNKNOWN_MEMBER_ID(25); j UNKNOWN_MEMBER_ID(25)",
        "no id": "NONE: None UNKNOWN_MEMBER_ID(25)",
        "wrong instance": "NONE: A UNKNOWN_MEMBER_ID(25)",
        "wrong id": "NONE: nobody FENCED_INSTANCE_ID(82)",
        "pending": "NONE: P NONE",
        "many": "NONE: nobody UNKNOWN_MEMBER_ID(25); A NONE; A UNKNOWN_MEMBER_ID(25)",
        "left": "UNKNOWN_MEMBER_ID(25)",
    },
)
def g59b(world: World) -> Facts:
    group, names = fresh(world)
    nobody = {"member_id": "nobody"}
    facts = {"no such group": leave(world, group, nobody), "nobody of none": leave(world, group)}
    with Member(world, group, "A", names, group_instance_id="i").stable() as a, Member(world, group, "P", names) as p:
        p.ask_id()
        mine = {"member_id": a.member_id}
        facts["nobody"] = leave(world, group)
        facts["unknown"] = leave(world, group, nobody, {"member_id": "", "group_instance_id": "j"})
        facts["no id"] = leave(world, group, {"member_id": ""})
        facts["wrong instance"] = leave(world, group, mine | {"group_instance_id": "j"}, names=names)
        facts["wrong id"] = leave(world, group, nobody | {"group_instance_id": "i"})
        facts["pending"] = leave(world, group, {"member_id": p.member_id}, names=names)
        facts["many"] = leave(world, group, nobody, mine, mine, names=names)
        facts["left"] = a.heartbeat()
    return facts
