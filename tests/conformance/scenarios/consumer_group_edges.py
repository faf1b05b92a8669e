"""K27 to K34: consumer groups at their edges: old heartbeats, what is said twice, who is away, restarts."""

from typing import Any

from tests.conformance.consumers import Consumer, described, fenced, listed, settle
from tests.conformance.scenario import KILL, START, STOP, Facts, Steps, scenario
from tests.conformance.scenarios.consumer_group_offsets import commit, fetch, timeouts
from tests.conformance.scenarios.consumer_groups import fresh
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import World, error


@scenario(
    "K27",
    "ConsumerGroupHeartbeat v0: the broker gives the id; v1 is told of a member that came so",
    {
        "joins": "NONE, epoch 2",
        "its id": "22 characters",
        "v1": "epoch 2",
        "v0, later, without it": "INVALID_REQUEST(42)",
        "leaves": "epoch -1",
    },
)
def k27(world: World) -> Facts:
    topic, group = world.topic(2), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        body = a.body(member_id="", rebalance_timeout=30000, subscribed_topic_names=[topic], topic_partitions=[])
        del body["subscribed_topic_regex"]
        told = world.call("consumer_group_heartbeat", 0, body).body
        facts = {"joins": f"{error(told.error_code)}, epoch {told.member_epoch}"}
        facts["its id"] = "22 characters" if len(told.member_id or "") == 22 else repr(told.member_id)
        a.member_id, a.epoch = told.member_id, told.member_epoch
        facts["v1"] = a.ask()
        later = a.body(member_id="")
        del later["subscribed_topic_regex"]
        facts["v0, later, without it"] = error(world.call("consumer_group_heartbeat", 0, later).body.error_code)
        facts["leaves"] = a.leave()
    return facts


@scenario(
    "K28",
    "heartbeats that say odd things: partitions twice, that are not there, a pattern that is empty",
    {
        "a topic twice": "epoch 2",
        "a partition twice": "epoch 2",
        "partitions that are not there": "epoch 2",
        "a blank member": "INVALID_REQUEST(42): MemberId can't be empty.",
        "an empty pattern": "epoch 2",
        "an empty name": "epoch 2, assigned []",
        "a name no topic can have": "epoch 2",
        "described": "Assigning, epoch 4, target 2, 'uniform'; A type 1 epoch 2 has [0: 0 1] of [0: 0 1]",
        "an empty pattern alone": "epoch 2, assigned []",
        "an empty pattern and no topics": "epoch 2, assigned []",
    },
)
def k28(world: World) -> Facts:
    topic, group = world.topic(2), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        a.join()
        has = {"topic_id": a.ids[topic], "partitions": [0, 1]}
        return {
            "a topic twice": a.ask(topic_partitions=[has, has]),
            "a partition twice": a.ask(topic_partitions=[{**has, "partitions": [0, 0, 1]}]),
            "partitions that are not there": a.ask(topic_partitions=[{**has, "partitions": [-1, 7]}]),
            "a blank member": a.ask(member_id=" "),
            "an empty pattern": a.ask(subscribed_topic_regex=""),
            "an empty name": a.ask(subscribed_topic_names=[""]),
            "a name no topic can have": a.ask(subscribed_topic_names=["a b/c"]),
            "described": described(world, group, a),
            "an empty pattern alone": a.join(subscribed_topic_names=None, subscribed_topic_regex="", member_epoch=0),
            "an empty pattern and no topics": a.join(subscribed_topic_names=[], subscribed_topic_regex=""),
        }


@scenario(
    "K29",
    "a second member has joined, and there is no target for it yet; a third comes, and one of them goes",
    {
        "A": "epoch 2, assigned [0: 0 1 2 3 4 5]",
        "B": "epoch 2, assigned []",
        "described": "Assigning, epoch 3, target 2, 'uniform'; A type 1 epoch 2 has [0: 0 1 2 3 4 5] of [0: 0 "
        "1 2 3 4 5]; B type 1 epoch 2 has [] of []",
        "listed": "consumer Assigning consumer",
        "C": "epoch 2, assigned []",
        "epochs": "4 4 4",
        "B leaves": "epoch -1",
        "kept": "True",
        "then": "5 5",
    },
)
def k29(world: World) -> Facts:
    topic, group = world.topic(6), fresh(world)
    with (
        Consumer(world, group, "A", topic) as a,
        Consumer(world, group, "B", topic) as b,
        Consumer(world, group, "C", topic) as c,
    ):
        facts = {"A": a.join(), "B": b.join()}
        facts["described"] = described(world, group, a, b)
        facts["listed"] = listed(world, group, ("assigning",))
        facts["C"] = c.join()
        settle(world, {a: [2], b: [2], c: [2]})
        before = {each.letter: set(each.owned[topic]) for each in (a, c)}
        facts["epochs"] = f"{a.epoch} {b.epoch} {c.epoch}"
        facts["B leaves"] = b.leave()
        settle(world, {a: [3], c: [3]})
        facts["kept"] = str(all(before[each.letter] < set(each.owned[topic]) for each in (a, c)))
        facts["then"] = f"{a.epoch} {c.epoch}"
    return facts


