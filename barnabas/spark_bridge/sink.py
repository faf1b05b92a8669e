"""The sink of the format `barnabas`: batch and streaming writes, Arrow batches in, records out.

    totals.writeStream.format("barnabas").option("kafka.bootstrap.servers", "localhost:9092").option("topic", "totals")

At least once, like Spark's own sink: a task ends when all its records have their outcome, so a task that is tried again
repeats at most what it had written itself, and a query that starts again at most its last micro-batch. Within one try
nothing is written twice: the producer is idempotent unless `kafka.enable.idempotence` says otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.client.errors import RecordTooLarge
from barnabas.client.producer import Producer
from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.idle import Idle
from barnabas.spark_bridge.process import plain_errors
from barnabas.spark_bridge.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.sent_columns import BlockingSentColumns


KEY_SHOWN_MAX: Final = 40
"""So much of a key an error shows."""


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
            waiting: deque[tuple[Part, BlockingSentColumns]] = deque()
            for batch in iterator:
                for part in by_topic(batch, self.options, rows):
                    waiting.append((part, _send(producer, part)))
                rows += batch.num_rows
                while waiting and waiting[0][1].done():
                    _outcome(*waiting.popleft())  # a broker that refuses is heard of now
            for sent in waiting:
                _outcome(*sent)
        return Written(rows)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Writes a batch."""


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writes micro-batches."""


class Part(NamedTuple):
    """Rows for one topic, in order, with the columns of a record alone; `numbers` is which of its task each is."""

    topic: str
    rows: pa.RecordBatch
    numbers: Sequence[int]

    def named(self, row: int) -> str:
        """One of the rows, as somebody finds it: its number, and its key."""
        key = self.rows.column("key")[row].as_py() if "key" in self.rows.schema.names else None
        told = "" if key is None else f", key {key[:KEY_SHOWN_MAX]!r}{'...' if len(key) > KEY_SHOWN_MAX else ''}"
        return f"row {self.numbers[row]} of its task (counted from 0){told}"


def by_topic(batch: pa.RecordBatch, options: SinkOptions, first: int = 0) -> Iterator[Part]:
    """The rows of each topic; `first` is the number of the first in its task.

    Raises:
        SinkError: a row names no topic.
    """
    import numpy as np

    rows = batch.select([name for name in options.columns if name != "topic"])
    if options.topic is not None:
        if rows.num_rows:
            yield Part(options.topic, rows, range(first, first + rows.num_rows))
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise SinkError("a row has null in its column topic: filter such rows out, or set the option topic")
    encoded = topics.dictionary_encode()
    names, chosen = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    order = np.argsort(chosen, kind="stable")
    if len(names) > 1:
        rows = rows.take(order)
    end = 0
    for topic, count in zip(names, np.bincount(chosen, minlength=len(names)).tolist(), strict=True):
        start, end = end, end + count
        yield Part(topic, rows.slice(start, count), (order[start:end] + first).tolist())


def _send(producer: Producer, part: Part) -> BlockingSentColumns:
    try:
        return producer.send_columns(part.topic, part.rows)
    except RecordTooLarge as error:
        which = part.named(error.row) if error.row >= 0 else "a row"
        raise SinkError(
            f"topic {part.topic}: {which}: {error.detail}. Raise that setting (kafka.max.request.size and the like), "
            "or filter such rows out"
        ) from error
    except BarnabasError as error:
        raise SinkError(f"topic {part.topic}: {error}") from error


def _outcome(part: Part, sent: BlockingSentColumns) -> None:
    try:
        sent.result()
    except BarnabasError as error:
        failed = sent.outcome()["error"].is_valid().to_numpy().nonzero()[0]
        which = f"{part.named(int(failed[0]))}: " if len(failed) else ""
        raise SinkError(f"topic {part.topic}: {which}{error}") from error


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
