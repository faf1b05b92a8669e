"""One consumed record, and how fetched batches become records with deserialized keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.client.core.batches import Batch
from barnabas.client.core.errors import SerializationFailed
from barnabas.client.core.serializers import deserializer
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Headers, decode_area

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1


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
    """Decodes batches to records with the consumer's deserializers."""

    def __init__(self, key_setting: Any, value_setting: Any) -> None:
        self._key = None if key_setting == "bytes" else deserializer(key_setting, "key.deserializer")
        self._value = None if value_setting == "bytes" else deserializer(value_setting, "value.deserializer")

    def decode(self, where: TopicPartition, batch: Batch, position: int) -> list[ConsumerRecord]:
        """The records of one batch from `position` on.

        Raises:
            KafkaError: CORRUPT_MESSAGE, the batch does not hold the records it announces.
            SerializationFailed: a deserializer refused a key or a value.
        """
        try:
            records = decode_area(bytes(batch.area), batch.header, self._maker(where, batch))
        except ProtocolError as error:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{where}, the batch at offset {batch.header.base_offset}: {error}"
            ) from error
        if records and records[0].offset < position:
            # The batch that contains the position is sent whole.
            records = [record for record in records if record.offset >= position]
        return records

    def _maker(self, where: TopicPartition, batch: Batch) -> Callable[..., ConsumerRecord]:
        topic, partition = where
        kind = LOG_APPEND_TIME if batch.header.is_log_append_time else CREATE_TIME
        new, read_key, read_value = tuple.__new__, self._key, self._value
        if read_key is None and read_value is None:
            # tuple.__new__ skips a frame that the named tuple's own constructor would cost for every record.
            return lambda offset, timestamp, key, value, headers: new(
                ConsumerRecord, (topic, partition, offset, timestamp, kind, key, value, headers)
            )

        def make(offset: int, timestamp: int, key: Any, value: Any, headers: Headers) -> ConsumerRecord:
            try:
                if key is not None and read_key is not None:
                    key = read_key(key)
                if value is not None and read_value is not None:
                    value = read_value(value)
            except Exception as error:
                raise SerializationFailed(f"{where}, offset {offset}: {error}") from error
            return ConsumerRecord(topic, partition, offset, timestamp, kind, key, value, headers)

        return make
