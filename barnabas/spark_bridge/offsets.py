"""Offsets as Spark stores them in its checkpoint, and the arithmetic between them. Pure functions.

An offset is Spark's own Kafka JSON, the next offset of every partition: `{"flights": {"0": 5, "1": 7}}`. What that form
cannot say stands beside it as topics without partitions, whose names no topic can have (with `$` and `/`): Spark's own
source reads over them, and goes on with such a checkpoint.

Spark logs only where a batch ends; for the first batch it asks `initialOffset()` again after a crash, and had `latest`
moved meanwhile, the records between would be lost. So the initial offset is a marker that never changes, and the end of
a batch carries where its new partitions start:

    initialOffset()            {"$fresh": true}
    latestOffset(fresh)        {"$from/flights/0/3": {}, "flights": {"0": 5}}      reads 3 to 5, whatever crashes
    latestOffset(...)          {"flights": {"0": 9}}                               reads 5 to 9

And in each stand `"$cluster/<id>": {}` and `"$id/flights/<topic id>": {}`, for `origin.py`, and leaders' epochs, for
`epochs.py`. The first release wrote
`"$from": {"flights": {"0": 3}}` and `"$ids": {"flights": "<topic id>"}`, which is read as well.

Spark compares offsets as JSON text: keys are always written in one order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.epochs import epoch_keys
from barnabas.spark_bridge.origin import Origin

Offsets: TypeAlias = dict[TopicPartition, int]

LONG_MAX: Final = 2**63 - 1
"""Kafka's offsets and times have 64 bits, as have Spark's numbers."""

FRESH: Final = "$fresh"
_OURS: Final = "$"
_CLUSTER, _FROM, _ID = "$cluster/", "$from/", "$id/"
_OLD_FROM, _OLD_IDS = "$from", "$ids"


class OffsetError(BarnabasError):
    """Offsets that are malformed, go backwards, or point at records that are gone."""


class Span(NamedTuple):
    """Records of one partition from `start` (included) to `end` (excluded)."""

    where: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; there may be fewer records."""
        return self.end - self.start


def fresh() -> dict[str, Any]:
    """The offset of a query that has not planned anything yet."""
    return {FRESH: True}


def is_fresh(stored: object) -> bool:
    """Whether this is the marker of a query that has not planned anything yet."""
    return isinstance(stored, Mapping) and FRESH in stored


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Spark's JSON form, topics by name, partitions by number."""
    form: dict[str, Any] = {}
    for where in sorted(offsets):
        form.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return form


def stored_form(
    end: Mapping[TopicPartition, int],
    begun: Mapping[TopicPartition, int],
    origin: Origin | None = None,
    epochs: Mapping[TopicPartition, int] | None = None,
) -> dict[str, Any]:
    """What a batch leaves in the checkpoint: its end, where partitions new to it begin, and whose offsets they are."""
    origin = origin or Origin()
    topics = sorted({where.topic for where in end})
    beside = [f"{_CLUSTER}{origin.cluster}"] if origin.cluster else []
    if epochs:
        beside += epoch_keys({where: epochs[where] for where in end if where in epochs})
    beside += [f"{_FROM}{where.topic}/{where.partition}/{begun[where]}" for where in sorted(begun)]
    beside += [f"{_ID}{topic}/{origin.topics[topic]}" for topic in topics if topic in origin.topics]
    return {**{key: {} for key in beside}, **to_json(end)}


def stored_origin(stored: Mapping[str, Any]) -> Origin:
    """Whose offsets a stored form holds; nothing is known of one that Spark's own source wrote."""
    cluster = next((key.removeprefix(_CLUSTER) for key in stored if key.startswith(_CLUSTER)), "")
    topics = dict(stored.get(_OLD_IDS, {}))
    for key in stored:
        if key.startswith(_ID):
            topic, _, topic_id = key.removeprefix(_ID).partition("/")
            topics[topic] = topic_id
    return Origin(cluster, topics)


