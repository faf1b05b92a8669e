"""G58 and G83: static members (KIP-345) come back, commit, and are fenced."""

from tests.conformance.members import JOIN, Member, beats_until, join_body, joined, leave
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.joining import AGAIN, fresh
from tests.conformance.scenarios.offsets import Commits, by, commit, part
from tests.conformance.world import World


@scenario(
    "G58",
    "a static member comes back to a stable group without its id, unchanged; the old id; changed",
    {
        "joined": "generation 1, range, id A, leader A, members [A]",
        "assigned": "NONE, 'all'",
        "back": "generation 1, range, id B, leader B, members [B], skip",
        "its SyncGroup": "NONE, 'all'",
        "old id, heartbeat": "FENCED_INSTANCE_ID(82)",
        "old id, SyncGroup": "FENCED_INSTANCE_ID(82)",
        "old id, JoinGroup": "FENCED_INSTANCE_ID(82), id A",
        "old id, left": "NONE: A FENCED_INSTANCE_ID(82)",
        "without instance": "NONE",
        "other instance": "UNKNOWN_MEMBER_ID(25)",
        "unknown id": "FENCED_INSTANCE_ID(82)",
        "back at v8": "generation 1, range, id C, leader B, members []",
    },
)
def g58(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names, group_instance_id="i") as a, Member(world, group, "B", names) as b:
        facts = {"joined": a.join(), "assigned": a.sync({a.member_id: b"all"})}
        b.instance_id = "i"
        b.asks["group_instance_id"] = "i"
        facts["back"] = b.join()
        facts["its SyncGroup"] = b.sync()
        facts["old id, heartbeat"] = a.heartbeat()
        facts["old id, SyncGroup"] = a.sync()
        facts["old id, JoinGroup"] = a.join()
        facts["old id, left"] = leave(world, group, {"member_id": a.member_id, "group_instance_id": "i"}, names=names)
        facts["without instance"] = b.heartbeat(group_instance_id=None)
        facts["other instance"] = b.heartbeat(group_instance_id="j")
        facts["unknown id"] = b.heartbeat(member_id="nobody")
        old = b.peer.call("join_group", 8, join_body(group, group_instance_id="i"))
        names[old.body.member_id] = "C"
        facts["back at v8"] = joined(old, names)
    return facts


@scenario(
    "G58b",
    "static members: an id with an unknown instance; back while the group waits, and while it is to be assigned",
    {
        "id and unknown instance": "UNKNOWN_MEMBER_ID(25), id new",
        "unknown id, known instance": "FENCED_INSTANCE_ID(82), id new",
        "C takes the place": "generation 2, range, id C, leader C, members [B C]",
        "B joined": "generation 2, range, id B, leader C, members []",
        "the old id": "FENCED_INSTANCE_ID(82)",
        "not assigned yet": "NONE",
    },
)
def g58b(world: World) -> Facts:
    group, names = fresh(world)
    with (
        Member(world, group, "A", names, group_instance_id="i") as a,
        Member(world, group, "B", names) as b,
        Member(world, group, "C", names, group_instance_id="i") as c,
    ):
        facts = {
            "id and unknown instance": joined(
                world.call("join_group", JOIN, join_body(group, "nobody", group_instance_id="j")), names
            )
        }
        a.stable()
        facts["unknown id, known instance"] = joined(
            world.call("join_group", JOIN, join_body(group, "nobody", group_instance_id="i")), names
        )
        b.send_join()
        beats_until(world, a, AGAIN)
        facts["C takes the place"] = c.join()
        facts["B joined"] = b.heard()
        facts["the old id"] = a.heartbeat()
        facts["not assigned yet"] = c.heartbeat()
    return facts


@scenario(
    "G83",
    "commits by a static member, by its old id after it came back, without its instance, under another one",
    {
        "A": "NONE",
        "A's old id": "FENCED_INSTANCE_ID(82)",
        "A's old id, no instance": "UNKNOWN_MEMBER_ID(25)",
        "B": "NONE",
        "B, no instance": "NONE",
        "B, another instance": "UNKNOWN_MEMBER_ID(25)",
        "the instance, no id": "FENCED_INSTANCE_ID(82)",
        "generation -1, the instance": "FENCED_INSTANCE_ID(82)",
    },
)
def g83(world: World) -> Facts:
    group, names = fresh(world)
    one: Commits = [(world.topic(), [part()])]
    with (
        Member(world, group, "A", names, group_instance_id="i").stable() as a,
        Member(world, group, "B", names, group_instance_id="i") as b,
    ):
        facts = {"A": commit(world, group, one, by(a))}
        b.join()
        return facts | {
            "A's old id": commit(world, group, one, by(a)),
            "A's old id, no instance": commit(world, group, one, by(a, group_instance_id=None)),
            "B": commit(world, group, one, by(b)),
            "B, no instance": commit(world, group, one, by(b, group_instance_id=None)),
            "B, another instance": commit(world, group, one, by(b, group_instance_id="j")),
            "the instance, no id": commit(world, group, one, by(b, member_id="")),
            "generation -1, the instance": commit(
                world, group, one, by(b, member_id="", generation_id_or_member_epoch=-1)
            ),
        }
