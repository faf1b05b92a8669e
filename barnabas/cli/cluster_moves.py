"""`barnabas cluster drain` and `reassign`: partitions go to other brokers, and what is told of it.

The cluster itself knows what is under way. So a `drain` that is ended goes on with the next, and two of them agree.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.cli.codes import told
from barnabas.cli.progress import Progress
from barnabas.cli.speak import say, say_json, some
from barnabas.protocol.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.client.admin import Admin

LOOK_S: Final = 0.25
LATE_LOOKS: Final = 8
"""So many looks have to agree before a drain is refused. Any broker tells where partitions are, and one that is late
still tells of a replica that a move has just taken away: it seems to leave too few others, or one too many."""
AT_ONCE_MAX: Final = 50
"""Partitions of a drain that are under way at a time: what is ended meanwhile leaves no more than these."""


class Lies(NamedTuple):
    """Where a partition is to be in the end, and whether it is on its way there."""

    where: TopicPartition
    replicas: tuple[int, ...]
    moves: bool
    removing: tuple[int, ...] = ()


class Undrainable(BarnabasError):
    """There are too few other brokers for what lies on one."""


class NoSuchBroker(BarnabasError):
    """Nothing lies on a broker of this id, and none is alive."""


def drain(admin: Admin, node_id: int, as_json: bool) -> int:
    """Move all that a broker has to others, some at a time, until it has nothing left.

    Raises:
        Undrainable: a partition has as many replicas as there are other brokers, or more; nothing was moved.
        NoSuchBroker: there is nothing of it, and it is not there.
    """
    there, wanted = _off(admin, node_id)  # refused, if it is, before anything is begun
    left = before = sum(_has(one, node_id) for one in there)
    if not before and node_id not in (alive := _racks(admin)):
        raise NoSuchBroker(
            f"no broker {node_id} is alive, and no partition is on one: alive are {', '.join(map(str, sorted(alive)))} "
            f"(one that is stopped for good goes by `barnabas cluster remove {node_id}`)"
        )
    with Progress() as progress:
        try:
            while left:
                begun = [one for one in there if one.moves and node_id in one.removing]
                room = max(AT_ONCE_MAX - len(begun), 0)
                _begin(admin, dict(list(wanted.items())[:room]), may_resize=False)
                if progress.due():
                    progress.tell(f"broker {node_id}: {some(left, 'partition')} of {before} to go")
                time.sleep(LOOK_S)
                there, wanted = _off(admin, node_id)
                left = sum(_has(one, node_id) for one in there)
        except KeyboardInterrupt:
            progress.clear()
            say(f"broker {node_id} has {some(left, 'partition')} left, those on their way arrive; drain it again")
            raise
    if as_json:
        say_json(broker=node_id, moved=before, left=0)
    else:
        moved = f"{some(before, 'partition')} moved to others" if before else "it had no partitions"
        stays = "it stays, for it is a controller"  # `remove` would say so
        then = stays if _decides(admin, node_id) else f"barnabas cluster remove {node_id} takes it out"
        say(f"broker {node_id} is empty: {moved}; {then}")
    return 0


def _decides(admin: Admin, node_id: int) -> bool:
    try:
        return any(one.replica_id == node_id for one in admin.describe_quorum().voters)
    except BarnabasError:  # who does not tell of it is no cluster of ours
        return False


def _has(one: Lies, node_id: int) -> bool:
    return node_id in one.replicas or node_id in one.removing


def _racks(admin: Admin) -> dict[int, str | None]:
    cluster = admin.describe_cluster()
    return {node: cluster.racks.get(node) for node, _, _ in cluster.brokers}


def _off(admin: Admin, node_id: int) -> tuple[list[Lies], dict[TopicPartition, tuple[int, ...]]]:
    """What lies where, and where what is on a broker is to go.

    Raises:
        Undrainable: as `moves_off`, and it stays so.
    """
    looks = 0
    while True:
        there = _all(admin)
        try:
            return there, moves_off(node_id, there, _racks(admin))
        except Undrainable:
            looks += 1
            if looks == LATE_LOOKS:
                raise
        time.sleep(LOOK_S)


def moves_off(
    node_id: int, there: Iterable[Lies], racks: Mapping[int, str | None]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Where all goes that is to be on a broker: to the other that has least, in the place that it leaves.

    One in a rack that has no other replica of it comes before one in a rack that has. `racks` names all brokers.

    Raises:
        Undrainable: some partition has a replica on each of the others already.
    """
    there = list(there)
    load = Counter(replica for one in there for replica in one.replicas)
    moves = {}
    for one in there:
        if node_id in one.replicas:
            free = sorted(node for node in racks if node not in one.replicas)
            if not free:
                raise Undrainable(
                    f"{one.where} has {some(len(one.replicas), 'replica')}, one on each of the other brokers: add a "
                    "broker (barnabas cluster add), or give it fewer replicas (barnabas cluster reassign); nothing was "
                    "moved"
                )
            shared = Counter(racks.get(stays) for stays in one.replicas if stays != node_id)
            best = min(free, key=lambda node: (shared[racks[node]], load[node], node))
            load[best] += 1
            moves[one.where] = tuple(best if replica == node_id else replica for replica in one.replicas)
    return moves


