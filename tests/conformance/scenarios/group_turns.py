"""G02, G93 to G99: turns that a group takes while it is being made, broker restarts, and odd names."""

import time
from contextlib import ExitStack

from tests.conformance.members import Member, beats_until, described, leave
from tests.conformance.scenario import KILL, START, STOP, Facts, Steps, scenario
from tests.conformance.scenarios.joining import AGAIN, fresh
from tests.conformance.scenarios.offsets import by, commit, offsets, part
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import World, after, error


def both_joined(world: World, a: Member, b: Member) -> None:
    """A second member comes to a stable one, and both have joined; nothing is assigned yet."""
    b.send_join()
    beats_until(world, a, AGAIN)
    a.send_join()
    for one in (a, b):
        said = one.heard()
        assert said.startswith("generation"), said


@scenario(
    "G02",
    "a second member joins within the initial delay: both answers, their generation, who hears of the members",
    {
        "alone": "generation 1, range, id A, leader A, members [A], 3000 ms",
        "short": "generation 1, range, id A, leader A, members [A B], 4000 ms",
        "short, B": "generation 1, range, id B, leader A, members []",
        "long": "generation 1, range, id A, leader A, members [A B], 6000 ms",
        "long, B": "generation 1, range, id B, leader A, members []",
        "B comes after it": "REBALANCE_IN_PROGRESS(27)",
        "A joins": "generation 2, range, id A, leader A, members [A B]",
        "A is alone again": "generation 4, range, id A, leader A, members [A], 3000 ms",
    },
    settings={"group.initial.rebalance.delay.ms": "3000"},
)
def g02(world: World) -> Facts:
    """Members whose rebalance timeout is shorter are not kept waiting for longer than that."""
    group = world.fresh()
    coordinator(world, f"{group}-alone", f"{group}-short", f"{group}-long")
    with ExitStack() as stack:

        def member(which: str, letter: str, **asks: int) -> Member:
            return stack.enter_context(Member(world, f"{group}-{which}", letter, names[which], **asks))

        def joined(one: Member, ms: float) -> str:
            return f"{one.heard()}, {after((time.monotonic() - began) * 1000, ms)}"

        names: dict[str, dict[str, str]] = {which: {} for which in ("alone", "short", "long")}
        alone, late = member("alone", "A"), member("alone", "B")
        short = [member("short", letter, rebalance_timeout=4000) for letter in "AB"]
        long = [member("long", letter) for letter in "AB"]
        began = time.monotonic()
        for one in (alone, short[0], long[0]):
            one.send_join()
        alone.peer.silent(1.0)
        for one in (short[1], long[1]):
            one.send_join()
        facts = {"alone": joined(alone, 3000)}
        facts |= {"short": joined(short[0], 4000), "short, B": short[1].heard()}
        facts |= {"long": joined(long[0], 6000), "long, B": long[1].heard()}
        assert alone.sync({alone.member_id: b"all"}) == "NONE, 'all'"
        late.send_join()
        facts["B comes after it"] = beats_until(world, alone, AGAIN)
        facts["A joins"] = alone.join()
        late.heard()
        for one in (alone, late):
            leave(world, one.group, {"member_id": one.member_id})
        alone.member_id = ""
        alone.ask_id()
        began = time.monotonic()
        alone.send_join()
        facts["A is alone again"] = joined(alone, 3000)
    return facts


@scenario(
    "G93",
    "the leader leaves before it assigned: who waits for the assignment, the next leader; the leader of a stable group",
    {
        "B waits": "True",
        "A leaves": "NONE: A NONE",
        "B's SyncGroup": "REBALANCE_IN_PROGRESS(27)",
        "B joins": "generation 3, range, id B, leader B, members [B]",
        "B assigns": "NONE, 'b'",
        "A": "UNKNOWN_MEMBER_ID(25)",
    },
)
def g93(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names).stable() as a, Member(world, group, "B", names) as b:
        both_joined(world, a, b)
        b.peer.send("sync_group", 5, b.sync_body())
        facts = {
            "B waits": str(b.peer.silent(0.1)),
            "A leaves": leave(world, group, {"member_id": a.member_id}, names=names),
        }
        facts["B's SyncGroup"] = error(b.peer.receive()[1].body.error_code)
        facts["B joins"] = b.join()
        facts["B assigns"] = b.sync({b.member_id: b"b"})
        facts["A"] = a.heartbeat()
    return facts


@scenario(
    "G94",
    "a third comes while two wait for their assignment; the leader assigns all the same; then all join",
    {
        "B's SyncGroup": "REBALANCE_IN_PROGRESS(27)",
        "A assigns": "REBALANCE_IN_PROGRESS(27)",
        "B's heartbeat": "REBALANCE_IN_PROGRESS(27)",
        "B joins": "generation 3, range, id B, leader A, members []",
        "A": "generation 3, range, id A, leader A, members [A B C]",
        "C": "generation 3, range, id C, leader A, members []",
    },
)
def g94(world: World) -> Facts:
    group, names = fresh(world)
    with (
        Member(world, group, "A", names).stable() as a,
        Member(world, group, "B", names) as b,
        Member(world, group, "C", names) as c,
    ):
        both_joined(world, a, b)
        b.peer.send("sync_group", 5, b.sync_body())
        c.send_join()
        facts = {"B's SyncGroup": error(b.peer.receive()[1].body.error_code), "A assigns": a.sync({a.member_id: b"a"})}
        facts["B's heartbeat"] = b.heartbeat()
        a.send_join()
        facts["B joins"] = b.join()
        facts["A"] = a.heard()
        facts["C"] = c.heard()
    return facts


