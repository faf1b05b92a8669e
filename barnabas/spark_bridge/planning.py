"""Which records a query reads: resolved starts and ends, limits, guards. No Spark, no sockets: `Brokers` answers."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.bytes_limit import Sizes, bytes_between, limit_bytes
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.offsets import OffsetError, Offsets, Span, limit
from barnabas.spark_bridge.options import EARLIEST, LATEST, Bound, ByTimestamp, SourceOptions, Specific
from barnabas.spark_bridge.origin import Anew

log = logging.getLogger(__name__)


NOTHING_CUT: Final[Mapping[TopicPartition, int]] = {}


class View(NamedTuple):
    """What planning sees: where partitions begin that have no position, where all stand, and where the logs end."""

    begun: Offsets
    position: Offsets
    latest: Offsets


class Asked(Protocol):
    """What planning asks of the brokers (`Brokers`, or a test's own)."""

    @property
    def topics(self) -> Collection[str]:
        """Those that were there when `partitions` was asked for last."""

    def partitions(self) -> list[TopicPartition]:
        """The partitions the query reads."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each."""

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offset behind the last record of each."""

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a timestamp of each."""


class Sized(Protocol):
    """What limits of bytes ask (`Brokers`, or a test's own)."""

    def sizes(self, offsets: Mapping[TopicPartition, int]) -> Sizes:
        """How large the next batches are, of those that tell."""


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


def starts(
    cluster: Asked,
    options: SourceOptions,
    known: Offsets,
    latest: Offsets,
    anew: Anew,
    cut: Mapping[TopicPartition, int] = NOTHING_CUT,
    *,
    first: bool,
) -> Offsets:
    """Where partitions begin that have no position, or lost it.

    New ones begin as the options say in the first batch, at their beginning later; those of a topic that was made anew
    where onRecreatedTopic says. With failOnDataLoss off, a log that lost its end goes on from where it was cut, as far
    as that is known from `cut` (`cuts.py`), else from where it ends now.

    Raises:
        OffsetError: partitions that were read before are gone or shorter, and failOnDataLoss is set; or their topic
            was made anew, and onRecreatedTopic is fail.
    """
    if first:
        check_present(options, list(latest), cluster.topics)
    present = {where.topic for where in latest}
    reset = sorted(where for where in known if where.topic in anew.topics and where.topic in present)
    if reset:
        report_recreated(options, anew.why)
    gone = sorted(set(known) - set(latest) - set(reset))
    if gone:
        also = f" ({anew.why})" if anew.topics else ""
        upto = ", ".join(str(known[where]) for where in gone)
        report_loss(options, f"the partitions {_names(gone)} are gone{also}, which were read up to {upto}")
    ends = {where: min(latest[where], cut.get(where, latest[where])) for where in sorted(latest)}
    begun = {where: end for where, end in ends.items() if end < known.get(where, 0) and where not in reset}
    if begun:
        told = (
            f"{where} was read up to {known[where]} and "
            + (f"ends at {end}" if latest[where] == end else f"was cut at {end}, where other records are now")
            for where, end in begun.items()
        )
        report_loss(options, "; ".join(told))
    again = sorted(where for where in latest if where.topic in anew.topics)
    new = sorted(set(latest) - set(known) - set(again))
    if again:
        begun |= (
            {where: latest[where] for where in again} if options.on_recreated == "latest" else cluster.earliest(again)
        )
    if new and first:
        begun |= resolve(cluster, options.starting, new, side="starting", or_latest=options.or_latest)
        check_within(options, begun, latest, "startingOffsets")
    elif new:
        begun |= cluster.earliest(new)
    return begun


def limited(cluster: Sized, options: SourceOptions, start: Offsets, latest: Offsets) -> Offsets:
    """Where a batch ends that keeps to maxOffsetsPerTrigger and maxBytesPerTrigger."""
    end = latest
    if options.rows_per_trigger_max is not None:
        end = limit(start, end, options.rows_per_trigger_max)
    if options.bytes_per_trigger_max is not None:
        new = {where: offset for where, offset in start.items() if offset < end[where]}
        end = limit_bytes(start, end, options.bytes_per_trigger_max, cluster.sizes(new))
    return end


def bytes_behind(cluster: Sized, consumed: Offsets, latest: Offsets) -> int:
    """About how many bytes of the logs lie behind what is planned."""
    left = {where: offset for where, offset in consumed.items() if offset < latest.get(where, offset)}
    ends = {where: latest[where] for where in left}
    return sum(bytes_between(left, ends, cluster.sizes(left)).values()) if left else 0


def check_within(options: SourceOptions, chosen: Offsets, latest: Offsets, option: str) -> None:
    """Offsets that an option names lie within the logs; with failOnDataLoss off, `chosen` is mended.

    Raises:
        OptionError: one lies beyond its log's end, and failOnDataLoss is set.
    """
    beyond = {where: offset for where, offset in sorted(chosen.items()) if offset > latest[where]}
    if not beyond:
        return
    what = "; ".join(f"{where} ends at {latest[where]}, not {offset}" for where, offset in beyond.items())
    if options.fail_on_data_loss:
        raise OptionError(
            f"{option} lies beyond the end of the log: {what}. Name an offset up to it, or -1 for the end"
        )
    log.warning("%s lies beyond the end of the log: %s; failOnDataLoss is false", option, what)
    chosen.update({where: latest[where] for where in beyond})


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))


def check_present(options: SourceOptions, partitions: list[TopicPartition], topics: Collection[str]) -> None:
    """A new query needs all topics that it names; of those that `assign` names it reads the partitions there are.

    A pattern may match nothing. Source: Spark's ConsumerStrategy.

    Raises:
        OptionError: a topic does not exist.
    """
    absent = [topic for topic in options.topics if topic not in topics]
    missing = [where for where in options.assigned if where not in partitions]
    absent += [str(where) for where in missing if where.topic not in topics]
    if absent:
        raise OptionError(f"the broker does not have {', '.join(absent)}: create the topic first, or mend the option")
    if missing:
        log.warning("assign names partitions that are not there: %s; they are read once they are", _names(missing))


def report_loss(options: SourceOptions, what: str) -> None:
    """Raises or warns, as failOnDataLoss says."""
    if options.fail_on_data_loss:
        raise OffsetError(
            f"{what}: records may be lost. If the topic was deleted, recreated or cut, or is no longer asked for, set "
            "failOnDataLoss to false to go on with what is there, or start from a new checkpoint"
        )
    log.warning("%s: records may be lost; failOnDataLoss is false", what)


def report_recreated(options: SourceOptions, why: str) -> None:
    """Raises or warns, as onRecreatedTopic says."""
    if options.on_recreated == "fail":
        raise OffsetError(
            f"{why}: the checkpoint's offsets mean nothing there. Set onRecreatedTopic to earliest or latest to read "
            "what is there now from its beginning or end on, or start from a new checkpoint"
        )
    log.warning("%s: onRecreatedTopic is %s", why, options.on_recreated)


def spans_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[Span]:
    """What lies between two offsets, partition by partition; empty stretches are left out."""
    return [Span(where, start[where], end[where]) for where in sorted(end) if start[where] < end[where]]