def parse_stored(stored: Any) -> tuple[Offsets, Offsets]:
    """The end offsets of a stored form and where its new partitions begin.

    Args:
        stored: JSON, any: a checkpoint may be another source's (`rate` stores a number), or damaged.

    Raises:
        OffsetError: it was not written by this source, nor by Spark's own.
    """
    if is_fresh(stored):
        return {}, {}
    try:
        plain = {topic: entries for topic, entries in stored.items() if not topic.startswith(_OURS)}
        begun = _from_json(stored.get(_OLD_FROM, {}))
        for key in stored:
            if key.startswith(_FROM):
                topic, partition, offset = key.removeprefix(_FROM).split("/")
                begun[TopicPartition(topic, whole(int(partition), 0))] = whole(int(offset), 0)
        return _from_json(plain), begun
    except (AttributeError, TypeError, ValueError) as error:
        raise OffsetError(
            f"the checkpoint holds offsets of another source, or damaged ones: {json.dumps(stored)}; start from a new "
            "checkpoint, or mend the last file of its directory offsets"
        ) from error


def _from_json(form: Mapping[str, Mapping[str, Any]]) -> Offsets:
    return {
        TopicPartition(topic, whole(int(partition), 0)): whole(offset, 0)
        for topic, entries in form.items()
        for partition, offset in entries.items()
    }


def parse_option(name: str, text: str, least: int = -2) -> Offsets:
    """An option's JSON, `{"topic": {"0": 23, "1": -2}}`: offsets from -2 (earliest) on, or times (ms) from 0 on.

    What a query's progress shows as its end may be given as it is: the keys that name no topic are passed over.

    Raises:
        OffsetError: the text is no such JSON.
    """
    try:
        return {
            TopicPartition(topic, whole(int(partition), 0)): whole(value, least)
            for topic, entries in json.loads(text).items()
            if not topic.startswith(_OURS)
            for partition, value in entries.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        example = '{"topic":{"0":23,"1":-2}}' if least < 0 else '{"topic":{"0":1700000000000}}'
        raise OffsetError(f"{name}: expected JSON like {example}, got {text!r}") from error


def whole(value: object, least: int) -> int:
    """The value if it is a whole number of at least `least`, in 64 bits: JSON's 1.5 and true are none.

    Raises:
        ValueError: it is none.
    """
    if type(value) is not int or not least <= value <= LONG_MAX:
        raise ValueError(value)
    return value


def limit(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], rows_max: int) -> Offsets:
    """The end offsets when at most about `rows_max` records may be read, in proportion to what each partition holds.

    A share below one record is rounded up, so that every partition moves on; a larger one is rounded down.
    Source: Spark's KafkaMicroBatchStream (`rateLimit`).
    """
    sizes = {where: max(end[where] - start[where], 0) for where in end}
    total = sum(sizes.values())
    if total <= rows_max:
        return dict(end)
    limited = {}
    for where, size in sizes.items():
        share = rows_max * size / total
        rows = math.ceil(share) if share < 1 else math.floor(share)
        limited[where] = min(start[where] + rows, end[where])
    return limited


def split(spans: list[Span], rows_max: int | None, partitions_min: int | None) -> list[Span]:
    """Cuts spans into even pieces: first to at most `rows_max` records, then to about `partitions_min` pieces in all.

    A span whose share of these rounds to one piece stays whole; the others share the remaining pieces in proportion,
    rounded half up: there may be a few less than `partitions_min`, or more.

    Source: Spark's KafkaOffsetRangeCalculator.
    """
    if rows_max is not None:
        spans = [piece for span in spans for piece in _cut(span, -(-span.size // rows_max))]
    if partitions_min is None or len(spans) >= partitions_min:
        return spans
    total = sum(span.size for span in spans)
    shared = [span for span in spans if _share(span, total, partitions_min) > 1]
    left = max(partitions_min - (len(spans) - len(shared)), 1)
    rest = sum(span.size for span in shared)
    pieces = (1 if _share(span, total, partitions_min) == 1 else _share(span, rest, left) for span in spans)
    return [piece for span, count in zip(spans, pieces, strict=True) for piece in _cut(span, count)]


def _share(span: Span, total: int, pieces: int) -> int:
    """How many of so many pieces a span gets, one at least."""
    return max((2 * span.size * pieces + total) // (2 * total), 1)


def _cut(span: Span, pieces: int) -> list[Span]:
    found, start = [], span.start
    for left in range(max(1, min(pieces, span.size)), 0, -1):
        end = start + (span.end - start) // left
        found.append(Span(span.where, start, end))
        start = end
    return found


def lag_metrics(latest: Mapping[TopicPartition, int], consumed: Mapping[TopicPartition, int]) -> dict[str, str]:
    """Kafka's source's own lag metrics, as text like there: min, max and average offsets behind the latest."""
    behind = [max(offset - consumed.get(where, offset), 0) for where, offset in latest.items()] or [0]
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }
