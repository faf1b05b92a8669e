"""How records become batches of the metadata log: one operation is one batch, a snapshot as many as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import MetadataRecord, encode
from barnabas.broker.config import TopicConfig
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records import BatchBuilder

BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
_RECORDS_PER_STEP: Final = 250


def log_config(segment_bytes: int = BATCH_BYTES_MAX) -> TopicConfig:
    """Settings of the metadata log; a batch must fit into a segment."""
    return TopicConfig(
        segment_bytes=segment_bytes,
        max_message_bytes=BATCH_BYTES_MAX,
        segment_index_bytes=1024 * 1024,
        retention_ms=-1,
        file_delete_delay_ms=0,
    )


def batch_of(records: Sequence[MetadataRecord], wall_ms: int) -> Job[bytearray]:
    """One operation, in bounded steps.

    Raises:
        KafkaError: RECORD_LIST_TOO_LARGE for more than a batch holds.
    """
    builder = BatchBuilder(BATCH_BYTES_MAX)
    for number, record in enumerate(records, 1):
        if not builder.try_append(wall_ms, None, encode(record)):
            detail = f"a change of the metadata may take up to {BATCH_BYTES_MAX} bytes; ask for less at a time"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, detail)
        if number % _RECORDS_PER_STEP == 0:
            builder.gather()
            yield None
    if len(records) > _RECORDS_PER_STEP:
        yield None
    return builder.build()


def snapshot_of(image: Image, wall_ms: int) -> Job[bytes]:
    """All that an image says, in bounded steps; it is not to change meanwhile."""
    data = bytearray()
    for records in _slices(image.to_records()):
        builder = BatchBuilder(BATCH_BYTES_MAX)
        for record in records:
            value = encode(record)
            if not builder.try_append(wall_ms, None, value):
                data += builder.build()
                builder = BatchBuilder(BATCH_BYTES_MAX)
                builder.try_append(wall_ms, None, value)  # the first always fits
        data += builder.build()
        yield None
    return bytes(data)


def _slices(records: Iterator[MetadataRecord]) -> Iterator[list[MetadataRecord]]:
    part: list[MetadataRecord] = []
    for record in records:
        part.append(record)
        if len(part) == _RECORDS_PER_STEP:
            yield part
            part = []
    if part:
        yield part
