"""What the source asks of a cluster, on top of the blocking consumer: topics, offsets, and the records of one span.

Planning keeps one `Brokers` in Spark's long-lived planner process. Tasks borrow a consumer that the worker process
keeps for the next task on the same broker (`borrowed.py`).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, TypeVar

from barnabas.client.admin import Admin
from barnabas.client.consume.columnar import Columns
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consumer import Consumer
from barnabas.client.errors import LogTruncated
from barnabas.net.config import ClientConfig
from barnabas.net.errors import ClientTimeout, Disconnected
from barnabas.net.topology import TopicInfo
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition, format_uuid
from barnabas.spark_bridge.borrowed import ANSWER_MS, ANSWER_TIME, borrowed, patience_of, until_answered
from barnabas.spark_bridge.bytes_limit import SAMPLE_BYTES, Sizes
from barnabas.spark_bridge.errors import REMEDIES, OptionError, remedy_for
from barnabas.spark_bridge.kept import Kept, below, rest_of
from barnabas.spark_bridge.loss import after_cut, after_loss, after_silence, exists
from barnabas.spark_bridge.offsets import OffsetError, Offsets, Span
from barnabas.spark_bridge.options import SourceOptions
from barnabas.spark_bridge.origin import Origin, again
from barnabas.spark_bridge.patience import BrokersAway
from barnabas.spark_bridge.planning import report_recreated
from barnabas.spark_bridge.topic_pattern import TopicPattern

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_MS: Final = 100
"""A task looks so often whether it stands at its end: stretches without records (aborted ones) bring nothing."""
CHECK_MS: Final = 5_000
"""Records that do not come for so long make a task ask whether they are still there."""

_LARGE_FETCHES: Final = {
    # A task reads to a known end: what counts is bytes per request. A fetch is decoded at once, and is one Arrow batch.
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    # What a task reads is there. A fetch behind its end would wait at the broker, and the next task's behind it.
    "fetch.max.wait.ms": 10,
    "auto.offset.reset": "none",
    "allow.auto.create.topics": False,
    "client.id": "barnabas-spark",
}


class ReadFailed(BarnabasError):
    """A task cannot read its records."""


def client_settings(options: SourceOptions) -> dict[str, Any]:
    """The consumer's settings: `kafka.*` options over what reads fast.

    Raises:
        OptionError: a `kafka.*` option that the consumer does not know, or a bad value.
    """
    settings = {ANSWER_TIME: min(ANSWER_MS, options.away_ms_max), **_LARGE_FETCHES, **options.client}
    try:
        ConsumerConfig.of(settings)
    except ValueError as error:
        raise OptionError(f"in the options kafka.*: {error}") from error
    return settings


class Brokers:
    """The planner's view. Connects on first use; `close` ends it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = client_settings(options)
        self._patience = patience_of(options, self._settings)
        self._answer_ms = self._patience.answer_ms
        self._consumer: Consumer | None = None
        self._admin: Admin | None = None
        self.topics: frozenset[str] = frozenset()
        self.origin = Origin()
        self._ids: dict[str, bytes] = {}
        self._pattern = None if options.pattern is None else TopicPattern(options.pattern)
        self.epochs: dict[TopicPartition, int] = {}

    @property
    def consumer(self) -> Consumer:
        """The connection for offsets, opened on first use."""
        if self._consumer is None:
            self._consumer = Consumer(config=self._in_time())
        return self._consumer

    @property
    def admin(self) -> Admin:
        """The connection for topics, opened on first use."""
        if self._admin is None:
            known = {each.name for each in fields(ClientConfig)}
            self._admin = Admin(config={k: v for k, v in self._in_time().items() if k.replace(".", "_") in known})
        return self._admin

    def _in_time(self) -> dict[str, Any]:
        """The settings, with as much time for a call as brokers need that answer late."""
        self._answer_ms = self._patience.answer_ms
        return {**self._settings, ANSWER_TIME: self._answer_ms}

    def close(self) -> None:
        """Closes the connections."""
        for client in (self._consumer, self._admin):
            if client is not None:
                client.close()
        self._consumer = self._admin = None

    def partitions(self) -> list[TopicPartition]:
        """The partitions the query reads, by `subscribe`, `subscribePattern` or `assign`: those that exist.

        Asked of the broker each time, `topics` and `origin` with them: to ask for the offsets of a topic that is gone
        would take until the client's patience ends.

        Raises:
            KafkaError: they are refused; with the option and a remedy where it is for a topic (name, authorisation).
        """
        try:
            return self._patiently(self._look)
        except KafkaError as error:
            if error.code not in REMEDIES:
                raise
            told = f"{error.detail}, asked for by the option {self._options.asked_by}{REMEDIES[error.code]}"
            raise KafkaError(error.code, told) from error

    def _look(self) -> list[TopicPartition]:
        options = self._options
        if self._pattern is not None:
            infos = self.admin.describe_all_topics(among=self._pattern.among)
        else:
            infos = self._described(options.topics or tuple({where.topic for where in options.assigned}))
        self.topics = frozenset(infos)
        ids = {topic: info.topic_id for topic, info in infos.items() if info.topic_id != ZERO_UUID}
        if not self.origin.cluster or ids != self._ids:
            told = {topic: format_uuid(topic_id) for topic, topic_id in ids.items()}
            self._ids, self.origin = ids, Origin(self._cluster_id(), told)
            self.epochs.clear()
        found = [TopicPartition(topic, each.partition) for topic in sorted(infos) for each in infos[topic].partitions]
        return [where for where in found if where in options.assigned] if options.assigned else found

    def _cluster_id(self) -> str:
        """The cluster's id, asked for when topics changed: no other cluster has topics of the same ids."""
        try:
            return self.admin.describe_cluster().cluster_id
        except (ClientTimeout, Disconnected):
            raise
        except BarnabasError as error:  # brokers before Kafka 2.8 do not know the question, others may not tell
            log.debug("the cluster's id is not known: %s", error)
            return ""

    def _described(self, topics: tuple[str, ...]) -> dict[str, TopicInfo]:
        """Those of the topics that exist, in one question if all do."""
        if not topics:
            return {}
        try:
            return self.admin.describe_topics(*topics)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        if len(topics) == 1:
            return {}
        half = len(topics) // 2
        return self._described(topics[:half]) | self._described(topics[half:])

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each partition."""
        return self._patiently(lambda: self.consumer.beginning_offsets(partitions))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offset behind the last record of each partition; its leader's epoch is in `epochs` then.

        A leader answers who asks in its own epoch: what is known afterwards is that, or newer.
        """
        found = self._patiently(lambda: self.consumer.end_offsets(partitions))
        cluster = self.consumer.cluster()
        infos = ((where, cluster.partition(*where)) for where in found)
        self.epochs |= {where: info.leader_epoch for where, info in infos if info is not None}
        return found

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a timestamp (ms), None where no record is so young."""
        found = self._patiently(lambda: self.consumer.offsets_for_times(timestamps))
        return {where: None if answer is None else answer.offset for where, answer in found.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Offsets:
        """Where these leader epochs ended, of each partition that tells."""
        return self._patiently(lambda: self.consumer.epoch_ends(epochs))

    def sizes(self, offsets: Mapping[TopicPartition, int]) -> Sizes:
        """How large the next batches are, of those partitions that tell."""
        try:
            return self.consumer.batch_sizes(offsets, SAMPLE_BYTES)
        except BarnabasError:
            return {}

    def wait_for_data(self, offsets: Mapping[TopicPartition, int], wait_ms: int) -> bool:
        """Whether one of the partitions has a record at its offset; returns at once then, else after `wait_ms`."""
        if not offsets:  # no topic matches yet
            time.sleep(wait_ms / 1000)
            return False
        return self.consumer.wait_for_data(offsets, wait_ms / 1000)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Asks again as `fetchOffset.numRetries` and `fetchOffset.retryIntervalMs` say, and waits for who is away."""

        def once() -> T:
            if self._answer_ms != self._patience.answer_ms:
                self.close()
            return ask()

        for attempt in range(self._options.attempts_max + 1):
            try:
                return until_answered(once, self._patience)
            except KafkaError as error:
                if attempt == self._options.attempts_max or not error.retriable:
                    raise
                log.warning("offsets could not be read (%s), trying again", error)
                time.sleep(self._options.retry_wait_ms / 1000)
        raise AssertionError("the last attempt returns or raises")


