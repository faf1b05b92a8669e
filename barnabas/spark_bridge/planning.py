"""Which records a query reads: resolved starts and ends, limits, guards. No Spark, no sockets: `Cluster` answers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import OffsetError, Offsets, Span
from barnabas.spark_bridge.options import EARLIEST, LATEST, Bound, ByTimestamp, OptionError, SourceOptions, Specific

log = logging.getLogger(__name__)


class Asked(Protocol):
    """What planning asks of a cluster (`Cluster`, or a test's own)."""

    def partitions(self) -> list[TopicPartition]:
        """The partitions the query reads."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each."""

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offset behind the last record of each."""

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a timestamp of each."""


def resolve(
    cluster: Asked, bound: Bound, partitions: list[TopicPartition], *, side: str, or_latest: bool = True
) -> Offsets:
    """The offset of every partition that `startingOffsets` and the like stand for.

    Raises:
        OptionError: the option names other partitions, or no record is as young as a starting timestamp.
    """
    if bound == "earliest":
        return cluster.earliest(partitions)
    if bound == "latest":
        return cluster.latest(partitions)
    if isinstance(bound, ByTimestamp):
        return _by_timestamp(cluster, bound, partitions, side, or_latest)
    assert isinstance(bound, Specific)
    _check_same(set(bound.offsets), partitions, f"{side}Offsets")
    offsets = dict(bound.offsets)
    for special, ask in ((EARLIEST, cluster.earliest), (LATEST, cluster.latest)):
        chosen = [where for where, offset in offsets.items() if offset == special]
        if chosen:
            offsets.update(ask(chosen))
    return offsets


def _by_timestamp(
    cluster: Asked, bound: ByTimestamp, partitions: list[TopicPartition], side: str, or_latest: bool
) -> Offsets:
    if bound.everywhere is None:
        _check_same(set(bound.each), partitions, f"{side}OffsetsByTimestamp")
    found = cluster.at_times({where: bound.of(where) for where in partitions})
    late = [where for where, offset in found.items() if offset is None]
    if late and not or_latest:
        raise OptionError(
            f"no record of {', '.join(map(str, late))} is as young as the starting timestamp; set "
            "startingOffsetsByTimestampStrategy to latest to start at the end there"
        )
    offsets = {where: offset for where, offset in found.items() if offset is not None}
    if late:
        offsets.update(cluster.latest(late))
    return offsets


def _check_same(named: set[TopicPartition], partitions: list[TopicPartition], option: str) -> None:
    if named != set(partitions):
        missing = ", ".join(map(str, sorted(set(partitions) - named))) or "none"
        extra = ", ".join(map(str, sorted(named - set(partitions)))) or "none"
        raise OptionError(f"{option} must name exactly the partitions read: missing {missing}; too many {extra}")


def starts_of_new(cluster: Asked, options: SourceOptions, known: Offsets, latest: Offsets, *, first: bool) -> Offsets:
    """Where partitions without a position begin: as the options say in the first batch, at the beginning later.

    Raises:
        OffsetError: partitions that were read before are gone, and failOnDataLoss is set.
    """
    if first:
        check_present(options, list(latest))
    gone = sorted(set(known) - set(latest))
    if gone:
        report_loss(options, f"the partitions {', '.join(map(str, gone))} are gone")
    new = sorted(set(latest) - set(known))
    if not new:
        return {}
    if first:
        return resolve(cluster, options.starting, new, side="starting", or_latest=options.or_latest)
    return cluster.earliest(new)


def check_present(options: SourceOptions, partitions: list[TopicPartition]) -> None:
    """A new query needs all that it names.

    Raises:
        OptionError: a topic or partition does not exist.
    """
    topics = {where.topic for where in partitions}
    absent = [topic for topic in options.topics if topic not in topics]
    absent += [str(where) for where in options.assigned if where not in partitions]
    if options.pattern is not None and not partitions:
        absent = [f"any topic that matches {options.pattern!r}"]
    if absent:
        raise OptionError(f"the broker does not have {', '.join(absent)}: create the topic first, or mend the option")


def forward(options: SourceOptions, start: Mapping[TopicPartition, int], end: Offsets) -> Offsets:
    """The end, never before the start: a log that ends earlier than was read has lost records.

    Raises:
        OffsetError: that is so, and failOnDataLoss is set.
    """
    back = sorted(where for where, offset in end.items() if offset < start.get(where, 0))
    if back:
        what = "; ".join(f"{where} was read up to {start[where]} and ends at {end[where]}" for where in back)
        report_loss(options, what)
    return {where: max(offset, start.get(where, 0)) for where, offset in end.items()}


def report_loss(options: SourceOptions, what: str) -> None:
    """Raises or warns, as failOnDataLoss says."""
    text = f"{what}: the topic was deleted, recreated or cut"
    if options.fail_on_data_loss:
        raise OffsetError(f"{text}. Set failOnDataLoss to false to go on with what is there")
    log.warning("%s; failOnDataLoss is false", text)


def spans_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[Span]:
    """What lies between two offsets, partition by partition; empty stretches are left out."""
    return [Span(where, start[where], end[where]) for where in sorted(end) if start[where] < end[where]]