def _all(admin: Admin) -> list[Lies]:
    under_way = admin.list_partition_reassignments()
    found = []
    for topic in admin.describe_all_topics(internal=True).values():
        for part in topic.partitions:
            where = TopicPartition(part.topic, part.partition)
            moving = under_way.get(where)
            if moving is None:
                found.append(Lies(where, tuple(part.replicas), moves=False))
            else:
                stay = tuple(one for one in moving.replicas if one not in moving.removing)
                found.append(Lies(where, stay, moves=True, removing=moving.removing))
    return found


def _begin(admin: Admin, moves: Mapping[TopicPartition, Sequence[int] | None], *, may_resize: bool = True) -> None:
    """Begin them; without `may_resize` what a late broker has told wrongly waits for the next look."""
    if moves:
        answers = admin.alter_partition_reassignments(moves, may_resize=may_resize)
        refused = [error for error in answers.values() if error is not None and (may_resize or not _resizes(error))]
        if refused:
            begun = sum(error is None for error in answers.values())
            rest = [f"{some(begun, 'other partition')}: begun as asked for"] if begun else []
            raise BarnabasError("; ".join([*map(told, refused), *rest]))


def _resizes(error: BarnabasError) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.INVALID_REPLICATION_FACTOR


# ---- reassign ------------------------------------------------------------------------------------------------------


def reassign(admin: Admin, file: Path, *, verify: bool, cancel: bool, as_json: bool) -> int:
    """Begin what a file says, give it up, or say how far it is: 1 where it is not all there.

    Raises:
        ConfigError: the file is no plan.
    """
    wanted = plan_of(file)
    if verify:
        return _verify(admin, wanted, as_json)
    if cancel:
        moving = admin.list_partition_reassignments()
        _begin(admin, {where: None for where in wanted if where in moving})
        given_up = sum(where in moving for where in wanted)
        say_json(given_up=given_up) if as_json else say(f"{some(given_up, 'reassignment')} given up")
        return 0
    now = {one.where: one.replicas for one in _all(admin) if one.where in wanted}
    say(json.dumps(plan_told(now)))
    _begin(admin, wanted)
    print(
        f"{some(len(wanted), 'partition')} on the way; what is printed is where they were, a file for the way back; "
        f"barnabas cluster reassign {file} --verify says how far they are",
        file=sys.stderr,
    )
    return 0


def _verify(admin: Admin, wanted: Mapping[TopicPartition, tuple[int, ...]], as_json: bool) -> int:
    there = {one.where: one for one in _all(admin)}
    missing = 0
    for where, replicas in wanted.items():
        one = there.get(where)
        if one is None:
            state = "is not there"
        elif one.moves:
            state = "is on its way"
        else:
            state = "is there" if one.replicas == replicas else f"is on {list(one.replicas)}"
        missing += state != "is there"
        if as_json:
            say_json(topic=where.topic, partition=where.partition, replicas=list(replicas), state=state)
        else:
            say(f"{where} {state}")
    return 1 if missing else 0


def plan_of(file: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """What a file of `kafka-reassign-partitions.sh` says: `{"partitions": [{"topic", "partition", "replicas"}]}`.

    Raises:
        ConfigError: it is none; the sentence names the file.
    """
    try:
        said: Any = json.loads(file.read_text(encoding="utf-8"))
        parts = said["partitions"]
        plan = {
            TopicPartition(str(one["topic"]), int(one["partition"])): tuple(map(int, one["replicas"])) for one in parts
        }
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f'{file} is no plan: write {{"partitions": [{{"topic": "t", "partition": 0, "replicas": [1, 2]}}]}}'
        ) from error
    if not plan:
        raise ConfigError(f"{file} names no partition")
    if len(plan) < len(parts):
        raise ConfigError(f"{file} names a partition twice")
    return plan


def plan_told(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """The same as a file has it."""
    parts = [
        {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
        for where, replicas in sorted(plan.items())
    ]
    return {"version": 1, "partitions": parts}
