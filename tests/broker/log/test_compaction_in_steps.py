"""The cleaner's budget: what one step of a round may take, whatever stands in the batches."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.broker.log.apart import BYTES_AT_ONCE
from barnabas.broker.log.key_map import RECORDS_PER_STEP
from barnabas.protocol.compression import decompress
from barnabas.protocol.records import SLICE_BYTES, BatchRewriter
from barnabas.protocol.records import decode as decode_module
from tests.broker.log.harness import NOW, append, append_apart
from tests.broker.log.test_compaction import content, new_log, put

READ, WRITTEN = "read", "written"


@pytest.fixture
def steps(memory, monkeypatch):
    """Plays a round; of each step it tells what was read and what was written again, as (records, bytes)."""
    taken: list[tuple[str, int, int]] = []
    decode, add = decode_module.decode_area, BatchRewriter.add

    def reading(area, header, make):
        taken.append((READ, header.record_count, len(area)))
        return decode(area, header, make)

    def writing(self, records):
        taken.append((WRITTEN, len(records), sum(len(one.value or b"") for one in records)))
        add(self, records)

    monkeypatch.setattr(decode_module, "decode_area", reading)
    monkeypatch.setattr(BatchRewriter, "add", writing)

    def step(what):
        of_it = [(records, size) for kind, records, size in taken if kind == what]
        return sum(records for records, _ in of_it), sum(size for _, size in of_it)

    def play(log):
        taken.clear()
        told = []
        for token in log.compact(NOW, keys_max=10_000):
            told.append({what: step(what) for what in (READ, WRITTEN)})
            taken.clear()
            if token is not None:
                fired: list[bool] = []
                token.on_ready(partial(fired.append, True))
                while not fired:
                    memory.deliver()
        assert not taken
        monkeypatch.undo()
        return told

    return play


def most(told, what, at):
    return max(step[what][at] for step in told)


def whole(told, what, at):
    return sum(step[what][at] for step in told)


def test_no_step_takes_a_large_batch_whole(memory, steps):
    log = new_log(memory)
    keys = [b"%d" % (i % 3000) for i in range(6000)]
    append_apart(memory, log, *keys, keys=keys, codec=4)
    log.roll(NOW)
    put(log, b"x", b"")
    told = steps(log)
    assert whole(told, READ, 0) == 24_000, "to see that all can be read, the map, what stays, the rewrite"
    assert whole(told, WRITTEN, 0) == 3000
    assert max(most(told, READ, 0), most(told, WRITTEN, 0)) <= RECORDS_PER_STEP
    assert [key for _, key, _ in content(memory, log)] == [b"%d" % i for i in range(3000)] + [b"x"]


def test_nor_one_of_few_records_that_are_long(memory, steps):
    """What a step may take is bytes, too: 400 records may be all that a batch unpacks to."""
    log = new_log(memory)
    size = 1000
    keys = [b"%d" % (i % 200) for i in range(400)]
    append(log, *[bytes(size)] * 400, keys=keys)
    log.roll(NOW)
    put(log, b"x", b"")
    told = steps(log)
    assert whole(told, READ, 0) == 3 * 400, "what stays of so much is kept for the rewrite"
    assert whole(told, WRITTEN, 0) == 200
    assert max(most(told, READ, 1), most(told, WRITTEN, 1)) <= SLICE_BYTES + 2 * size
    assert [key for _, key, _ in content(memory, log)] == [b"%d" % i for i in range(200)] + [b"x"]


def test_the_records_of_a_batch_that_unpacks_to_much_are_not_kept(memory, steps):
    """Two of 64 MiB are read once more for the rewrite: what stays would be there twice."""
    log = new_log(memory)
    append_apart(memory, log, *[bytes(BYTES_AT_ONCE)] * 3, keys=[b"k", b"k", b"l"], codec=4)
    log.roll(NOW)
    put(log, b"x", b"")
    told = steps(log)
    assert (whole(told, READ, 0), most(told, READ, 0)) == (4 * 3, 1)
    assert [offset for offset, _, _ in content(memory, log)] == [1, 2, 3]


def test_many_small_batches_are_mapped_and_written_in_steps(memory, steps):
    """A window of a MiB holds some ten thousand of them."""
    log = new_log(memory)
    count = 4 * RECORDS_PER_STEP
    for number in range(count):
        put(log, b"%d" % number, b"")
    log.roll(NOW)
    put(log, b"0", b"")
    told = steps(log)
    assert whole(told, READ, 0) == 2 * count, "the map, and what stays"
    assert most(told, READ, 0) == RECORDS_PER_STEP


def test_few_batches_are_unpacked_in_a_step(memory, monkeypatch):
    """Five hundred of one record each, in 33 members of gzip, would be 75 ms."""
    log = new_log(memory)
    count = 4 * RECORDS_PER_STEP
    for number in range(count):
        append(log, b"v", keys=[b"%d" % number], codec=1)
    log.roll(NOW)
    put(log, b"0", b"")
    unpacked: list[int] = []

    def counted(codec, data, *, bytes_max):
        unpacked.append(1)
        return decompress(codec, data, bytes_max=bytes_max)

    monkeypatch.setattr(decode_module, "decompress", counted)
    per_step = []
    for token in log.compact(NOW, keys_max=10_000):
        per_step.append(len(unpacked))
        unpacked.clear()
        if token is not None:
            fired: list[bool] = []
            token.on_ready(partial(fired.append, True))
            while not fired:
                memory.deliver()
    assert sum(per_step) == 2 * count
    assert max(per_step) <= RECORDS_PER_STEP // 20
