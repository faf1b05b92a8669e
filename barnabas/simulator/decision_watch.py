"""What is looked at of a controller's decisions: partitions, who is fenced, who is registered, and why it fenced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.broker.cluster.image import BrokerState, Image
from barnabas.broker.cluster.members import Members
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.history import Decided, Registered, Remade, Removed, Tell
from barnabas.simulator.world import World

_ANYONE: Final = "unclean.leader.election.enable"


class DecisionWatch:
    """Looks at one image of the metadata as it changes."""

    def __init__(self, world: World, tell: Tell) -> None:
        self._world = world
        self._tell = tell
        self._registered: dict[int, int] = {}
        self._alive: tuple[str, ...] = ()
        self._unfenced: list[int] = []
        self._brokers: dict[int, BrokerState] = {}
        self._decided: dict[TopicPartition, Decided] = {}
        self._topics: dict[bytes, str] = {}

    def look(self, image: Image) -> None:
        """It may be another one now."""
        back: list[Registered] = []
        unfenced = [one.broker_id for one in image.brokers.values() if not one.fenced]
        alive = self._alive if unfenced == self._unfenced else names(sorted(unfenced))
        self._unfenced = unfenced
        was, self._brokers = self._brokers, dict(image.brokers)
        away = names(one.broker_id for one in image.brokers.values() if _was_away(was.get(one.broker_id), one))
        if self._alive != alive:
            gone, self._alive = [one for one in self._alive if one not in alive], alive
            self._world.count("brokers fenced", len(gone))
        for one in image.brokers.values():
            if self._registered.get(one.broker_id) != one.broker_epoch:
                self._registered[one.broker_id] = one.broker_epoch
                back.append(Registered(names([one.broker_id])[0], one.broker_epoch))
        for topic_id in [one for one in self._topics if one not in image.topics_by_id]:
            called = self._topics.pop(topic_id)
            for key in [one for one in self._decided if one.topic == called]:
                del self._decided[key]
                self._tell(Removed(key))
        for topic in image.topics.values():
            called = self._world.incarnations.name(topic.topic_id, topic.name)
            if topic.topic_id not in self._topics:
                self._topics[topic.topic_id] = called
                if self._world.incarnations.remade(topic.topic_id, topic.name):
                    self._tell(Remade(topic.name, topic.topic_id))
            for number, state in topic.partitions.items():
                key = topic.keys[number] if called == topic.name else TopicPartition(called, number)
                before = self._decided.get(key)
                if (
                    before is not None
                    and before.partition_epoch == state.partition_epoch
                    and before.leader_epoch == state.leader_epoch
                    and (before.alive is alive or before.alive == alive)
                ):
                    continue
                epochs = (state.leader_epoch, state.partition_epoch)
                leader = names([state.leader])[0] if state.leader > 0 else ""
                members = names(state.replicas), names(state.isr)
                others = names(state.elr), names(state.last_known)
                anyone = image.topic_overrides(topic.name).get(_ANYONE) == "true"
                now = Decided(key, leader, *epochs, *members, alive, *others, anyone, away)
                self._decided[key] = now
                self._tell(now)
                if before is not None:
                    _count(self._world, before, now)
        for registered in back:  # behind what it has led to
            self._tell(registered)


def _was_away(before: BrokerState | None, now: BrokerState) -> bool:
    """Whether it was fenced and unfenced since it was looked at: each change of a broker is another object."""
    return before is not None and before is not now and not before.fenced and not now.fenced


class FencingWatch:
    """Counts why brokers were fenced, as one controller after the other has it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._members: Members | None = None
        self._fencings = (0, 0)

    def look(self, members: Members | None) -> None:
        """A turn of a controller is over."""
        if members is None:
            return
        if members is not self._members:
            self._members, self._fencings = members, (0, 0)
        fencings = members.fenced_gone, members.fenced_silent
        if fencings != self._fencings:
            for what, count, known in zip(("evidence", "timeout"), fencings, self._fencings, strict=True):
                self._world.count(f"fencings by {what}", count - known)
            self._fencings = fencings


def _count(world: World, before: Decided, now: Decided) -> None:
    world.count("ISR shrinks", len(now.isr) < len(before.isr))
    world.count("ISR expansions", len(now.isr) > len(before.isr))
    world.count("elections", now.leader not in ("", before.leader))
    world.count("partitions that lose their leader", not now.leader and bool(before.leader))
    world.count("ISRs below the minimum", len(now.isr) == 1 < len(before.isr))
    if now.leader not in ("", before.leader):
        world.count("elections of an eligible leader", now.leader in before.elr and not before.isr)
        last = now.leader in before.last_known and not before.isr and not before.elr
        world.count("elections of the last known leader", last)
        gives_it_back = before.leader in now.isr and now.leader == now.replicas[0]
        world.count("elections of the preferred leader", gives_it_back)


def names(node_ids: Iterable[int]) -> tuple[str, ...]:
    """The brokers' names, as histories have them."""
    return tuple(f"broker{one}" for one in node_ids)
