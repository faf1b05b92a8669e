"""K19 to K24: groups that change between the classic protocol and that of consumers, with members and without."""

import struct
from typing import Any

from tests.conformance.consumers import Consumer, described, listed
from tests.conformance.members import JOIN, Member, beats_until, join_body, joined, leave, subscription
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.consumer_groups import fresh
from tests.conformance.world import World, error

AGAIN = "REBALANCE_IN_PROGRESS(27)"


def assignment(topic: str, *numbers: int) -> bytes:
    """What a leader gives: `ConsumerProtocolAssignment` v0."""
    name = topic.encode()
    parts = struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return struct.pack(">hih", 0, 1, len(name)) + name + parts + struct.pack(">i", -1)


def numbers(given: bytes) -> str:
    """The partitions of an assignment of one topic at most."""
    version, topics = struct.unpack_from(">hi", given)
    if not topics:
        return f"v{version} []"
    (length,) = struct.unpack_from(">h", given, 6)
    (count,) = struct.unpack_from(">i", given, 8 + length)
    return f"v{version} {list(struct.unpack_from(f'>{count}i', given, 12 + length))}"


def synced(member: Member, given: dict[str, bytes] | None = None) -> str:
    """SyncGroup: the partitions that the member is told."""
    body = member.peer.call("sync_group", 5, member.sync_body(given)).body
    code = error(body.error_code)
    return f"{code} {numbers(body.assignment)}" if code == "NONE" else code


def classic(world: World, group: str, topic: str) -> Member:
    """The only member of a classic group, which has given itself all four partitions of a topic."""
    member = Member(world, group, "C", {}, protocols=[("range", subscription(topic))])
    assert member.join().startswith("generation 1")
    assert synced(member, {member.member_id: assignment(topic, 0, 1, 2, 3)}) == "NONE v0 [0, 1, 2, 3]"
    return member


