"""The batch header: fields at their places, patches in place, the sum, boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol import batch
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records import BatchBuilder, decode_records
from tests.protocol.placing import placed


def built(*values: bytes) -> bytearray:
    builder = BatchBuilder(1 << 20)
    for index, value in enumerate(values):
        assert builder.try_append(1000 + index, None, value)
    return builder.build()


def test_fields_stand_where_the_layout_says() -> None:
    data = built(b"a", b"b")
    placed(data, 0, 77, 5)
    batch.set_producer(data, 0, len(data), 9, 3, 2**31 - 1)
    header = batch.read_header(data)
    assert header == (77, len(data) - 12, 5, 2, header.crc, 0, 1, 1000, 1001, 9, 3, 2**31 - 1, 2)
    assert int.from_bytes(data[0:8], "big") == 77
    assert int.from_bytes(data[12:16], "big") == 5
    assert data[16] == 2
    assert int.from_bytes(data[17:21], "big") == header.crc
    assert int.from_bytes(data[43:51], "big") == 9
    assert int.from_bytes(data[57:61], "big") == 2
    assert (header.size, header.last_offset, header.next_offset) == (len(data), 78, 79)
    assert header.last_sequence == 0  # after 2**31 - 1 comes 0
    assert header._replace(base_sequence=-1).last_sequence == -1
    copy = bytearray(len(data))
    batch.write_header(copy, 0, header)
    assert copy[:61] == data[:61]


def test_offset_and_epoch_need_no_new_sum() -> None:
    data = bytearray(b"before") + built(b"value") + b"after"
    size = len(data) - 11
    placed(memoryview(data), 6, 2**62, 2**31 - 1)
    assert batch.crc_ok(memoryview(data), 6, size)
    assert data.startswith(b"before")
    assert data.endswith(b"after")


def test_log_append_time_is_a_bit_and_the_largest_timestamp() -> None:
    data = built(b"a", b"b")
    batch.set_max_timestamp(data, 0, len(data), 9999, log_append_time=True)
    header = batch.read_header(data)
    assert header.is_log_append_time
    assert header.max_timestamp == 9999
    assert header.base_timestamp == 1000
    assert batch.crc_ok(data, 0, len(data))
    assert [record.timestamp for record in decode_records(data)] == [9999, 9999]
    batch.set_max_timestamp(data, 0, len(data), 1001, log_append_time=False)
    assert data == built(b"a", b"b")


@pytest.mark.parametrize("bit", [0x10, 0x20, 0x40, 0x08, 0x04])
def test_attributes(bit: int) -> None:
    header = batch.read_header(built(b"a"))._replace(attributes=bit)
    flags = (header.is_log_append_time, header.is_transactional, header.is_control, header.has_delete_horizon)
    assert flags == (bit == 8, bit == 16, bit == 32, bit == 64)
    assert header.compression == (4 if bit == 4 else 0)


def test_every_flipped_bit_behind_the_sum_is_seen() -> None:
    data = built(b"value")
    for at in range(17, len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            assert not batch.crc_ok(data, 0, len(data))
            data[at] ^= 1 << bit
    assert batch.crc_ok(data, 0, len(data))
    assert not batch.crc_ok(data, 0, len(data) + 1)
    assert not batch.crc_ok(data[:60], 0, 60)


def test_boundaries_leave_out_a_cut_tail() -> None:
    one, two = built(b"a"), built(b"b" * 100, b"c")
    whole = [(0, len(one)), (len(one), len(two))]
    data = bytes(one + two)
    assert list(batch.batches(data)) == whole
    for cut in range(1, len(two) + 1):
        assert list(batch.batches(data[:-cut])) == whole[:1]
    assert list(batch.batches(data, len(one))) == whole[1:]
    assert list(batch.batches(data, 0, len(one) + 61)) == whole[:1]
    assert list(batch.batches(b"")) == []


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_a_length_no_batch_has_is_refused(length: int) -> None:
    data = bytearray(built(b"a"))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match=f"batch at byte 0 has length {length}"):
        list(batch.batches(data))
    with pytest.raises(ProtocolError):
        batch.batch_size(data)


def test_too_few_bytes() -> None:
    assert batch.batch_size(b"\0" * 11) == 0
    with pytest.raises(ProtocolError, match="needs 61 bytes, 60 are left"):
        batch.read_header(b"\0" * 60)


@given(st.binary(max_size=200))
def test_random_bytes_end_or_are_refused(data: bytes) -> None:
    end = 0
    try:
        for position, size in batch.batches(data):
            assert position == end
            end = position + size
    except ProtocolError:
        pass
    assert end <= len(data)
