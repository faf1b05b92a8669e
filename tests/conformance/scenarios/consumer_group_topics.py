"""K08 to K12, K36: what members of a consumer group want: patterns, assignors, topics that come, grow and go."""

from contextlib import ExitStack

from tests.conformance.consumers import Consumer, described, settle
from tests.conformance.recordings import recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.consumer_groups import fresh
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import World


@scenario(
    "K08",
    "a pattern: what it matches, topics by name beside it, a topic made later, none, another pattern",
    {
        "joins": "epoch 1, assigned []",
        "has": "[0: 0 1; 1: 0 1]",
        "described": "Stable, epoch 2, target 2, 'uniform'; A type 1 epoch 2 has [0: 0 1; 1: 0 1] of [0: 0 1; "
        "1: 0 1] pattern t-[ab]",
        "says it again": "epoch 2",
        "part of a name": "epoch 2, assigned []",
        "has then": "[]",
        "and a name": "[0: 0 1]",
    },
)
def k08(world: World) -> Facts:
    base, group = world.fresh(), fresh(world)
    names = [f"{base}-{each}" for each in ("a", "b", "other")]
    for name in names[:2]:
        world.create(name, 2)
        world.wait(lambda name=name: world.led(name, 2), name)  # type: ignore[misc]
    with Consumer(world, group, "A", *names[:2]) as a:
        pattern = f"{base}-[ab]"
        facts = {"joins": a.join(subscribed_topic_names=None, subscribed_topic_regex=pattern)}
        facts["has"] = a.settled(2, 2)
        facts["described"] = described(world, group, a).replace(base, "t")
        facts["says it again"] = a.ask(subscribed_topic_regex=pattern)
        facts["part of a name"] = a.ask(subscribed_topic_regex=f"{base}-")
        facts["has then"] = a.settled(0, 0)
        a.ask(subscribed_topic_names=[names[0]])
        facts["and a name"] = a.settled(2, 0)
    return facts


@scenario(
    "K09",
    "a pattern that matches an internal topic; that topic by its name",
    {
        "pattern": "50 partitions",
        "name": "50 partitions",
    },
)
def k09(world: World) -> Facts:
    group = fresh(world)
    facts = {}
    for way in ({"subscribed_topic_names": None, "subscribed_topic_regex": "__consumer_offset."}, {}):
        with Consumer(world, f"{group}-{len(way)}", "A", "__consumer_offsets") as a:
            coordinator(world, a.group)
            a.join(**way)
            a.settled(50)
            facts["pattern" if way else "name"] = f"{len(a.owned['__consumer_offsets'])} partitions"
            a.leave()
    return facts


@scenario(
    "K10",
    "range: three members, one static, of two topics with 4 partitions; a member that wants another assignor",
    {
        "Z": "[0: 0 1; 1: 0 1]",
        "A": "[0: 2; 1: 2]",
        "B": "[0: 3; 1: 3]",
        "described": "Stable, epoch 4, target 4, 'range'",
        "B wants another": "epoch 4",
        "the most votes": "Stable, epoch 4, target 4, 'range'",
        "A, too": "Stable, epoch 4, target 4, 'uniform'",
        "and another topic": "epoch 4, assigned [0: 3]",
        "then": "Reconciling, epoch 5, target 5, 'uniform'",
    },
)
def k10(world: World) -> Facts:
    topics, group = [world.topic(4), world.topic(4)], fresh(world)
    with (
        Consumer(world, group, "A", *topics, server_assignor="range") as a,
        Consumer(world, group, "B", *topics, server_assignor="range") as b,
        Consumer(world, group, "Z", *topics, server_assignor="range", instance_id="i") as z,
    ):
        for each in (a, b, z):
            each.join()
        settle(world, {z: [2, 2], a: [1, 1], b: [1, 1]})
        facts = {each.letter: each.shown(each.owned) for each in (z, a, b)}
        facts["described"] = described(world, group)
        facts["B wants another"] = b.ask(server_assignor="uniform")
        facts["the most votes"] = described(world, group)
        a.ask(server_assignor="uniform")
        facts["A, too"] = described(world, group)
        facts["and another topic"] = b.ask(subscribed_topic_names=[topics[0]])
        b.at(z.epoch + 1)
        facts["then"] = described(world, group)
    return facts


