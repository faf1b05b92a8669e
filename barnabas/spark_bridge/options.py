"""The options of Spark's own Kafka source, read and checked (names, defaults and refusals as there).

Which partitions: exactly one of `subscribe` (comma list), `subscribePattern` (Java's regular expression on whole topic
names), `assign` (JSON `{"topic": [0, 1]}`). Where to start, the first that is given: `startingTimestamp`,
`startingOffsetsByTimestamp`, `startingOffsets`; a batch ends at `endingTimestamp`, `endingOffsetsByTimestamp`,
`endingOffsets`. Option names are case-insensitive: Spark hands them over in lower case.

What differs from Spark's own source: an unknown option is refused, where Spark ignores it and a misspelt
`startingOffset` starts anywhere; no group is joined and nothing committed, so `groupIdPrefix` has no effect.
`kafka_settings.py` reads the options `kafka.*`.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, overload

from barnabas.protocol.ids import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from barnabas.spark_bridge.bytes_limit import byte_count
from barnabas.spark_bridge.durations import duration_ms
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.kafka_settings import client_options, is_known
from barnabas.spark_bridge.offsets import LONG_MAX, OffsetError, Offsets, parse_option, whole
from barnabas.spark_bridge.schema import names_of
from barnabas.spark_bridge.topic_pattern import TopicPattern

log = logging.getLogger(__name__)

Bound: TypeAlias = "Literal['earliest', 'latest'] | Specific | ByTimestamp"
Mode: TypeAlias = Literal["stream", "batch"]

EARLIEST: Final = EARLIEST_TIMESTAMP
LATEST: Final = LATEST_TIMESTAMP
INT_MAX: Final = 2**31 - 1
"""What Spark reads as an int of Java's is no larger."""


@dataclass(frozen=True, slots=True)
class Specific:
    """An offset for every partition; -2 stands for earliest, -1 for latest."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """The first record at or after a time (ms): one for all partitions, or one for each."""

    everywhere: int | None = None
    each: Offsets = field(default_factory=dict)

    def of(self, where: TopicPartition) -> int:
        """The timestamp for a partition."""
        return self.everywhere if self.everywhere is not None else self.each[where]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All that the source was asked for."""

    client: dict[str, str]
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[TopicPartition, ...]
    starting: Bound
    ending: Bound
    or_latest: bool
    fail_on_data_loss: bool
    on_recreated: Literal["fail", "earliest", "latest"]
    rows_per_partition_max: int | None
    partitions_min: int | None
    include_headers: bool
    attempts_max: int
    retry_wait_ms: int
    silent_ms_max: int
    away_ms_max: int
    commit_group: str | None
    rows_per_trigger_max: int | None = None
    rows_per_trigger_min: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    bytes_per_trigger_max: int | None = None
    near_records_max: int = 1000
    push_filters: bool = False
    columns: tuple[str, ...] = ()
    """Those that a schema of the user's asks for; none: all."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read."""
        return self.columns or names_of(self.include_headers)

    @property
    def asked_by(self) -> str:
        """The option that names what is read."""
        return "subscribe" if self.topics else "assign" if self.assigned else "subscribePattern"

    def asks_for(self, where: TopicPartition) -> bool:
        """Whether the query reads this partition, or may: a pattern is not looked at closely."""
        return self.pattern is not None or where.topic in self.topics or where in self.assigned


_STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitGroup",
    "maxBytesPerTrigger", "prefetchRecords",
)  # fmt: skip
_BATCH_ONLY: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_NAMES: Final = (
    *_STRATEGIES, *_STREAM_ONLY, *_BATCH_ONLY,
    "startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "includeHeaders", "groupIdPrefix", "pushFilters",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
    "brokerTimeout", "onRecreatedTopic",
)  # fmt: skip
_FROM_A_TABLE: Final = ". If this is a table, Spark loses the options of CREATE TABLE: use CREATE TEMPORARY VIEW"
SOURCE_NAMES: Final = {name.lower(): name for name in _NAMES}


def read_options(given: Mapping[str, str], mode: Mode) -> SourceOptions:
    """Reads the options of a stream or of a batch.

    Raises:
        OptionError: one sentence that says what is wrong and what to do.
    """
    options = {key.lower(): value for key, value in given.items()}
    _refuse(options, mode)
    topics, pattern, assigned = _which(options)
    starting = _bound(options, "starting", "latest" if mode == "stream" else "earliest")
    ending = _bound(options, "ending", "latest")
    if mode == "batch":
        _check_batch(starting, ending)
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}")
    return SourceOptions(
        client=client_options(options, "source"),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=starting,
        ending=ending,
        or_latest=strategy == "latest",
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        on_recreated=_on_recreated(options),
        **_pace(options, mode),
        rows_per_partition_max=_number(options, "maxRecordsPerPartition", 1),
        partitions_min=_number(options, "minPartitions", 1, most=INT_MAX),
        push_filters=mode == "batch" and _flag(options, "pushFilters", False),
        include_headers=_flag(options, "includeHeaders", False),
        attempts_max=_number(options, "fetchOffset.numRetries", 0, 3, most=INT_MAX),
        retry_wait_ms=_number(options, "fetchOffset.retryIntervalMs", 0, 1000),
        silent_ms_max=_number(options, "kafkaConsumer.pollTimeoutMs", 1, 120_000),
        away_ms_max=_duration(options, "brokerTimeout", "2m"),
        commit_group=_group(options),
    )


