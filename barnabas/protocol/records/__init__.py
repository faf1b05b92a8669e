"""Single records: decode a batch, build one record by record, re-encode what compaction keeps.

The broker stays away from here but for compaction, timestamp lookup and full validation; the client lives here.
"""

from barnabas.protocol.records.build import BatchBuilder, BatchRewriter, encode_batch
from barnabas.protocol.records.decode import (
    RECORD_SIZE_MIN,
    Headers,
    Record,
    decode_area,
    decode_next,
    decode_records,
    decode_slices,
    decode_slices_of,
    record_area,
)
from barnabas.protocol.records.walk import Walked, walk_area

__all__ = [
    "RECORD_SIZE_MIN",
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
    "record_area",
    "walk_area",
]
