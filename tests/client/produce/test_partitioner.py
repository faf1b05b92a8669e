"""murmur2's published vectors, partitions by key, and the sticky, adaptive choice without one."""

import random
from collections import Counter

import pytest

from barnabas.client.produce.partitioner import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107),
     (b"a-little-bit-longer-string", -1486304829), (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971)],
)  # fmt: skip
def test_murmur2_published_vectors(key, hashed):
    assert murmur2(key) == hashed


def test_partitions_of_the_published_keys():  # C03
    keys = (b"21", b"foobar", b"a-little-bit-long-string", b"abc")
    assert [partition_for_key(key, 10) for key in keys] == [0, 6, 2, 7]


def test_long_keys_hash_like_short_ones():
    key = b"k" * 1000
    assert partition_for_key(key, 7) == (murmur2(key) & 0x7FFFFFFF) % 7


def chosen(draws):
    values = iter(draws)
    return lambda: next(values)


def test_it_stays_until_batch_size_bytes_and_a_complete_batch():
    sticky = StickyPartitioner(100, chosen([0.0, 0.5, 0.99]))
    assert sticky.current(4, (0, 1, 2, 3)) == 0
    sticky.produced(99, True, 4, (0, 1, 2, 3))
    assert sticky.partition == 0
    sticky.produced(1, False, 4, (0, 1, 2, 3))  # batch.size is reached, but the batch is not complete
    assert sticky.partition == 0
    sticky.produced(0, True, 4, (0, 1, 2, 3))
    assert sticky.partition == 2


def test_it_switches_at_twice_the_size_at_the_latest():
    sticky = StickyPartitioner(100, chosen([0.0, 0.99]))
    sticky.current(4, (0, 1, 2, 3))
    sticky.produced(199, False, 4, (0, 1, 2, 3))
    assert sticky.partition == 0
    sticky.produced(1, False, 4, (0, 1, 2, 3))
    assert sticky.partition == 3


def test_only_partitions_with_a_leader_are_drawn_and_any_when_none_has_one():
    assert StickyPartitioner(1, chosen([0.99])).current(8, (2, 5)) == 5
    assert StickyPartitioner(1, chosen([0.5])).current(8, ()) == 4


def test_weights_are_longest_plus_one_minus_queue():
    chance = random.Random(3)
    sticky = StickyPartitioner(1, chance.random)
    sticky.update_load((0, 1, 2), (0, 3, 1))  # weights 4, 1, 3
    drawn: Counter[int] = Counter()
    for _ in range(8000):
        sticky.partition = None
        drawn[sticky.current(3, (0, 1, 2))] += 1
    assert drawn[0] == pytest.approx(4000, rel=0.07)
    assert drawn[1] == pytest.approx(1000, rel=0.15)
    assert drawn[2] == pytest.approx(3000, rel=0.07)


def test_equal_queues_mean_equal_odds():
    chance = random.Random(3)
    sticky = StickyPartitioner(1, chance.random)
    sticky.update_load((0, 1, 2), (9, 0, 0))
    sticky.update_load((0, 1, 2), (2, 2, 2))
    drawn: Counter[int] = Counter()
    for _ in range(3000):
        sticky.partition = None
        drawn[sticky.current(3, (0, 1, 2))] += 1
    assert min(drawn.values()) > 850
