"""The next step of one member towards its target. Pure. Source: `CurrentAssignmentBuilder` of Apache Kafka.

    assigned    what it has and is to have
    revoking    what it has and is not to have: it keeps its epoch until a heartbeat does not name these any more
    missing     what it is to have and has not: given at once where nobody else has it, else when that one has let go

A member that has nothing left to give up is in the epoch of the target, whether or not something is missing: what it
has is its own in that epoch. UNREVOKED_PARTITIONS waits for the member, UNRELEASED_PARTITIONS for others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.broker.group.consumer.values import Assignment, Current, Given, MemberState
from barnabas.protocol.errors import ErrorCode, KafkaError

Owned: TypeAlias = Mapping[bytes, Collection[int]]

_EMPTY: Final[Given] = {}
_NOBODY: Final[Mapping[int, str]] = {}


class Aim(NamedTuple):
    """Where a member is to go.

    `subscribed` are the ids of topics that it wants now, `resubscribed` that these are others than before. `owners`
    says by topic id who has a partition; with one of `own` nobody else has it. `owned` is what the member says that it
    has, None if it does not say.
    """

    epoch: int
    target: Assignment
    subscribed: frozenset[bytes]
    resubscribed: bool
    owners: Mapping[bytes, Mapping[int, str]]
    own: tuple[str, ...]
    owned: Owned | None


def reconcile(current: Current, aim: Aim) -> Current:
    """What the member has from now on; the same if there is nothing to do, or the member is waited for.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH: its state is one that only a later release knows.
    """
    state = current.state
    if state is MemberState.STABLE:
        if current.epoch != aim.epoch:
            return _next(current, aim, current.epoch)
        return _without_unsubscribed(current, aim) if aim.resubscribed else current
    if state is MemberState.UNREVOKED_PARTITIONS and _owns(aim.owned, current.revoking):
        return _without_unsubscribed(current, aim) if aim.resubscribed else current
    if state is MemberState.UNKNOWN:
        if aim.owned is None or aim.owned:
            detail = (
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, detail)
        return _next(current, aim, aim.epoch)
    return _next(current, aim, current.epoch)


def _next(current: Current, aim: Aim, epoch: int) -> Current:
    assigned: dict[bytes, Mapping[int, int]] = {}
    revoking: dict[bytes, Mapping[int, int]] = {}
    missing: dict[bytes, list[int]] = {}
    waits = False
    for topic_id, has in current.assigned.items():
        wanted = aim.target.get(topic_id, frozenset()) if topic_id in aim.subscribed else frozenset()
        if wanted.issuperset(has):
            assigned[topic_id] = has
            continue
        kept = {number: since for number, since in has.items() if number in wanted}
        if kept:
            assigned[topic_id] = kept
        revoking[topic_id] = {number: since for number, since in has.items() if number not in wanted}
    for topic_id, numbers in aim.target.items():
        if topic_id not in aim.subscribed:
            continue
        lacking = numbers.difference(current.assigned.get(topic_id, ()))
        if not lacking:
            continue
        owners = aim.owners.get(topic_id, _NOBODY)
        free = [number for number in lacking if (owner := owners.get(number)) is None or owner in aim.own]
        waits |= len(free) < len(lacking)
        if free:
            missing[topic_id] = free
    if revoking and _owns(aim.owned, revoking):
        return Current(epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    for topic_id, free in missing.items():
        assigned[topic_id] = {**assigned.get(topic_id, {}), **dict.fromkeys(free, aim.epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return Current(aim.epoch, current.epoch, state, assigned, _EMPTY)


def _without_unsubscribed(current: Current, aim: Aim) -> Current:
    """Take from it what it does not want any more, in the same epoch."""
    gone = {topic_id: has for topic_id, has in current.assigned.items() if topic_id not in aim.subscribed}
    if not gone:
        return current
    assigned = {topic_id: has for topic_id, has in current.assigned.items() if topic_id not in gone}
    revoking = {topic_id: dict(has) for topic_id, has in current.revoking.items()}
    for topic_id, has in gone.items():
        revoking.setdefault(topic_id, {}).update(has)
    if _owns(aim.owned, revoking):
        return Current(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    return current._replace(previous_epoch=current.epoch, assigned=assigned)


def _owns(owned: Owned | None, given: Given) -> bool:
    """Whether the member has some of these still, as far as it says."""
    if owned is None:
        return True
    return any(number in given.get(topic_id, ()) for topic_id, numbers in owned.items() for number in numbers)


def owned_of(told: list[Any] | None) -> Owned | None:
    """What a request says that its member owns."""
    if told is None:
        return None
    owned: dict[bytes, set[int]] = {}
    for one in told:
        owned.setdefault(one.topic_id, set()).update(one.partitions)
    return owned