@scenario(
    "G96",
    "the broker is stopped and started: a stable group, its members and offsets, a group left by all, a simple one",
    {
        "committed": "NONE",
        "group": "NONE, Stable, 'consumer', 'range', ['all' of static, told metadata]",
        "A's heartbeat": "NONE",
        "A's SyncGroup": "NONE, 'all'",
        "A comes back": "generation 1, range, id C, leader C, members [C], skip",
        "its offsets": "NONE: t-0 5 'm' epoch 0",
        "left": "NONE, Empty, 'consumer', '', []",
        "left, offsets": "NONE: t-0 8 'm'",
        "simple": "NONE, Empty, '', '', []",
        "simple, offsets": "NONE: t-0 7 'm'",
    },
    restart=STOP,
)
def g96(world: World) -> Steps:
    return (yield from _over_a_restart(world, kill=False))


@scenario(
    "G97",
    "the broker is killed and started: a stable group, its members and offsets, a group left by all, a simple one",
    {
        "committed": "NONE",
        "group": "NONE, Stable, 'consumer', 'range', ['all' of static, told metadata]",
        "A's heartbeat": "NONE",
        "A's SyncGroup": "NONE, 'all'",
        "A comes back": "generation 1, range, id C, leader C, members [C], skip",
        "its offsets": "NONE: t-0 5 'm' epoch 0",
        "left": "NONE, Empty, 'consumer', '', []",
        "left, offsets": "NONE: t-0 8 'm'",
        "simple": "NONE, Empty, '', '', []",
        "simple, offsets": "NONE: t-0 7 'm'",
    },
    restart=KILL,
)
def g97(world: World) -> Steps:
    return (yield from _over_a_restart(world, kill=True))


def _over_a_restart(world: World, *, kill: bool) -> Steps:
    group, names = fresh(world)
    left, simple, topic = world.fresh(), world.fresh(), world.topic()
    coordinator(world, left, simple)
    with Member(world, group, "A", names, group_instance_id="i").stable() as a:
        before = commit(world, group, [(topic, [part(epoch=0)])], by(a))
    commit(world, simple, [(topic, [part(0, 7)])])
    with Member(world, left, "B", names).stable() as b:
        commit(world, left, [(topic, [part(0, 8)])], by(b))
        leave(world, left, {"member_id": b.member_id})
    yield KILL if kill else STOP
    yield START
    coordinator(world, group, left, simple)
    with Member(world, group, "C", names, group_instance_id="i") as again:
        again.member_id, again.generation = a.member_id, a.generation
        facts = {"committed": before, "group": described(world, group), "A's heartbeat": again.heartbeat()}
        facts["A's SyncGroup"] = again.sync()
        again.member_id = ""
        facts["A comes back"] = again.join()
    return facts | {
        "its offsets": offsets(world, group, None, {topic: "t"}),
        "left": described(world, left),
        "left, offsets": offsets(world, left, None, {topic: "t"}),
        "simple": described(world, simple),
        "simple, offsets": offsets(world, simple, None, {topic: "t"}),
    }


@scenario(
    "G98",
    "JoinGroup with rebalance timeouts of 0, -1 and -2 ms, a long and a strange group id, an empty instance id",
    {
        "0 ms": "generation 1, range, id A, leader A, members [A]",
        "-1 ms": "generation 1, range, id A, leader A, members [A]",
        "-2 ms": "generation 1, range, id A, leader A, members [A]",
        "long": "generation 1, range, id A, leader A, members [A]; CompletingRebalance",
        "strange": "generation 1, range, id A, leader A, members [A]; CompletingRebalance",
        "empty instance": "generation 1, range, id B, leader B, members [B]",
    },
)
def g98(world: World) -> Facts:
    group, names = fresh(world)
    facts = {}
    for timeout in (0, -1, -2):
        with Member(world, f"{group}{timeout}", "A", names, rebalance_timeout=timeout) as a:
            coordinator(world, a.group)
            facts[f"{timeout} ms"] = a.join()
    for name, text in {"long": "g" * 1000, "strange": " \u00e4/\n\u20ac*\0"}.items():
        with Member(world, text, "A", names) as a:
            coordinator(world, text)
            facts[name] = f"{a.join()}; {described(world, text).split(', ')[1]}"
    with Member(world, group, "B", names, group_instance_id="") as b:
        facts["empty instance"] = b.join()
    return facts


@scenario(
    "G99",
    "a pending id keeps the others from joining until it joins or leaves",
    {
        "A's heartbeat": "NONE",
        "group": "NONE, Stable, 'consumer', 'range', ['all' of dynamic, told metadata]",
        "A waits": "True",
        "B leaves": "NONE: B NONE",
        "A": "generation 2, range, id A, leader A, members [A]",
    },
)
def g99(world: World) -> Facts:
    group, names = fresh(world)
    with Member(world, group, "A", names).stable() as a, Member(world, group, "B", names) as b:
        b.ask_id()
        facts = {"A's heartbeat": a.heartbeat(), "group": described(world, group)}
        a.send_join()
        facts["A waits"] = str(a.peer.silent(0.1))
        facts["B leaves"] = leave(world, group, {"member_id": b.member_id}, names=names)
        facts["A"] = a.heard()
    return facts
