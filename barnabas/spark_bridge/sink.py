"""The sink of the format `barnabas`: batch and streaming writes, Arrow batches in, records out.

    totals.writeStream.format("barnabas").option("kafka.bootstrap.servers", "localhost:9092").option("topic", "totals")

At least once, like Spark's own sink: a task ends when all its records have their outcome, so a task that is tried again
repeats at most what it had written itself, and a query that starts again at most its last micro-batch. Within one try
nothing is written twice: the producer is idempotent unless `kafka.enable.idempotence` says otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.client.producer import Producer
from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.idle import Idle
from barnabas.spark_bridge.process import plain_errors
from barnabas.spark_bridge.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.sent_columns import BlockingSentColumns


class SinkError(BarnabasError):
    """Rows that could not be written; the message names the topic and says why."""


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver: how many rows it wrote. All of them are in the log already."""

    rows: int


class _Writing:
    """Writing the rows of a task: the same for batches and streams. Pickled, so it holds nothing but options."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    @plain_errors()
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """All rows of one task; returns when each is written.

        Raises:
            SinkError: a row could not be.
        """
        rows = 0
        with _borrowed(self.options.client) as producer:
            waiting: deque[tuple[str, BlockingSentColumns]] = deque()
            for batch in iterator:
                rows += batch.num_rows
                for topic, part in by_topic(batch, self.options):
                    waiting.append((topic, _send(producer, topic, part)))
                while waiting and waiting[0][1].done():
                    _outcome(*waiting.popleft())  # a broker that refuses is heard of now
            for sent in waiting:
                _outcome(*sent)
        return Written(rows)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Writes a batch."""


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writes micro-batches."""


def by_topic(batch: pa.RecordBatch, options: SinkOptions) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in their order, with the columns of a record alone.

    Raises:
        SinkError: a row names no topic.
    """
    import numpy as np

    part = batch.select([name for name in options.columns if name != "topic"])
    if options.topic is not None:
        if part.num_rows:
            yield options.topic, part
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise SinkError("a row has null in its column topic: filter such rows out, or set the option topic")
    encoded = topics.dictionary_encode()
    names, numbers = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    if len(names) > 1:
        part = part.take(np.argsort(numbers, kind="stable"))
    end = 0
    for topic, count in zip(names, np.bincount(numbers, minlength=len(names)).tolist(), strict=True):
        start, end = end, end + count
        yield topic, part.slice(start, count)


def _send(producer: Producer, topic: str, rows: pa.RecordBatch) -> BlockingSentColumns:
    try:
        return producer.send_columns(topic, rows)
    except BarnabasError as error:
        raise SinkError(f"topic {topic}: {error}") from error


def _outcome(topic: str, sent: BlockingSentColumns) -> None:
    try:
        sent.result()
    except BarnabasError as error:
        raise SinkError(f"topic {topic}: {error}") from error


_idle = Idle[Producer]()


@contextmanager
def _borrowed(settings: Mapping[str, Any]) -> Iterator[Producer]:
    producer = _idle.take(settings) or Producer(config=settings)
    try:
        yield producer
    except BaseException:
        producer.close(0)  # what is not under way yet shall not be: the task is tried again, or the query ends
        raise
    _idle.put(settings, producer)