_kept = Kept()


def read_span(
    settings: Mapping[str, Any], span: Span, options: SourceOptions, topic_id: str = "", leader_epoch: int = -1
) -> Iterator[Columns]:
    """The records of a span, in order; gaps that compaction or transactions left are passed.

    Args:
        settings: the client's.
        span: what to read.
        options: how.
        topic_id: in which topic the offsets were counted, if known: then what is fetched beyond the end is kept.
        leader_epoch: in which its end was told, -1 if not known: what was kept in it is handed out.

    Raises:
        OffsetError: records of the span are gone, and failOnDataLoss is set; the topic was made anew, and
            onRecreatedTopic is fail; or they do not come for kafkaConsumer.pollTimeoutMs.
        BrokersAway: no broker answered for brokerTimeout.
    """
    key = (os.getpid(), repr(sorted(settings.items())), topic_id, span.where, options.names)
    if topic_id:
        here, span = _kept.serve(key, span, leader_epoch)
        yield from here
        if not span.size:
            return
    task = _Task(span.where, span.start, options)
    with task.naming_itself(), borrowed(settings, patience_of(options, settings), str(task)) as held:
        where, end, names = span.where, span.end, options.names
        held.consumer.assign([where])
        held.consumer.seek(where, task.position)
        silent_ms = 0
        while task.position < end:
            consumer, lost = held.consumer, ""
            try:
                found = consumer.poll_columns(POLL_MS / 1000, headers="headers" in names, only=names)
            except LogTruncated as error:
                held.consumer.seek(where, after_cut(error, span, options))
                continue
            except KafkaError as error:
                if error.code not in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise
                found, lost = [], error.code.name
            if topic_id and topic_id_at(consumer, where) not in ("", topic_id):
                held.ask(partial(exists, where=where), where, task.position, str(task))
                if topic_id_at(held.consumer, where) not in ("", topic_id):
                    report_recreated(options, f"{task}: {again(where.topic)}")
                    return  # with what was made anew the next batch begins
                held.consumer.seek(where, task.position)  # it knew the last topic of this name, which may have answered
                continue
            if lost:
                silent_ms += POLL_MS
                at, find = task.position, partial(after_loss, span=span, why=lost, silent_ms=silent_ms, options=options)
                task.position = held.ask(partial(find, position=at), where, at, str(task))
                if task.position < end:
                    held.consumer.seek(where, task.position)
                continue
            before, task.position = task.position, consumer.position(where)
            if task.position >= end:
                consumer.pause(where)  # no fetch behind the end while Spark takes what is here
                if topic_id:
                    _kept.put(key, rest_of(found, end, task.position))
            for columns in found:
                # The fetch reads on past the span's end; offsets rise, so what belongs to the span is a prefix.
                if found_here := below(columns, end):
                    yield found_here
            silent_ms = 0 if task.position > before else silent_ms + POLL_MS
            if silent_ms and silent_ms % CHECK_MS == 0:
                at, find = task.position, partial(after_silence, span=span, silent_ms=silent_ms, options=options)
                task.position = held.ask(partial(find, position=at), where, at, str(task))


@dataclass(slots=True)
class _Task:
    """Where a task stands, for its errors."""

    where: TopicPartition
    position: int
    options: SourceOptions

    def __str__(self) -> str:
        return f"reading {self.where} at offset {self.position}"

    @contextmanager
    def naming_itself(self) -> Iterator[None]:
        """Whatever ends the task says what it was reading, and which option asked for it."""
        try:
            yield
        except (OffsetError, BrokersAway):
            raise
        except BarnabasError as error:
            asked = f"asked for by the option {self.options.asked_by}"
            raise ReadFailed(f"{self}, {asked}: {error}{remedy_for(error)}") from error
        except Exception as error:
            error.add_note(f"barnabas was {self}")
            raise


def topic_id_at(consumer: Consumer, where: TopicPartition) -> str:
    """The id of the topic that this consumer reads, "" while it knows none; what was fetched so far is of this one."""
    present = consumer.cluster().topic_id(where.topic)
    return "" if present == ZERO_UUID else format_uuid(present)