def _pace(options: Mapping[str, str], mode: Mode) -> dict[str, Any]:
    """How much a trigger takes, and how long it may wait for enough; a batch takes all, whatever they say."""
    if mode == "batch":
        return {}
    most = _number(options, "maxOffsetsPerTrigger", 1)
    least = _number(options, "minOffsetsPerTrigger", 1)
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most}): lower the one or raise the other"
        )
    delay_ms = _duration(options, "maxTriggerDelay", "15m")
    try:
        size = byte_count(options["maxbytespertrigger"]) if "maxbytespertrigger" in options else None
    except ValueError as error:
        raise OptionError(f"maxBytesPerTrigger: {error}") from error
    near = _number(options, "prefetchRecords", 0, 1000)
    return {
        "rows_per_trigger_max": most,
        "rows_per_trigger_min": least,
        "trigger_delay_ms_max": delay_ms,
        "bytes_per_trigger_max": size,
        "near_records_max": near,
    }


def _refuse(options: Mapping[str, str], mode: Mode) -> None:
    for key in options:
        if key == "path":
            raise OptionError(
                f"the format barnabas reads topics, not the path {options[key]!r}: use option('subscribe')"
            )
        if key == "topic":
            log.warning("topic has no effect on a source: it is an option of the sink")
        elif key not in SOURCE_NAMES and not key.startswith("kafka."):
            near = (
                [f"kafka.{key}"]
                if is_known(key)
                else [SOURCE_NAMES[name] for name in difflib.get_close_matches(key, sorted(SOURCE_NAMES), n=1)]
            )
            raise OptionError(f"unknown option {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    for name in _BATCH_ONLY if mode == "stream" else ():
        if name.lower() in options:
            raise OptionError(f"{name} does not apply to a streaming query, which ends by its trigger: leave it out")
    for name in _STREAM_ONLY if mode == "batch" else ():
        if name.lower() in options:
            log.warning("%s has no effect on a batch query", name)


def _which(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    given = [name for name in _STRATEGIES if name.lower() in options]
    if len(given) != 1:
        raise OptionError(
            "exactly one of the options subscribe, subscribePattern and assign is needed, "
            + (f"not {' and '.join(given)}" if given else "none was given")
            + ("" if any(key.startswith("kafka.") for key in options) else _FROM_A_TABLE)
        )
    text = options[given[0].lower()].strip()
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise OptionError("subscribe names no topic")
        return topics, None, ()
    if given[0] == "subscribePattern":
        TopicPattern(text)  # refused now if it is none
        return (), text, ()
    try:
        form = json.loads(text)
        assigned = tuple(TopicPartition(topic, whole(number, 0)) for topic in form for number in form[topic])
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f'assign: expected JSON like {{"topic":[0,1]}}, got {text!r}') from error
    if not assigned:
        raise OptionError("assign names no partition")
    return (), None, tuple(sorted(set(assigned)))


def _bound(options: Mapping[str, str], side: str, default: Any) -> Bound:
    everywhere, each, offsets = f"{side}timestamp", f"{side}offsetsbytimestamp", f"{side}offsets"
    if everywhere in options:
        return ByTimestamp(everywhere=_number(options, f"{side}Timestamp", 0, 0))
    try:
        if each in options:
            return ByTimestamp(each=parse_option(f"{side}OffsetsByTimestamp", options[each], least=0))
        text = options.get(offsets, default).strip()
        if text.lower() in ("earliest", "latest"):
            return "earliest" if text.lower() == "earliest" else "latest"
        return Specific(parse_option(f"{side}Offsets", text))
    except OffsetError as error:
        raise OptionError(str(error)) from error


def _check_batch(starting: Bound, ending: Bound) -> None:
    if starting == "latest" or (isinstance(starting, Specific) and LATEST in starting.offsets.values()):
        raise OptionError("a batch cannot start at latest: it would be empty by definition")
    if ending == "earliest" or (isinstance(ending, Specific) and EARLIEST in ending.offsets.values()):
        raise OptionError("a batch cannot end at earliest: it would be empty by definition")


@overload
def _number(options: Mapping[str, str], name: str, least: int, *, most: int = ...) -> int | None: ...


@overload
def _number(options: Mapping[str, str], name: str, least: int, default: int, *, most: int = ...) -> int: ...


def _number(
    options: Mapping[str, str], name: str, least: int, default: int | None = None, *, most: int = LONG_MAX
) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return default
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > len(str(LONG_MAX)) or not least <= int(digits) <= most:
        raise OptionError(f"{name}: {text!r} is no whole number of at least {least} and at most {most}")
    return int(digits)


def _on_recreated(options: Mapping[str, str]) -> Literal["fail", "earliest", "latest"]:
    text = options.get("onrecreatedtopic")
    if text is None:
        return "fail" if _flag(options, "failOnDataLoss", True) else "earliest"
    for choice in ("fail", "earliest", "latest"):
        if text.strip().lower() == choice:
            return choice
    raise OptionError(f"onRecreatedTopic is fail, earliest or latest, not {text!r}")


def _group(options: Mapping[str, str]) -> str | None:
    group = options.get("commitgroup")
    if group is not None and not group.strip():
        raise OptionError("commitGroup is empty: name a group, or leave it out")
    return group and group.strip()


def _duration(options: Mapping[str, str], name: str, default: str) -> int:
    try:
        return duration_ms(options.get(name.lower(), default))
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from error


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name}: {text!r} is neither true nor false")
    return text == "true"