@scenario(
    "K11",
    "a member wants another topic, one that is not there, none; then that topic is made",
    {
        "joins": "epoch 2, assigned [0: 0 1]",
        "wants the other": "epoch 2, assigned []",
        "has": "[1: 0 1]",
        "epoch": "3",
        "one that is not there": "epoch 3, assigned []",
        "has none": "[]",
        "made": "[0: 0 1 2]",
        "none": "epoch 5, assigned []",
        "has none then": "[]",
    },
)
def k11(world: World) -> Facts:
    first, second, later, group = world.topic(2), world.topic(2), world.fresh(), fresh(world)
    with Consumer(world, group, "A", first, second) as a:
        facts = {"joins": a.join(subscribed_topic_names=[first])}
        facts["wants the other"] = a.ask(subscribed_topic_names=[second])
        facts["has"] = a.settled(0, 2)
        facts["epoch"] = str(a.epoch)
        facts["one that is not there"] = a.ask(subscribed_topic_names=[later])
        facts["has none"] = a.settled(0, 0)
        world.create(later, 3)
        world.wait(lambda: world.led(later, 3), later)
        a.topics, a.ids[later] = (later,), world.metadata(later).topic_id
        facts["made"] = a.settled(3)
        facts["none"] = a.ask(subscribed_topic_names=[])
        facts["has none then"] = a.settled(0)
    return facts


@scenario(
    "K12",
    "a topic that members have gets partitions, and is deleted",
    {
        "joins": "epoch 2, assigned [0: 0 1]",
        "more": "[0: 0 1 2 3]",
        "epoch": "3",
        "deleted": "[]",
        "still wanted": "Stable, epoch 4, target 4, 'uniform'; A type 1 epoch 4 has [] of []",
    },
)
def k12(world: World) -> Facts:
    topic, group = world.topic(2), fresh(world)
    with Consumer(world, group, "A", topic) as a:
        facts = {"joins": a.join()}
        world.call(
            "create_partitions", 3, {"topics": [{"name": topic, "count": 4, "assignments": None}], "timeout": 10000}
        )
        facts["more"] = a.settled(4)
        facts["epoch"] = str(a.epoch)
        world.delete(topic)
        facts["deleted"] = a.settled(0)
        a.at(4)
        facts["still wanted"] = described(world, group, a)
    return facts


TAKEN = (
    "B-[aA]",
    "(?i)B-A",
    r"B\Q-a\E",
    "^B-a$",
    r"\AB-a\z",
    r"B[\-\.\_]\w",
    "(?P<one>B)-(?<two>a)",
    "B-A|B-b",
    "B-a|",
    r"B-\141",
    r"B-\x61",
    "(?U)B-.+",
    r"B-a\b.*",
    "B-a{1,2}",
    r"B-\p{Lu}",
    "B-[[:digit:]]",
    r"B-a\.a",
    r"B-\PL",
)
REFUSED = (
    r"B-\C",
    "(?P<a>B)(?P<a>x)",
    "a{1001}",
    "a++",
    "(?>a)",
    "(?P=a)",
    r"\p{Foo}",
    r"(a)\1",
    r"\Z",
    r"[a-\d]",
    "(?i",
    "x{2}{3}",
)


@scenario(
    "K36",
    "what patterns match, and which are none: RE2's classes, escapes, flags, groups, and what other engines have",
    recorded("K36"),
)
def k36(world: World) -> Facts:
    base = world.fresh()
    names = [f"{base}{each}" for each in ("-A", "-a", "-b", "-aa", "-a.a", "-1", ".x", "_d")]
    for name in names:
        world.create(name)
        world.wait(lambda name=name: world.led(name, 1), name)  # type: ignore[misc]
    facts: Facts = {}
    with ExitStack() as stack:
        members = {}
        for pattern in TAKEN:
            one = members[pattern] = stack.enter_context(Consumer(world, fresh(world), "A", *names))
            one.join(subscribed_topic_names=None, subscribed_topic_regex=pattern.replace("B", base))
        for pattern, one in members.items():
            # A pattern is looked through beside the heartbeats, and what it matches is assigned at once.
            world.wait(lambda one=one: one.ask() and any(one.owned.values()), pattern)  # type: ignore[misc]
            facts[pattern] = " ".join(sorted(name.removeprefix(base) for name in one.owned))
        one = next(iter(members.values()))
        for pattern in REFUSED:
            facts[pattern] = one.ask(subscribed_topic_regex=pattern)
    return facts
