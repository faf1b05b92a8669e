"""A batch's bytes against the protocol's own decoder, and its result's bookkeeping."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.produce.batch import ProducerBatch, record_size_bound
from barnabas.client.produce.result import BatchResult
from barnabas.protocol import batch as layout
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import decode_records

WHERE = TopicPartition("t", 0)
DATA = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=10), DATA), max_size=3)
RECORDS = st.lists(st.tuples(st.integers(0, 2**41), DATA, DATA, HEADERS), min_size=1, max_size=30)


@given(RECORDS, st.sampled_from([0, 1, 2, 3, 4]))
def test_what_was_appended_is_decoded(records, codec):
    batch = ProducerBatch(WHERE, bytearray(100_000), 0)
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert batch.try_append(timestamp, key, value, headers) == index
    batch.set_producer(7, 3, 11)
    data = b"".join(batch.seal(codec))
    header = layout.read_header(data)
    assert layout.crc_ok(data, 0, len(data))
    assert header.size == len(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.max_timestamp == max(record[0] for record in records)
    decoded = [(r.timestamp, r.key, r.value, list(r.headers)) for r in decode_records(data)]
    assert decoded == [(t, k, v, [(name, data) for name, data in h]) for t, k, v, h in records]


@given(st.tuples(DATA, DATA, HEADERS))
def test_the_bound_is_enough_for_one_record(record):
    key, value, headers = record
    batch = ProducerBatch(WHERE, bytearray(record_size_bound(key, value, headers)), 0)
    assert batch.try_append(2**41, key, value, headers) == 0


def test_a_record_without_room_closes_the_batch_and_leaves_no_trace():
    batch = ProducerBatch(WHERE, bytearray(200), 0)
    assert batch.try_append(5, None, bytes(100), ()) == 0
    size = batch.size
    assert batch.try_append(5, None, bytes(100), ()) == -1
    assert (batch.size, batch.record_count, batch.full) == (size, 1, True)
    assert batch.try_append(5, None, b"", ()) == -1


def test_a_retry_sends_the_same_bytes_and_a_new_sequence_new_ones():
    batch = ProducerBatch(WHERE, bytearray(500), 0)
    batch.try_append(5, b"k", b"v", ())
    batch.set_producer(1, 0, 4)
    first = b"".join(batch.seal(0))
    assert b"".join(batch.seal(0)) == first
    assert not batch.sequence_reset
    batch.set_producer(1, 1, 0)
    again = b"".join(batch.seal(0))
    assert batch.sequence_reset
    assert layout.read_header(again).producer_epoch == 1
    assert layout.crc_ok(again, 0, len(again))


def test_an_uncompressed_batch_is_sent_from_the_buffer_it_was_built_in():
    buffer = bytearray(500)
    batch = ProducerBatch(WHERE, buffer, 0)
    batch.try_append(5, None, b"v", ())
    (view,) = batch.seal(0)
    assert isinstance(view, memoryview)
    assert view.obj is buffer


def test_watchers_run_once_whenever_they_come():
    batch = ProducerBatch(WHERE, bytearray(500), 0)
    told = []
    batch.result.watch(0, lambda: told.append("before"))
    for call in batch.finish(9, -1, None):
        call()
    batch.result.watch(0, lambda: told.append("after"))
    assert told == ["before", "after"]
    assert batch.finish(10, -1, None) == []
    assert batch.result.base_offset == 9  # the first outcome stands


def test_the_parts_of_a_split_know_their_records():
    whole, first, second, third = (BatchResult(WHERE) for _ in range(4))
    whole.parts = [(0, first), (4, second)]
    second.parts = [(0, third)]
    assert whole.part_of(3) == (first, 3)
    assert whole.part_of(6) == (third, 2)
    told = []
    whole.watch(6, lambda: told.append(6))
    assert third.watchers
    assert not first.watchers