@scenario(
    "K30",
    "a static member that is away for longer than its session of 1000 ms; one that comes with other wishes",
    {
        "other wishes": "epoch 2, assigned []",
        "has": "[1: 0 1]",
        "described": "Stable, epoch 3, target 3, 'uniform'; B type 1 epoch 3 has [1: 0 1] of [1: 0 1] static i",
        "leaves for a while": "epoch -2",
        "comes back": "epoch 5, assigned [0: 0 1; 1: 0 1]",
    },
)
def k30(world: World) -> Facts:
    first, second, group = world.topic(2), world.topic(2), fresh(world)
    timeouts(world, group, 1000, 500)
    with (
        Consumer(world, group, "A", first, second, instance_id="i") as a,
        Consumer(world, group, "B", first, second, instance_id="i") as b,
    ):
        a.join(subscribed_topic_names=[first])
        a.leave(-2)
        facts = {"other wishes": b.join(subscribed_topic_names=[second])}
        facts["has"] = b.settled(0, 2)
        facts["described"] = described(world, group, a, b)
        facts["leaves for a while"] = b.leave(-2)
        world.wait(lambda: described(world, group).startswith("Empty"), "it is missed")
        b.epoch = 0
        facts["comes back"] = b.join()
    return facts


@scenario(
    "K31",
    "commits and OffsetDelete of members with instance ids and patterns",
    {
        "with its instance": "NONE",
        "with another": "NONE",
        "without": "NONE",
        "forget": "GROUP_SUBSCRIBED_TO_TOPIC(86)",
        "away: commits": "STALE_MEMBER_EPOCH(113)",
        "away: -2": "NONE",
        "away: fetches": "STALE_MEMBER_EPOCH(113)",
        "away: anybody": "UNKNOWN_MEMBER_ID(25)",
    },
)
def k31(world: World) -> Facts:
    topic, group = world.topic(2), fresh(world)

    def forget(name: str) -> str:
        body = {"group_id": group, "topics": [{"name": name, "partitions": [{"partition_index": 0}]}]}
        return error(world.call("offset_delete", 0, body).body.topics[0].partitions[0].error_code)

    with Consumer(world, group, "A", topic, instance_id="i") as a:
        a.join(subscribed_topic_names=None, subscribed_topic_regex=f"{topic}.?")
        a.settled(2)
        mine: dict[str, Any] = {"member_id": a.member_id, "generation_id_or_member_epoch": a.epoch}
        facts = {
            "with its instance": commit(world, group, topic, group_instance_id="i", **mine),
            "with another": commit(world, group, topic, group_instance_id="j", **mine),
            "without": commit(world, group, topic, **mine),
            "forget": forget(topic),
        }
        a.leave(-2)
        facts["away: commits"] = commit(world, group, topic, **mine)
        facts["away: -2"] = commit(world, group, topic, member_id=a.member_id, generation_id_or_member_epoch=-2)
        facts["away: fetches"] = fetch(world, group, topic, a.member_id, mine["generation_id_or_member_epoch"])
        facts["away: anybody"] = commit(world, group, topic)
    return facts


@scenario(
    "K32",
    "ConsumerGroupDescribe v0 and v1, of a member and of one group twice",
    {
        "v0": "2 groups, raw /127.0.0.1 rack r instance None names 1 pattern '' type None, operations -2147483648",
        "v1": "2 groups, raw /127.0.0.1 rack r instance None names 1 pattern '' type 1, operations -2147483648",
        "operations": "3400",
    },
    differs={
        "v0": "1 groups, raw /127.0.0.1 rack r instance None names 1 pattern '' type None, operations -2147483648",
        "v1": "1 groups, raw /127.0.0.1 rack r instance None names 1 pattern '' type 1, operations -2147483648",
    },
    note="a group named twice is told once",
)
def k32(world: World) -> Facts:
    topic, group = world.topic(), fresh(world)
    with Consumer(world, group, "A", topic, rack_id="r") as a:
        a.join()
        facts = {}
        for version in (0, 1):
            told = world.call("consumer_group_describe", version, {"group_ids": (group, group)}).body.groups
            one = told[0].members[0]
            facts[f"v{version}"] = (
                f"{len(told)} groups, {one.client_id} {one.client_host} rack {one.rack_id} instance {one.instance_id} "
                f"names {len(one.subscribed_topic_names)} pattern {one.subscribed_topic_regex!r} "
                f"type {getattr(one, 'member_type', None)}, operations {told[0].authorized_operations}"
            )
        body = {"group_ids": (group,), "include_authorized_operations": True}
        told = world.call("consumer_group_describe", 1, body).body.groups[0]
        facts["operations"] = str(told.authorized_operations)
    return facts


