"""`barnabas groups reset`: where a group would go on, and that it does so, in the manner of kafka-consumer-groups."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.cli.group_file import offsets_of
from barnabas.cli.group_look import existing, find, occupied
from barnabas.cli.near import topic_meant
from barnabas.cli.speak import some
from barnabas.cli.times import duration_ms, iso_ms, number
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin import Admin


_IDLE: Final = ("Empty", "Dead", "")


class Target(NamedTuple):
    """Where to go: `kind` is earliest, latest, offset, timestamp (ms since the epoch), shift, ago (ms) or file."""

    kind: str
    number: int = -1
    file: Path = Path()


class Chosen(NamedTuple):
    """A topic, and those of its partitions that are meant (none named: all)."""

    topic: str
    partitions: tuple[int, ...]


class Move(NamedTuple):
    """What becomes of one partition. `new` is None where it stays, for the reason in `note`."""

    where: TopicPartition
    committed: int | None
    new: int | None
    note: str


def target(text: str) -> Target:
    """What `--to` says; a time without a zone is UTC, as in Kafka's tool."""
    if text in ("earliest", "latest"):
        return Target(text)
    at = text.startswith("@")
    found = number(text.removeprefix("@"))
    since_ms = iso_ms(text) if found is None and not at else found
    if since_ms is None:
        raise argparse.ArgumentTypeError(
            f"{text}: write earliest, latest, an offset such as 42, a time such as 2026-11-22T09:30:00 "
            "(UTC unless it names a zone), or @ and milliseconds since 1970; --shift-by goes from where it is, "
            "--by-duration from now"
        )
    return Target("timestamp" if at or found is None else "offset", since_ms)


def shift(text: str) -> Target:
    """What `--shift-by` says."""
    count = number(text[1:] if text[:1] in ("+", "-") else text)
    if count is None:
        raise argparse.ArgumentTypeError(f"{text}: write how many records further, such as 10, or back, such as -10")
    return Target("shift", -count if text.startswith("-") else count)


def ago(text: str) -> Target:
    """What `--by-duration` says."""
    found = duration_ms(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text}: write how long ago, such as 90s, 1h30m, 7d, or PT1H30M")
    return Target("ago", found)


def listed(text: str) -> Target:
    """What `--from-file` says."""
    return Target("file", file=Path(text))


def chosen(text: str) -> Chosen:
    """`orders`, `orders:0` or `orders:0,2`."""
    topic, colon, numbers = text.partition(":")
    words = numbers.split(",") if colon else []
    if not topic or not all(word.isascii() and word.isdigit() and len(word) <= 9 for word in words):
        raise argparse.ArgumentTypeError(f"{text}: write TOPIC, TOPIC:PARTITION or TOPIC:PARTITION,PARTITION")
    return Chosen(topic, tuple(map(int, words)))


def select(admin: Admin, wanted: Sequence[Chosen], there: set[TopicPartition]) -> list[TopicPartition]:
    """The partitions that are meant, of those that are there.

    Raises:
        BarnabasError: there is no such topic, or it has no such partition.
    """
    meant = set()
    for topic, numbers in wanted:
        whole = {where for where in there if where.topic == topic}
        if not whole:
            near = topic_meant(admin, topic) or "barnabas topics list shows those there are"
            raise BarnabasError(f"there is no topic {topic}; {near}")
        named = {TopicPartition(topic, number) for number in numbers}
        if absent := sorted(named - whole):
            raise BarnabasError(
                f"topic {topic} has {some(len(whole), 'partition')}, counted from 0; there is no {absent[0]}"
            )
        meant |= named or whole
    return sorted(meant)


def plan(admin: Admin, settings: Mapping[str, Any], name: str, to: Target, wanted: Sequence[Chosen]) -> list[Move]:
    """What a reset would do. A group that is not there can be made, of topics that are named.

    Raises:
        BarnabasError: there is no such group, topic or partition; the group has members.
        ConfigError: a file that is none.
    """
    listed: Mapping[TopicPartition, int] = offsets_of(to.file, name) if to.kind == "file" else {}
    if listed:
        wanted = [Chosen(where.topic, (where.partition,)) for where in listed]
    group = find(admin, name)
    if group is None and not wanted:
        raise BarnabasError(
            f"there is no group {name} (barnabas groups list); to make it, name what it will read with --topic"
        )
    if group is not None and (group.members or group.state not in _IDLE):
        raise occupied(name, f"is {group.state}")
    committed = {where: each.offset for where, each in admin.group_offsets(name).items()}
    there = existing(admin, [each.topic for each in wanted] or [where.topic for where in committed])
    meant = select(admin, wanted, there) if wanted else sorted(committed)
    found = _destinations(settings, to, [where for where in meant if where in there], committed, listed)
    gone = (None, "the partition is no more")
    return [Move(where, committed.get(where), *found.get(where, gone)) for where in meant]


def _destinations(
    settings: Mapping[str, Any],
    to: Target,
    wanted: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
    listed: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, tuple[int | None, str]]:
    """Offset and a note for each partition; what lies outside a log goes to its nearer edge, as in Kafka's tool."""
    from barnabas.client.consumer import Consumer

    with Consumer(config={**settings, "allow.auto.create.topics": False}) as consumer:
        first, last = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
        if to.kind == "earliest":
            return {where: (first[where], "") for where in wanted}
        if to.kind == "latest":
            return {where: (last[where], "") for where in wanted}
        if to.kind in ("timestamp", "ago"):
            since_ms = to.number if to.kind == "timestamp" else max(int(time.time() * 1000) - to.number, 0)
            at = consumer.offsets_for_times(dict.fromkeys(wanted, since_ms))
            return {
                where: (each.offset, "") if each else (last[where], "no record is so young: the end")
                for where, each in at.items()
            }
    if to.kind in ("offset", "file"):
        return {where: _within(listed.get(where, to.number), first[where], last[where]) for where in wanted}
    return {
        where: _within(committed[where] + to.number, first[where], last[where])
        if where in committed
        else (None, "nothing is committed to go from")
        for where in wanted
    }


def _within(offset: int, first: int, last: int) -> tuple[int, str]:
    if offset > last:
        return last, f"{offset} is beyond the end"
    if offset < first:
        return first, f"{offset} is before the first record"
    return offset, ""
