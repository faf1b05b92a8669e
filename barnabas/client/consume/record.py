"""One consumed record, and how fetched batches become records with deserialized keys and values, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter, lt
from typing import Any, Final, NamedTuple

from barnabas.client.consume.batches import Batch, Walk, corrupt
from barnabas.client.errors import SerializationFailed
from barnabas.client.serializers import deserializer
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Headers, decode_next

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

_offset_of: Final = itemgetter(2)


class ConsumerRecord(NamedTuple):
    """One record. `timestamp` in ms since the epoch, `timestamp_type` 0 (CreateTime) or 1 (LogAppendTime)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Headers


class RecordDecoder:
    """Makes records of the fields in a batch, with the consumer's deserializers."""

    def __init__(self, key_setting: Any, value_setting: Any) -> None:
        self._key = None if key_setting == "bytes" else deserializer(key_setting, "key.deserializer")
        self._value = None if value_setting == "bytes" else deserializer(value_setting, "value.deserializer")

    def maker(
        self, where: TopicPartition, header: BatchHeader, made: list[ConsumerRecord]
    ) -> Callable[..., ConsumerRecord]:
        """What makes a record of one batch.

        Where a deserializer refuses it raises SerializationFailed; `made` then holds those made before.
        """
        topic, partition = where
        kind = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME
        new, read_key, read_value = tuple.__new__, self._key, self._value
        if read_key is None and read_value is None:
            # tuple.__new__ skips a frame that the named tuple's own constructor would cost for every record.
            return lambda offset, timestamp, key, value, headers: new(
                ConsumerRecord, (topic, partition, offset, timestamp, kind, key, value, headers)
            )

        def make(offset: int, timestamp: int, key: Any, value: Any, headers: Headers) -> ConsumerRecord:
            what = "key"
            try:
                if key is not None and read_key is not None:
                    key = read_key(key)
                what = "value"
                if value is not None and read_value is not None:
                    value = read_value(value)
            except Exception as error:
                detail = (
                    f"{where}, offset {offset}, {what}: {error}; seek behind it to go on, or set another deserializer"
                )
                raise SerializationFailed(detail, topic, partition, offset) from error
            record = ConsumerRecord(topic, partition, offset, timestamp, kind, key, value, headers)
            made.append(record)
            return record

        return make


def _nothing(*_: Any) -> None:
    """For who only wants to know where the next record begins."""


class RecordReader:
    """Reads one partition's buffer record by record, as many at a time as are wanted; one batch is unpacked at a time.

    Attributes:
        start: the offset it was opened at.
        next_offset: the offset behind the last record that was read.
        leader_epoch: that of the last batch that was read to its end.
    """

    def __init__(
        self, decoder: RecordDecoder, where: TopicPartition, walk: Walk, start: int, leader_epoch: int = -1
    ) -> None:
        self.start = self.next_offset = start
        self.leader_epoch = leader_epoch
        self._decoder = decoder
        self._where = where
        self._walk = walk
        self._batches = iter(walk)
        self._next: Batch | None = None
        self._area = b""
        self._at = self._left = 0  # of the open batch: the next record's place, and how many are left
        self._last_offset = -1
        self._made: list[ConsumerRecord] = []  # of the decoding under way
        self._header: BatchHeader
        self._make: Callable[..., ConsumerRecord]

    @property
    def end(self) -> int:
        """The offset behind the last whole batch that was passed."""
        return self._walk.next_position

    def at_end(self) -> bool:
        """Whether nothing is left.

        Raises:
            KafkaError: CORRUPT_MESSAGE, the next batch is broken.
        """
        if not self._left and self._next is None:
            self._next = next(self._batches, None)
        return not self._left and self._next is None

    def read(self, count: int) -> list[ConsumerRecord]:
        """The next records of one batch, at most `count`; empty at the end.

        Raises:
            KafkaError: CORRUPT_MESSAGE, a batch does not hold the records it announces.
            SerializationFailed: a deserializer refused a key or a value.
        """
        try:
            while not self.at_end():
                if not self._left:
                    self._open()
                if records := self._decode(count):
                    return records
        except ProtocolError as error:
            raise corrupt(self._where, self.next_offset, error) from error
        return []

    def _open(self) -> None:
        batch = self._next
        assert batch is not None
        self._area = bytes(batch.open())
        self._next = None
        self._header = batch.header
        self._make = self._decoder.maker(self._where, batch.header, self._made)
        self._at, self._left = 0, batch.header.record_count
        self._last_offset = batch.header.base_offset - 1

    def _decode(self, count: int) -> list[ConsumerRecord]:
        header = self._header
        count = min(count, self._left)
        try:
            records, at = decode_next(self._area, self._at, count, header, self._make)
        except SerializationFailed as refused:
            # What comes before it is handed out first, and what lies below the position is nobody's.
            if self._made:
                records, count = list(self._made), len(self._made)
            elif refused.offset < self.next_offset:
                records, count = [], 1
            else:
                raise
            _, at = decode_next(self._area, self._at, count, header, _nothing)
        finally:
            self._made.clear()
        if count == self._left and at != len(self._area):
            raise ProtocolError(f"{len(self._area) - at} bytes follow the last of {header.record_count} records")
        if records:
            self._check_offsets(list(map(_offset_of, records)))
        self._at = at
        self._left -= count
        if not self._left:
            self._area = b""
            self.leader_epoch = header.leader_epoch
        if records and records[0].offset < self.next_offset:
            # The batch that contains the position is sent whole.
            records = [record for record in records if record.offset >= self.next_offset]
        if records:
            self.next_offset = records[-1].offset + 1
        return records

    def _check_offsets(self, offsets: list[int]) -> None:
        first, last = offsets[0], offsets[-1]
        rising = offsets == list(range(first, first + len(offsets))) or all(map(lt, offsets, offsets[1:]))
        if not rising or first <= self._last_offset or last > self._header.last_offset:
            raise ProtocolError("offsets that do not rise, or lie outside of their batch")
        self._last_offset = last
