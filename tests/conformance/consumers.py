"""Members of groups of the consumer protocol (KIP-848) over raw connections, and what they are told in words.

Ids of members and topics are random or made up for one scenario: a fact has letters instead.
"""

from types import TracebackType
from typing import Any, Self

from tests.conformance.raw import Connection
from tests.conformance.world import World, error

BEAT = 1
REBALANCE_MS = 30000
"""Longer than a scenario waits, so that nothing ends by itself on a slow machine."""

Owned = dict[str, list[int]]


class Consumer:
    """One member with a connection of its own; a context manager that closes it.

    It names itself after its letter and its group, says in each heartbeat what it has, and keeps what it is told. What
    the heartbeats say otherwise is in `asks`, in the words of the request.
    """

    def __init__(self, world: World, group: str, letter: str = "A", *topics: str, **asks: Any) -> None:
        self.peer: Connection = world.connect()
        self.world, self.group, self.letter, self.topics = world, group, letter, topics
        self.asks = asks
        self.member_id = f"{letter}-{group}"
        self.epoch = 0
        self.interval_ms = 0
        self.owned: Owned = {}
        self.ids = {topic: world.metadata(topic).topic_id for topic in topics}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.peer.close()

    def body(self, **changed: Any) -> dict[str, Any]:
        """A heartbeat that says nothing but where the member stands."""
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.asks.get("instance_id"),
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
            **changed,
        }

    def ask(self, **changed: Any) -> str:
        """Send a heartbeat with these fields; the answer in words."""
        body = self.peer.call("consumer_group_heartbeat", BEAT, self.body(**changed)).body
        code = error(body.error_code)
        if code != "NONE":
            return f"{code}: {self.plainly(body.error_message)}" if body.error_message else code
        self.epoch = body.member_epoch
        self.interval_ms = round(body.heartbeat_interval.total_seconds() * 1000)
        words = [f"epoch {body.member_epoch}"]
        if body.assignment is not None:
            self.owned = {self.named(each.topic_id): list(each.partitions) for each in body.assignment.topic_partitions}
            words.append(f"assigned {self.shown(self.owned)}")
        return ", ".join(words)

    def join(self, **changed: Any) -> str:
        """Come with all that a first heartbeat says."""
        said = {
            "member_epoch": 0,
            "rebalance_timeout": REBALANCE_MS,
            "subscribed_topic_names": list(self.topics),
            "topic_partitions": [],
            **self.asks,
            **changed,
        }
        self.owned = {}
        return self.ask(**said)

    def beat(self, owned: Owned | None = None, **changed: Any) -> str:
        """Say what it has: what it was told last, unless it is said here."""
        has = self.owned if owned is None else owned
        parts = [{"topic_id": self.ids[topic], "partitions": numbers} for topic, numbers in has.items()]
        return self.ask(topic_partitions=parts, **changed)

    @property
    def counts(self) -> list[int]:
        """How many partitions of each of its topics it has."""
        return [len(self.owned.get(topic, [])) for topic in self.topics]

    def settled(self, *counts: int) -> str:
        """Beat until it has so many partitions of its topics, one number for each; then what it has."""
        settle(self.world, {self: list(counts)})
        return self.shown(self.owned)

    def at(self, epoch: int) -> str:
        """Beat until it is at this epoch; then what the last answer was."""
        said = ""

        def there() -> bool:
            nonlocal said
            said = self.beat()
            return self.epoch == epoch

        self.world.wait(there, f"{self.letter} at epoch {epoch}")
        return said

    def leave(self, epoch: int = -1, **changed: Any) -> str:
        """Go, for good or (-2) for a while."""
        return self.ask(member_epoch=epoch, **changed)

    def named(self, topic_id: Any) -> str:
        """A topic by its id."""
        return next((topic for topic, each in self.ids.items() if each == topic_id), "another")

    def shown(self, owned: Owned) -> str:
        """Partitions by topic: the first topic is 0."""
        found = [
            f"{self.topics.index(topic) if topic in self.topics else topic}: {' '.join(map(str, sorted(numbers)))}"
            for topic, numbers in sorted(owned.items())
            if numbers
        ]
        return f"[{'; '.join(found)}]"

    def plainly(self, message: str) -> str:
        """A message with letters for the ids of members, and g for the group's."""
        return message.replace(f"-{self.group}", "").replace(self.group, "g")


def settle(world: World, wanted: dict[Consumer, list[int]]) -> None:
    """Members beat, one after the other, until each has so many partitions of its topics and has said so."""

    def there() -> bool:
        before = [each.counts for each in wanted]
        for each in wanted:
            each.beat()
        return before == list(wanted.values()) == [each.counts for each in wanted]

    world.wait(there, f"{', '.join(each.letter for each in wanted)} have {list(wanted.values())}")


def fenced(than: str, epoch: int, known: int) -> str:
    """What a member of an epoch that is `smaller` or `greater` than the known one is told."""
    return (
        f"FENCED_MEMBER_EPOCH(110): The consumer group member has a {than} member epoch ({epoch}) than the one known "
        f"by the group coordinator ({known}). The member must abandon all its partitions and rejoin."
    )


def described(world: World, group: str, *members: Consumer) -> str:
    """ConsumerGroupDescribe of one group in words; members by their letters."""
    one = world.call("consumer_group_describe", BEAT, {"group_ids": (group,)}).body.groups[0]
    if error(one.error_code) != "NONE":
        return (
            f"{error(one.error_code)}: {(one.error_message or '').replace(group, 'g') if group else one.error_message}"
        )
    known = {each.member_id: each for each in members}
    told = [f"{one.group_state}, epoch {one.group_epoch}, target {one.assignment_epoch}, {one.assignor_name!r}"]
    seen = [(known[each.member_id], each) for each in one.members if each.member_id in known]
    told += [_member(me, each) for me, each in sorted(seen, key=lambda pair: pair[0].letter)]
    return "; ".join(told)


def _member(known: Consumer, told: Any) -> str:
    has, wanted = (
        known.shown({known.named(part.topic_id): list(part.partitions) for part in each.topic_partitions})
        for each in (told.assignment, told.target_assignment)
    )
    static = f" static {told.instance_id}" if told.instance_id else ""
    pattern = f" pattern {told.subscribed_topic_regex}" if told.subscribed_topic_regex else ""
    return f"{known.letter} type {told.member_type} epoch {told.member_epoch} has {has} of {wanted}{static}{pattern}"


def listed(world: World, group: str, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> str:
    """ListGroups with these filters: what is told of one group."""
    told = world.call("list_groups", 5, {"states_filter": states, "types_filter": types}).body
    mine = [f"{one.protocol_type} {one.group_state} {one.group_type}" for one in told.groups if one.group_id == group]
    return mine[0] if mine else "none" if error(told.error_code) == "NONE" else error(told.error_code)