def _over(world: World, way: Any) -> Steps:
    topic, group, left, away = world.topic(4), fresh(world), fresh(world), fresh(world)
    members = [Consumer(world, group, letter, topic) for letter in "AB"]
    gone, static = Consumer(world, left, "A", topic), Consumer(world, away, "A", topic, instance_id="i")
    a, b = members
    a.join()
    b.join()
    settle(world, {a: [2], b: [2]})
    mine = [each.owned for each in members]
    commit(world, group, topic, member_id=a.member_id, generation_id_or_member_epoch=a.epoch)
    gone.join()
    gone.leave()
    static.join()
    static.leave(-2)
    for each in (a, b, gone, static):
        each.peer.close()
    yield way
    yield START
    coordinator(world, group, left, away)
    facts = {"described": described(world, group, a, b), "left": described(world, left), "listed": listed(world, group)}
    facts["away"] = described(world, away, static)
    for each in (a, b, gone, static):
        each.peer = world.connect()
    facts["A goes on"] = a.ask()
    facts["A says what it has"] = a.beat()
    facts["B is of an older epoch"] = b.ask(member_epoch=1)
    facts["committed"] = fetch(world, group, topic)
    static.epoch = 0
    facts["A comes back"] = static.join()
    facts["the same"] = str(mine == [each.owned for each in members])
    facts["B leaves"] = b.leave()
    facts["A has all"] = a.settled(4)
    for each in (a, b, gone, static):
        each.peer.close()
    return facts


@scenario(
    "K33",
    "the broker is stopped and started: a consumer group of two, one left by all, one whose member is away",
    {
        "described": "Stable, epoch 3, target 3, 'uniform'; A type 1 epoch 3 has [0: 0 1] of [0: 0 1]; B type "
        "1 epoch 3 has [0: 2 3] of [0: 2 3]",
        "left": "Empty, epoch 3, target 2, 'uniform'",
        "listed": "consumer Stable consumer",
        "away": "Reconciling, epoch 2, target 2, 'uniform'; A type 1 epoch -2 has [0: 0 1 2 3] of [0: 0 "
        "1 2 3] static i",
        "A goes on": "epoch 3",
        "A says what it has": "epoch 3",
        "B is of an older epoch": fenced("smaller", 1, 3),
        "committed": "NONE 7",
        "A comes back": "epoch 2, assigned [0: 0 1 2 3]",
        "the same": "True",
        "B leaves": "epoch -1",
        "A has all": "[0: 0 1 2 3]",
    },
    restart=STOP,
)
def k33(world: World) -> Steps:
    return (yield from _over(world, STOP))


@scenario(
    "K34",
    "the broker is killed and started: a consumer group of two, one left by all, one whose member is away",
    {
        "described": "Stable, epoch 3, target 3, 'uniform'; A type 1 epoch 3 has [0: 0 1] of [0: 0 1]; B type "
        "1 epoch 3 has [0: 2 3] of [0: 2 3]",
        "left": "Empty, epoch 3, target 2, 'uniform'",
        "listed": "consumer Stable consumer",
        "away": "Reconciling, epoch 2, target 2, 'uniform'; A type 1 epoch -2 has [0: 0 1 2 3] of [0: 0 "
        "1 2 3] static i",
        "A goes on": "epoch 3",
        "A says what it has": "epoch 3",
        "B is of an older epoch": fenced("smaller", 1, 3),
        "committed": "NONE 7",
        "A comes back": "epoch 2, assigned [0: 0 1 2 3]",
        "the same": "True",
        "B leaves": "epoch -1",
        "A has all": "[0: 0 1 2 3]",
    },
    restart=KILL,
)
def k34(world: World) -> Steps:
    return (yield from _over(world, KILL))


@scenario(
    "K35",
    "a pattern that matches nothing; then a topic is made that it matches",
    {
        "joins": "epoch 1, assigned []",
        "has": "[0: 0 1]",
    },
)
def k35(world: World) -> Facts:
    name, group = world.fresh(), fresh(world)
    with Consumer(world, group, "A") as a:
        facts = {"joins": a.join(subscribed_topic_names=None, subscribed_topic_regex=f"{name}.*")}
        world.create(name, 2)
        world.wait(lambda: world.led(name, 2), name)
        a.topics, a.ids = (name,), {name: world.metadata(name).topic_id}
        facts["has"] = a.settled(2)
    return facts
