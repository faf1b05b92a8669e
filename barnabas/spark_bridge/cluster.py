"""What the source asks of a cluster, on top of the blocking consumer: topics, offsets, and the records of one span.

Planning keeps one `Cluster` in Spark's long-lived planner process. Tasks borrow a consumer that the worker process
keeps for the next task on the same broker: Spark's workers fork before this module is imported, live on between
micro-batches, and run one task at a time.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.core.columnar import Columns
from barnabas.client.core.consumer_config import ConsumerConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import OffsetError, Offsets, Span
from barnabas.spark_bridge.options import OptionError, SourceOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_MS: Final = 5_000
TOPICS_FRESH_SECONDS: Final = 5
"""Planning looks for new topics and partitions at most this often."""
SILENT_MS_MAX: Final = 120_000
"""A task fails when records that must be there do not come for so long (Spark's `kafkaConsumer.pollTimeoutMs`)."""

_LARGE_FETCHES: Final = {
    # A task reads to a known end: what counts is bytes per request. A fetch is decoded at once, and is one Arrow batch.
    "max_partition_fetch_bytes": 8 * 1024 * 1024,
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
    "client_id": "barnabas-spark",
}


def client_settings(options: SourceOptions) -> dict[str, Any]:
    """The consumer's settings: `kafka.*` options over what reads fast.

    Raises:
        OptionError: a `kafka.*` option that the consumer does not know, or a bad value.
    """
    given = {key.replace(".", "_"): value for key, value in options.client.items()}
    settings = {**_LARGE_FETCHES, **given}
    try:
        ConsumerConfig.of(settings)
    except ValueError as error:
        raise OptionError(f"kafka.*: {error}") from error
    return settings


class Cluster:
    """The planner's view. Connects on first use; `close` ends it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = client_settings(options)
        self._consumer: Consumer | None = None
        self._partitions: list[TopicPartition] = []
        self._partitions_at = -float(TOPICS_FRESH_SECONDS)

    @property
    def consumer(self) -> Consumer:
        """The connection, opened on first use."""
        if self._consumer is None:
            self._consumer = Consumer(**self._settings)
        return self._consumer

    def close(self) -> None:
        """Closes the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def partitions(self) -> list[TopicPartition]:
        """The partitions the query reads, by `subscribe`, `subscribePattern` or `assign`: those that exist.

        Raises:
            KafkaError: a topic is refused (its name, authorisation).
        """
        if time.monotonic() - self._partitions_at >= TOPICS_FRESH_SECONDS:
            self._partitions = self._look()
            self._partitions_at = time.monotonic()
        return self._partitions

    def _look(self) -> list[TopicPartition]:
        options = self._options
        topics = options.topics or tuple({where.topic for where in options.assigned})
        if options.pattern is not None:
            servers = {"bootstrap_servers": self._settings["bootstrap_servers"]}
            with Admin(**servers) as admin:
                topics = tuple(name for name in admin.list_topics() if re.fullmatch(options.pattern, name))
        found = []
        for topic in sorted(topics):
            try:
                found += [TopicPartition(topic, number) for number in sorted(self.consumer.partitions_for(topic))]
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        return [where for where in found if where in options.assigned] if options.assigned else found

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each partition."""
        return self._patiently(lambda: self.consumer.beginning_offsets(partitions))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offset behind the last record of each partition."""
        return self._patiently(lambda: self.consumer.end_offsets(partitions))

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a timestamp (ms), None where no record is so young."""
        found = self._patiently(lambda: self.consumer.offsets_for_times(timestamps))
        return {where: None if answer is None else answer.offset for where, answer in found.items()}

    def wait_for_data(self, offsets: Mapping[TopicPartition, int], wait_ms: int) -> None:
        """Returns as soon as one of the partitions has a record at its offset, after `wait_ms` at the latest."""
        self.consumer.wait_for_data(offsets, wait_ms)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Asks again as `fetchOffset.numRetries` and `fetchOffset.retryIntervalMs` say."""
        for attempt in range(self._options.attempts_max + 1):
            try:
                return ask()
            except KafkaError as error:
                if attempt == self._options.attempts_max or not error.retriable:
                    raise
                log.warning("offsets could not be read (%s), trying again", error)
                time.sleep(self._options.retry_wait_ms / 1000)
        raise AssertionError("the last attempt returns or raises")


_idle: dict[tuple[int, str], Consumer] = {}
"""Consumers between two tasks of this process, by process and settings (a fork's copy has no running thread)."""


@contextmanager
def _borrowed(settings: Mapping[str, Any]) -> Iterator[Consumer]:
    key = (os.getpid(), repr(sorted(settings.items())))
    consumer = _idle.pop(key, None) or Consumer(**settings)
    try:
        yield consumer
    except GeneratorExit:
        _park(key, consumer)  # the task wanted no more rows: nothing is wrong with the connection
        raise
    except BaseException:
        consumer.close()
        raise
    else:
        _park(key, consumer)


def _park(key: tuple[int, str], consumer: Consumer) -> None:
    consumer.assign([])
    _idle[key] = consumer


def read_span(settings: Mapping[str, Any], span: Span, *, headers: bool, fail_on_loss: bool) -> Iterator[Columns]:
    """The records of a span, in order; gaps that compaction or transactions left are passed.

    Raises:
        OffsetError: records of the span are gone, and `fail_on_loss` is set.
    """
    with _borrowed(settings) as consumer:
        where, position, end = span
        consumer.assign([where])
        consumer.seek(where, position)
        silent_ms = 0
        while position < end:
            try:
                found = consumer.poll_columns(POLL_MS, headers=headers)
            except KafkaError as error:
                if error.code not in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise
                resumed = _after_loss(consumer, span, position, error, fail_on_loss)
                if resumed is None:
                    return
                position = resumed
                consumer.seek(where, position)
                continue
            for columns in found:
                # The fetch reads on past the span's end; offsets rise, so what belongs to the span is a prefix.
                count = _count_below(columns, end)
                if count:
                    yield columns if count == len(columns) else columns.slice(0, count)
            position = consumer.position(where)
            silent_ms = 0 if found else silent_ms + POLL_MS
            if not found and position < end:
                _check_silence(consumer, span, position, silent_ms, fail_on_loss)
                if silent_ms and consumer.end_offsets([where])[where] < end:
                    return


def _count_below(columns: Columns, end: int) -> int:
    if columns.offset[-1].as_py() < end:
        return len(columns)
    import numpy as np

    return int(np.searchsorted(columns.offset.to_numpy(), end))


def _after_loss(consumer: Consumer, span: Span, position: int, error: KafkaError, fail_on_loss: bool) -> int | None:
    """Where to go on after records were found gone, None where nothing of the span is left."""
    if fail_on_loss:
        raise _loss(f"{span.where}: records from offset {position} on are gone ({error.code.name})") from error
    log.warning("%s: records from offset %d on are gone, and failOnDataLoss is false", span.where, position)
    if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
        return None
    first = consumer.beginning_offsets([span.where])[span.where]
    return first if position < first < span.end else None


def _check_silence(consumer: Consumer, span: Span, position: int, silent_ms: int, fail_on_loss: bool) -> None:
    """No record came although the span is not at its end: the log may have been cut, or the broker is slow."""
    latest = consumer.end_offsets([span.where])[span.where]
    if latest < span.end:
        if fail_on_loss:
            raise _loss(f"{span.where} ends at offset {latest}, but offset {span.end} was planned")
        log.warning("%s ends at offset %d before the planned %d", span.where, latest, span.end)
    elif silent_ms >= SILENT_MS_MAX:
        raise OffsetError(f"{span.where}: nothing came at offset {position} for {SILENT_MS_MAX} ms")


def _loss(what: str) -> OffsetError:
    return OffsetError(
        f"{what}: they were deleted by retention, or the topic was deleted or recreated. Set failOnDataLoss to false "
        "to go on without them"
    )
