"""Single records: decode a batch, build one record by record, re-encode what compaction keeps.

The broker stays away from here but for compaction, timestamp lookup and full validation; the client lives here.
"""

from barnabas.protocol.records.build import BatchBuilder, encode_batch, size_bound, split
from barnabas.protocol.records.decode import (
    RECORD_SIZE_MIN,
    Headers,
    Record,
    RecordFacts,
    decode_area,
    decode_records,
    inspect_records,
    record_area,
)

__all__ = [
    "RECORD_SIZE_MIN",
    "BatchBuilder",
    "Headers",
    "Record",
    "RecordFacts",
    "decode_area",
    "decode_records",
    "encode_batch",
    "inspect_records",
    "record_area",
    "size_bound",
    "split",
]
