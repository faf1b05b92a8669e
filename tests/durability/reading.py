"""Reading everything back, as a consumer that checks every sum."""

from __future__ import annotations

from barnabas.protocol.batch import batches, crc_ok, read_header
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.records import decode_records
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from tests.durability.model import Broken, Read
from tests.durability.target import Target, ask

EARLIEST, LATEST = -2, -1
_BYTES_MAX = 1 << 20


def topics(target: Target) -> dict[str, MetadataResponseTopic]:
    """All topics by name."""
    return {one.name or "": one for one in ask(target, MetadataRequest(None, False), 12).topics}


def topic(target: Target, name: str) -> MetadataResponseTopic | None:
    """One topic, None if it is not there."""
    found: MetadataResponseTopic = ask(target, MetadataRequest([MetadataRequestTopic(name=name)], False), 12).topics[0]
    return found if found.error_code == 0 else None


def offset_of(target: Target, name: str, partition: int, timestamp: int) -> tuple[int, int]:
    """Error code and offset of ListOffsets."""
    asked = ListOffsetsTopic(name, [ListOffsetsPartition(partition, -1, timestamp)])
    answer = ask(target, ListOffsetsRequest(-1, 0, [asked]), 7).topics[0].partitions[0]
    return answer.error_code, answer.offset


def read_all(target: Target, name: str, partition: int) -> Read:
    """Everything from the log start to the end.

    Raises:
        Broken: a batch with a good sum that cannot be read, an end that is never reached.
        Gone: the broker ended.
    """
    error, start = offset_of(target, name, partition, EARLIEST)
    if error:
        return Read(-1, -1, error=error)
    _, end = offset_of(target, name, partition, LATEST)
    read = Read(start, end)
    offset = start
    while offset < end:
        asked = FetchTopic(name, partitions=[FetchPartition(partition, -1, offset, -1, -1, _BYTES_MAX)])
        answer = ask(target, FetchRequest(None, -1, None, 0, 1, _BYTES_MAX, topics=[asked]), 12)
        part = answer.responses[0].partitions[0]
        if (
            part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            and offset_of(target, name, partition, EARLIEST)[1] > offset
        ):
            return read_all(target, name, partition)  # retention took it between two requests
        if part.error_code:
            read.error = part.error_code
            return read
        before = offset
        try:
            offset = _take(read, part.records or b"", offset, f"{name}-{partition}")
        except ProtocolError:  # a consumer stops here
            read.refused.append(range(read.records[-1][0] + 1 if read.records else offset, end))
            return read
        if offset == before:
            read.refused.append(range(offset, end))  # a batch that never ends: a consumer stands still here
            return read
    return read


def _take(read: Read, data: bytes, offset: int, where: str) -> int:
    """Add a fetched piece; the offset to go on from."""
    for position, size in batches(data):
        header = read_header(data, position)
        if header.next_offset <= offset:
            continue
        if not crc_ok(data, position, size):
            read.refused.append(range(header.base_offset, header.next_offset))
        else:
            for record in decode_records(data, position):
                if record.offset >= offset:
                    tag = bytes(record.headers[0][1] or b"") if record.headers else b"no tag"
                    read.records.append((record.offset, record.key, record.value, tag))
        if header.base_offset > header.last_offset:
            raise Broken(f"{where}: a batch ends at {header.last_offset}, before it begins at {header.base_offset}")
        offset = header.next_offset
    return offset
