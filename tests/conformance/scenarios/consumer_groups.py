"""K01 to K07: members of consumer groups (KIP-848) come, are assigned, give up, and go."""

from uuid import UUID

from tests.conformance.consumers import Consumer, described, fenced, listed, settle
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import World


def fresh(world: World) -> str:
    """A group that nobody used, with its coordinator."""
    group = world.fresh()
    coordinator(world, group)
    return group


@scenario(
    "K01",
    "the first member of a group of a topic with 4 partitions: it joins, says nothing new, says all again, joins again",
    {
        "joins": "epoch 2, assigned [0: 0 1 2 3]",
        "says nothing": "epoch 2",
        "says what it has": "epoch 2",
        "says all again": "epoch 2, assigned [0: 0 1 2 3]",
        "says it twice": "epoch 2",
        "joins again": "epoch 2, assigned [0: 0 1 2 3]",
        "described": "Stable, epoch 2, target 2, 'uniform'; A type 1 epoch 2 has [0: 0 1 2 3] of [0: 0 1 2 3]",
    },
)
def k01(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        facts = {"joins": a.join(), "says nothing": a.ask(), "says what it has": a.beat()}
        facts["says all again"] = a.join(member_epoch=a.epoch)
        facts["says it twice"] = a.ask(subscribed_topic_names=[topic, topic])
        facts["joins again"] = a.join()
        facts["described"] = described(world, group, a)
    return facts


@scenario(
    "K02",
    "a second member joins: it waits, the first is told to give up two, and only what it says it has counts",
    {
        "A joins": "epoch 2, assigned [0: 0 1 2 3]",
        "B joins": "epoch 2, assigned []",
        "B waits": "epoch 3, has []",
        "A has still": "epoch 2, assigned [0: 0 1]",
        "A says nothing": "epoch 2",
        "A gives up one of two": "epoch 2",
        "B waits on": "epoch 3",
        "described": "Reconciling, epoch 3, target 3, 'uniform'; A type 1 epoch 2 has [0: 0 1 2 3] of [0: 0 "
        "1]; B type 1 epoch 3 has [] of [0: 2 3]",
        "A gives up": "epoch 3",
        "B is assigned": "epoch 3, assigned [0: 2 3]",
        "both": "[0: 0 1] [0: 2 3]",
        "then": "Stable, epoch 3, target 3, 'uniform'; A type 1 epoch 3 has [0: 0 1] of [0: 0 1]; B type "
        "1 epoch 3 has [0: 2 3] of [0: 2 3]",
    },
)
def k02(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with Consumer(world, group, "A", topic) as a, Consumer(world, group, "B", topic) as b:
        facts = {"A joins": a.join(), "B joins": b.join()}
        b.at(3)
        facts["B waits"] = f"{b.ask()}, has {b.shown(b.owned)}"
        facts["A has still"] = a.beat({topic: [0, 1, 2, 3]})
        facts["A says nothing"] = a.ask()
        facts["A gives up one of two"] = a.beat({topic: [a.owned[topic][0], *missing(a.owned[topic])[:1]]})
        facts["B waits on"] = b.beat()
        facts["described"] = described(world, group, a, b)
        facts["A gives up"] = a.beat()
        facts["B is assigned"] = b.beat()
        facts["both"] = f"{a.shown(a.owned)} {b.shown(b.owned)}"
        facts["then"] = described(world, group, a, b)
    return facts


def missing(numbers: list[int]) -> list[int]:
    """Those of four partitions that are not there."""
    return [number for number in range(4) if number not in numbers]


@scenario(
    "K03",
    "heartbeats: of older and later epochs, of nobody, of no group, leaving twice; an answer that was lost",
    {
        "older": fenced("smaller", 2, 3),
        "older, and says what it has": "epoch 3",
        "older, and says more": fenced("smaller", 2, 3),
        "later": fenced("greater", 99, 3),
        "of before": fenced("smaller", 1, 3),
        "nobody": "UNKNOWN_MEMBER_ID(25): Member nobody is not a member of group g.",
        "no such group": "GROUP_ID_NOT_FOUND(69): Consumer group g-not not found.",
        "nobody leaves": "UNKNOWN_MEMBER_ID(25): Member nobody is not a member of group g.",
        "no such group is left": "GROUP_ID_NOT_FOUND(69): Group g-not not found.",
        "unknown topic": "epoch 3",
        "has it still": "True",
        "leaves": "epoch -1",
        "leaves again": "UNKNOWN_MEMBER_ID(25): Member A is not a member of group g.",
        "is gone": "UNKNOWN_MEMBER_ID(25): Member A is not a member of group g.",
    },
)
def k03(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with Consumer(world, group, "A", topic) as a, Consumer(world, group, "B", topic) as b:
        a.join()
        b.join()
        settle(world, {a: [2], b: [2]})
        mine = a.shown(a.owned)
        return {
            "older": a.ask(member_epoch=a.epoch - 1),
            "older, and says what it has": a.beat(member_epoch=2),
            "older, and says more": a.beat({topic: [0, 1, 2, 3]}, member_epoch=2),
            "later": a.ask(member_epoch=99),
            "of before": a.beat({}, member_epoch=1),
            "nobody": a.ask(member_id="nobody"),
            "no such group": a.ask(group_id=f"{group}-not"),
            "nobody leaves": a.leave(member_id="nobody"),
            "no such group is left": a.leave(group_id=f"{group}-not"),
            "unknown topic": a.ask(topic_partitions=[{"topic_id": UUID(int=77), "partitions": [0]}]),
            "has it still": str(mine == a.shown(a.owned)),
            "leaves": a.leave(),
            "leaves again": a.leave(),
            "is gone": a.ask(member_epoch=3),
        }


@scenario(
    "K04",
    "ConsumerGroupHeartbeat: what is no valid request",
    {
        "no group": "INVALID_REQUEST(42): GroupId can't be empty.",
        "no member": "INVALID_REQUEST(42): MemberId can't be empty.",
        "blank group": "INVALID_REQUEST(42): GroupId can't be empty.",
        "empty instance": "INVALID_REQUEST(42): InstanceId can't be empty.",
        "empty rack": "INVALID_REQUEST(42): RackId can't be empty.",
        "no rebalance timeout": "INVALID_REQUEST(42): RebalanceTimeoutMs must be provided in first request.",
        "has partitions": "INVALID_REQUEST(42): TopicPartitions must be empty when (re-)joining.",
        "null partitions": "INVALID_REQUEST(42): TopicPartitions must be empty when (re-)joining.",
        "no subscription": "INVALID_REQUEST(42): Either SubscribedTopicNames or SubscribedTopicRegex must be "
        "non-null when (re-)joining.",
        "unknown assignor": "UNSUPPORTED_ASSIGNOR(112): ServerAssignor sticky is not supported. Supported assignors: "
        "uniform, range.",
        "epoch -2 without an instance": "INVALID_REQUEST(42): InstanceId can't be null.",
        "epoch -3": "INVALID_REQUEST(42): MemberEpoch is invalid.",
        "pattern": "INVALID_REGULAR_EXPRESSION(128): SubscribedTopicRegex `(` is not a valid regular "
        "expression: missing closing ).",
        "nobody came": "GROUP_ID_NOT_FOUND(69): Group g not found.",
        "no topics": "epoch 1, assigned []",
        "assignor, later": "UNSUPPORTED_ASSIGNOR(112): ServerAssignor sticky is not supported. Supported assignors: "
        "uniform, range.",
        "pattern, later": "INVALID_REGULAR_EXPRESSION(128): SubscribedTopicRegex `a**` is not a valid regular "
        "expression: invalid nested repetition operator.",
        "assignor of capitals": "UNSUPPORTED_ASSIGNOR(112): ServerAssignor Range is not supported. "
        "Supported assignors: uniform, range.",
        "rebalance timeout 0": "epoch 1",
    },
)
def k04(world: World) -> Facts:
    topic, group = world.topic(), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        facts = {
            "no group": a.join(group_id=""),
            "no member": a.join(member_id=""),
            "blank group": a.join(group_id=" "),
            "empty instance": a.join(instance_id=""),
            "empty rack": a.join(rack_id=""),
            "no rebalance timeout": a.join(rebalance_timeout=-1),
            "has partitions": a.join(topic_partitions=[{"topic_id": a.ids[topic], "partitions": [0]}]),
            "null partitions": a.join(topic_partitions=None),
            "no subscription": a.join(subscribed_topic_names=None),
            "unknown assignor": a.join(server_assignor="sticky"),
            "epoch -2 without an instance": a.ask(member_epoch=-2),
            "epoch -3": a.ask(member_epoch=-3),
            "pattern": a.join(subscribed_topic_names=None, subscribed_topic_regex="("),
            "nobody came": described(world, group),
        }
        facts["no topics"] = a.join(subscribed_topic_names=[])
        facts["assignor, later"] = a.ask(server_assignor="sticky")
        facts["pattern, later"] = a.ask(subscribed_topic_regex="a**")
        facts["assignor of capitals"] = a.ask(server_assignor="Range")
        facts["rebalance timeout 0"] = a.ask(rebalance_timeout=0)
    return facts


@scenario(
    "K05",
    "the only member leaves, and comes back; what is told of the group; another leaves without joining",
    {
        "joins": "epoch 2, assigned [0: 0 1]",
        "leaves": "epoch -1",
        "described": "Empty, epoch 3, target 2, 'uniform'",
        "listed": "consumer Empty consumer",
        "comes back": "epoch 2, assigned []",
        "has": "[0: 0 1]",
        "described then": "Stable, epoch 4, target 4, 'uniform'; A type 1 epoch 4 has [0: 0 1] of [0: 0 1]",
    },
)
def k05(world: World) -> Facts:
    topic, group = world.topic(2), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        facts = {"joins": a.join(), "leaves": a.leave(), "described": described(world, group)}
        facts["listed"] = listed(world, group)
        a.epoch = 0
        facts["comes back"] = a.join()
        a.at(4)
        facts["has"] = a.settled(2)
        facts["described then"] = described(world, group, a)
    return facts


@scenario(
    "K06",
    "static members: one leaves for a while, another takes its place with what it had; who else asks for its name",
    {
        "A joins": "epoch 2, assigned [0: 0 1 2 3]",
        "B wants its name": "UNRELEASED_INSTANCE_ID(111): Static member B with instance id i cannot join the group "
        "because the instance id is owned by A member.",
        "A under another name": "UNKNOWN_MEMBER_ID(25): Instance id j is unknown.",
        "A without its name": "epoch 2",
        "B heartbeats as i": "FENCED_INSTANCE_ID(82): Static member B with instance id i was fenced by member A.",
        "B leaves as i": "FENCED_INSTANCE_ID(82): Static member B with instance id i was fenced by member A.",
        "unknown name leaves": "UNKNOWN_MEMBER_ID(25): Instance id j is unknown.",
        "A leaves for a while": "epoch -2",
        "described": "Reconciling, epoch 2, target 2, 'uniform'; A type 1 epoch -2 has [0: 0 1 2 3] of [0: 0 "
        "1 2 3] static i",
        "A goes on": fenced("greater", 2, -2),
        "B takes its place": "epoch 2, assigned [0: 0 1 2 3]",
        "A is out": "FENCED_INSTANCE_ID(82): Static member A with instance id i was fenced by member B.",
        "described then": "Stable, epoch 2, target 2, 'uniform'; B type 1 epoch 2 has [0: 0 1 2 3] of [0: 0 1 2 3] "
        "static i",
        "B leaves": "epoch -1",
        "in the end": "Empty, epoch 3, target 2, 'uniform'",
    },
)
def k06(world: World) -> Facts:
    topic, group = world.topic(4), fresh(world)
    with (
        Consumer(world, group, "A", topic, instance_id="i") as a,
        Consumer(world, group, "B", topic, instance_id="i") as b,
    ):
        facts = {"A joins": a.join(), "B wants its name": b.join()}
        facts["A under another name"] = a.ask(instance_id="j")
        facts["A without its name"] = a.ask(instance_id=None)
        facts["B heartbeats as i"] = b.ask(member_epoch=2)
        facts["B leaves as i"] = b.leave()
        facts["unknown name leaves"] = a.leave(-2, instance_id="j")
        facts["A leaves for a while"] = a.leave(-2)
        facts["described"] = described(world, group, a)
        facts["A goes on"] = a.ask(member_epoch=2)
        a.epoch = 2
        facts["B takes its place"] = b.join()
        facts["A is out"] = a.ask(member_epoch=2)
        facts["described then"] = described(world, group, a, b)
        facts["B leaves"] = b.leave()
        facts["in the end"] = described(world, group, a, b)
    return facts


@scenario(
    "K07",
    "a static member that left for a while comes back itself; one that left for good",
    {
        "leaves for a while": "epoch -2",
        "comes back": "epoch 2, assigned [0: 0 1]",
        "again": "epoch 2",
        "leaves": "epoch -1",
        "joins": "epoch 2, assigned []",
    },
)
def k07(world: World) -> Facts:
    topic, group = world.topic(2), fresh(world)
    with Consumer(world, group, "A", topic, instance_id="i") as a:
        a.join()
        facts = {"leaves for a while": a.leave(-2)}
        facts["comes back"] = a.join(member_epoch=0)
        facts["again"] = a.ask()
        facts["leaves"] = a.leave()
        a.epoch = 0
        facts["joins"] = a.join(member_epoch=0)
    return facts
