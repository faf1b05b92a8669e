"""What is summed up before a consumer is given it: which bytes are good, and from where on they are not."""

from __future__ import annotations

import pytest

from barnabas.broker.replica.given import Seen, look
from barnabas.protocol.batch import LENGTH_AT, set_place
from tests.broker.node.world import batch

VALUES = (b"first", b"secnd", b"third", b"forth")
SIZE = len(batch(VALUES[0]))
NO_BOUND = 1 << 40


def four(first: int = 10) -> bytearray:
    """Batches of one record, at `first` and behind it."""
    data = bytearray()
    for number, value in enumerate(VALUES):
        one = bytearray(batch(value))
        set_place(one, 0, first + number, SIZE - 12, 3)
        data += one
    return data


def seen(data: bytearray, offset: int = 10, end: int = 14, bytes_max: int = NO_BOUND, batches_max: int = 99) -> Seen:
    return look(memoryview(data), offset, end, bytes_max, batches_max)


def test_whole_batches_are_good() -> None:
    assert seen(four()) == (4 * SIZE, 4, -1)


@pytest.mark.parametrize("bit", range(8))
def test_one_bit_anywhere_that_a_sum_covers_is_found(bit: int) -> None:
    for at in range(16, SIZE):
        data = four()
        data[2 * SIZE + at] ^= 1 << bit
        assert seen(data) == (2 * SIZE, 2, 12), at


@pytest.mark.parametrize("bit", range(8))
def test_one_bit_of_an_offset_is_found_by_its_neighbours(bit: int) -> None:
    """Either of two may be the one that is wrong."""
    for at in range(8):
        data = four()
        data[SIZE + at] ^= 1 << bit
        found = seen(data)
        assert found.bad_offset in (10, 11, 12), at
        assert found.good_bytes <= SIZE


@pytest.mark.parametrize("bit", range(8))
def test_one_bit_of_a_length_is_found(bit: int) -> None:
    for at in range(4):
        data = four()
        data[LENGTH_AT + at] ^= 1 << bit
        assert seen(data) == (0, 0, 10), at


def test_a_batch_that_is_cut_at_the_end_is_the_next_answers() -> None:
    for left in (1, 60, 61, SIZE - 1):
        assert seen(four()[: SIZE + left]) == (SIZE, 1, -1)
        assert seen(four()[:left]) == (0, 0, 10), "the first comes whole"


def test_offsets_that_compaction_took_are_not_missed() -> None:
    data = four()
    assert seen(data[:SIZE] + data[3 * SIZE :]) == (2 * SIZE, 2, -1)
    assert seen(data, offset=7) == (4 * SIZE, 4, -1)


def test_what_lies_behind_the_end_of_the_log_is_wrong() -> None:
    assert seen(four(), end=13) == (2 * SIZE, 2, 12)


def test_no_more_is_looked_at_than_there_is_time_for() -> None:
    assert seen(four(), batches_max=3) == (3 * SIZE, 3, -1)
    assert seen(four(), bytes_max=SIZE + 1) == (2 * SIZE, 2, -1), "what begins before the bound is looked at"
    assert seen(four(), bytes_max=0) == (0, 0, -1)