@scenario(
    "K19",
    "a consumer joins a classic group of one member: the group is a consumer group, and both go on",
    {
        "B joins": "epoch 2, assigned []",
        "listed": "consumer Reconciling consumer",
        "described": "Reconciling, epoch 2, target 2, 'uniform'; B type 1 epoch 2 has [] of [0: 2 3]; C type "
        "0 epoch 1 has [0: 0 1 2 3] of [0: 0 1]",
        "C hears": "REBALANCE_IN_PROGRESS(27)",
        "C joins": "generation 2, range, id C, leader new, members []",
        "C is assigned": "NONE v0 [0, 1]",
        "C commits to nothing": "NONE",
        "B has": "[0: 2 3]",
        "C goes on": "NONE",
        "then": "Stable, epoch 2, target 2, 'uniform'; B type 1 epoch 2 has [0: 2 3] of [0: 2 3]; C type "
        "0 epoch 2 has [0: 0 1] of [0: 0 1]",
        "C leaves": "NONE: C NONE",
        "B has all": "[0: 0 1 2 3]",
    },
)
def k19(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with classic(world, group, topic) as c, Consumer(world, group, "B", topic) as b:
        facts = {"B joins": b.join()}
        facts["listed"] = listed(world, group)
        c_seen = Consumer(world, group, "C", topic)
        c_seen.peer.close()
        c_seen.member_id = c.member_id
        facts["described"] = described(world, group, b, c_seen)
        facts["C hears"] = beats_until(world, c, AGAIN)
        facts["C joins"] = c.join()
        facts["C is assigned"] = synced(c)
        facts["C commits to nothing"] = c.heartbeat()
        facts["B has"] = b.settled(2)
        facts["C goes on"] = c.heartbeat()
        facts["then"] = described(world, group, b, c_seen)
        facts["C leaves"] = leave(world, group, {"member_id": c.member_id}, names={c.member_id: "C"})
        facts["B has all"] = b.settled(4)
    return facts


@scenario(
    "K20",
    "the last consumer leaves a group that has a classic member: it is a classic group again",
    {
        "B leaves": "epoch -1",
        "listed": "consumer PreparingRebalance classic",
        "C hears": "REBALANCE_IN_PROGRESS(27)",
        "C joins": "generation 3, range, id C, leader C, members [C]",
        "C gives itself all": "NONE v0 [0, 1, 2, 3]",
        "C goes on": "NONE",
        "described": "GROUP_ID_NOT_FOUND(69): Group g is not a consumer group.",
        "by the classic way": "Stable consumer range",
    },
)
def k20(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with classic(world, group, topic) as c, Consumer(world, group, "B", topic) as b:
        b.join()
        beats_until(world, c, AGAIN)
        c.join()
        synced(c)
        b.settled(2)
        facts = {"B leaves": b.leave(), "listed": listed(world, group)}
        facts["C hears"] = beats_until(world, c, AGAIN)
        facts["C joins"] = c.join()
        facts["C gives itself all"] = synced(c, {c.member_id: assignment(topic, 0, 1, 2, 3)})
        facts["C goes on"] = c.heartbeat()
        facts["described"] = described(world, group)
        one = world.call("describe_groups", 6, {"groups": (group,)}).body.groups[0]
        facts["by the classic way"] = f"{one.group_state} {one.protocol_type} {one.protocol_data}"
    return facts


@scenario(
    "K21",
    "a classic member joins a consumer group with a member: what it is told, and gives up",
    {
        "A joins": "epoch 2, assigned [0: 0 1 2 3]",
        "C joins": "generation 2, range, id C, leader new, members []",
        "C is assigned at first": "NONE v0 []",
        "A gives up": "[0: 0 1]",
        "C hears": "REBALANCE_IN_PROGRESS(27)",
        "C joins again": "generation 3, range, id C, leader new, members []",
        "C is assigned": "NONE v0 [2, 3]",
        "C beats": "NONE",
        "C of another generation": "ILLEGAL_GENERATION(22)",
        "C of an older one": "ILLEGAL_GENERATION(22)",
        "unknown member": "UNKNOWN_MEMBER_ID(25)",
        "another protocol": "INCONSISTENT_GROUP_PROTOCOL(23)",
        "listed": "consumer Stable consumer",
    },
)
def k21(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with (
        Consumer(world, group, "A", topic) as a,
        Member(world, group, "C", {}, protocols=[("range", subscription(topic))]) as c,
    ):
        facts = {"A joins": a.join(), "C joins": c.join(), "C is assigned at first": synced(c)}
        facts["A gives up"] = a.settled(2)
        facts["C hears"] = beats_until(world, c, AGAIN)
        facts["C joins again"] = c.join()
        facts["C is assigned"] = synced(c)
        facts["C beats"] = c.heartbeat()
        facts["C of another generation"] = c.heartbeat(generation_id=c.generation + 1)
        facts["C of an older one"] = c.heartbeat(generation_id=c.generation - 1)
        facts["unknown member"] = c.heartbeat(member_id="nobody")
        facts["another protocol"] = c.sync(protocol_name="roundrobin")
        facts["listed"] = listed(world, group)
    return facts


@scenario(
    "K22",
    "empty groups: a consumer joins one that was classic, a classic member one that was of consumers",
    {
        "was": "consumer Empty classic",
        "A joins": "epoch 2, assigned [0: 0 1 2 3]",
        "is": "consumer Stable consumer",
        "empty": "consumer Empty consumer",
        "C joins": "generation 1, range, id C, leader C, members [C]",
        "is then": "consumer CompletingRebalance classic",
    },
)
def k22(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with classic(world, group, topic) as c, Consumer(world, group, "A", topic) as a:
        leave(world, group, {"member_id": c.member_id})
        facts = {"was": listed(world, group), "A joins": a.join(), "is": listed(world, group)}
        a.leave()
        facts["empty"] = listed(world, group)
        c.member_id = ""
        facts["C joins"] = c.join(protocols=[("range", subscription(topic))])
        facts["is then"] = listed(world, group)
    return facts


@scenario(
    "K23",
    "a consumer joins classic groups of another protocol type, with a subscription or an assignment that is none",
    {
        "another type": "GROUP_ID_NOT_FOUND(69): Cannot upgrade classic group g to consumer group because the "
        "group does not use the consumer embedded protocol.",
        "another type: listed": "connect Stable classic",
        "another type: heartbeats": "GROUP_ID_NOT_FOUND(69): Group g is not a consumer group.",
        "subscription": "GROUP_ID_NOT_FOUND(69): Cannot upgrade classic group g to consumer group because the "
        "embedded consumer protocol is malformed.",
        "subscription: listed": "consumer Stable classic",
        "subscription: heartbeats": "GROUP_ID_NOT_FOUND(69): Group g is not a consumer group.",
        "assignment": "GROUP_ID_NOT_FOUND(69): Cannot upgrade classic group g to consumer group because the "
        "embedded consumer protocol is malformed.",
        "assignment: listed": "consumer Stable classic",
        "assignment: heartbeats": "GROUP_ID_NOT_FOUND(69): Group g is not a consumer group.",
        "nothing assigned": "epoch 2, has [2]",
        "nothing assigned: listed": "consumer Reconciling consumer",
        "nothing assigned: heartbeats": "epoch 2",
        "user data": "epoch 2, has [2]",
        "user data: listed": "consumer Reconciling consumer",
        "user data: heartbeats": "epoch 2",
        "joining": "epoch 2, has [2]",
        "joining: listed": "consumer Reconciling consumer",
        "joining: heartbeats": "epoch 2",
    },
)
def k23(world: World) -> Facts:
    topic = world.topic(4)
    facts = {}
    ways: dict[str, tuple[dict[str, Any], bytes | None]] = {
        "another type": (
            {"protocol_type": "connect", "protocols": [("range", subscription(topic))]},
            assignment(topic),
        ),
        "subscription": ({"protocols": [("range", b"\x00")]}, assignment(topic)),
        "assignment": ({"protocols": [("range", subscription(topic))]}, b"x"),
        "nothing assigned": ({"protocols": [("range", subscription(topic))]}, b""),
        "user data": ({"protocols": [("range", subscription(topic)[:-4] + b"\x00\x00\x00\x01x")]}, assignment(topic)),
        "joining": ({"protocols": [("range", subscription(topic))]}, None),
    }
    for name, (asks, given) in ways.items():
        group = fresh(world)
        with Member(world, group, "C", {}, **asks) as c, Consumer(world, group, "A", topic) as a:
            c.join()
            if given is not None:
                c.peer.call(
                    "sync_group",
                    5,
                    c.sync_body({c.member_id: given}, protocol_type=asks.get("protocol_type", "consumer")),
                )
            said = a.join()
            facts[name] = f"epoch {a.epoch}, has {a.counts}" if a.epoch else said
            facts[f"{name}: listed"] = listed(world, group)
            facts[f"{name}: heartbeats"] = a.ask(member_epoch=2)
    return facts


@scenario(
    "K24",
    "classic members of no protocol of consumers, or that cannot be read, ask to join a consumer group",
    {
        "another type": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "another type: listed": "consumer Stable consumer",
        "a subscription that is none": "UNKNOWN_SERVER_ERROR(-1), id none",
        "a subscription that is none: listed": "consumer Stable consumer",
        "no protocols": "INCONSISTENT_GROUP_PROTOCOL(23), id none",
        "no protocols: listed": "consumer Stable consumer",
        "no topics": "generation 2, range, id C, leader new, members []",
        "no topics: listed": "consumer Stable consumer",
        "an unknown topic": "generation 2, range, id C, leader new, members []",
        "an unknown topic: listed": "consumer Assigning consumer",
        "an unknown protocol": "generation 2, mine, id C, leader new, members []",
        "an unknown protocol: listed": "consumer Assigning consumer",
        "static": "UNKNOWN_MEMBER_ID(25), id none",
        "static: listed": "consumer Stable consumer",
    },
    differs={
        "another type": "INCONSISTENT_GROUP_PROTOCOL(23), id C",
        "a subscription that is none": "INCONSISTENT_GROUP_PROTOCOL(23), id C",
        "no protocols": "INCONSISTENT_GROUP_PROTOCOL(23), id C",
        "static": "UNKNOWN_MEMBER_ID(25), id C",
    },
    note="an error repeats who asked, as those of classic groups do in both; a subscription that cannot be read has an "
    "error of its own, where Apache Kafka fails on it",
)
def k24(world: World) -> Facts:
    topic = world.topic(4)
    facts = {}
    ways: dict[str, dict[str, Any]] = {
        "another type": {"protocol_type": "connect"},
        "a subscription that is none": {"protocols": [("range", b"\x00")]},
        "no protocols": {"protocols": []},
        "no topics": {"protocols": [("range", subscription())]},
        "an unknown topic": {"protocols": [("range", subscription("nothing"))]},
        "an unknown protocol": {"protocols": [("mine", subscription(topic))]},
        "static": {"group_instance_id": "i"},
    }
    for name, asks in ways.items():
        group = fresh(world)
        with Consumer(world, group, "A", topic) as a, world.connect() as peer:
            a.join()
            reply = peer.call("join_group", JOIN, join_body(group, "C", **asks))
            facts[name] = joined(reply, {"C": "C"})
            facts[f"{name}: listed"] = listed(world, group)
    return facts
