"""Single records: decode a batch, build one record by record, re-encode what compaction keeps.

The broker stays away from here but for compaction, timestamp lookup and full validation; the client lives here.
"""

from barnabas.protocol.records.build import BatchBuilder, BatchRewriter, encode_batch, single
from barnabas.protocol.records.decode import (
    RECORD_SIZE_MIN,
    SLICE_BYTES,
    Headers,
    Record,
    decode_area,
    decode_next,
    decode_records,
    decode_slices,
    decode_slices_of,
    plain_area,
    record_area,
)
from barnabas.protocol.records.walk import HEADERS_MAX, Walked, look_at_record, walk_area, walk_next

__all__ = [
    "HEADERS_MAX",
    "RECORD_SIZE_MIN",
    "SLICE_BYTES",
    "BatchBuilder",
    "BatchRewriter",
    "Headers",
    "Record",
    "Walked",
    "decode_area",
    "decode_next",
    "decode_records",
    "decode_slices",
    "decode_slices_of",
    "encode_batch",
    "look_at_record",
    "plain_area",
    "record_area",
    "single",
    "walk_area",
    "walk_next",
]
