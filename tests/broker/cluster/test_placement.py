"""Where new partitions lie: over racks first, then over brokers."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.placement import Placement
from barnabas.broker.cluster.records import RegisterBroker
from barnabas.protocol.errors import ErrorCode, KafkaError


def image_of(racks, fenced=()):
    image = Image()
    image.apply(
        RegisterBroker(number, number, bytes(16), (), rack, number in fenced) for number, rack in enumerate(racks, 1)
    )
    return image


def first(bound):
    return 0


def test_racks_in_turn_and_in_each_its_brokers_in_turn():
    placement = Placement(image_of("AABBCC"), first)
    assert [placement.replicas(3) for _ in range(4)] == [(1, 3, 5), (4, 6, 2), (5, 1, 3), (2, 4, 6)]


def test_without_racks_brokers_in_turn():
    placement = Placement(image_of([None] * 3), lambda bound: bound - 1)
    assert [placement.replicas(2) for _ in range(4)] == [(3, 1), (1, 2), (2, 3), (3, 1)]


def test_who_is_fenced_leads_nothing_and_comes_last_in_its_rack():
    placement = Placement(image_of("AABB", fenced=(1, 3, 4)), first)
    assert [placement.replicas(2) for _ in range(2)] == [(2, 3), (2, 3)]
    with pytest.raises(KafkaError) as caught:
        Placement(image_of("AB", fenced=(1, 2)), first).replicas(1)
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@settings(max_examples=200)
@given(
    racks=st.lists(st.sampled_from(["A", "B", "C", "D", None]), min_size=1, max_size=12),
    dead=st.sets(st.integers(1, 12)),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_replicas_spread_over_as_many_racks_as_there_are(racks, dead, seed, data):
    fenced = [number for number in range(1, len(racks) + 1) if number in dead and len(dead) < len(racks)]
    image = image_of(racks, fenced)
    alive = [one for one in image.brokers if not image.brokers[one].fenced]
    factor = data.draw(st.integers(1, len(racks)))
    placement = Placement(image, random.Random(seed).randrange)
    for _ in range(10):
        replicas = placement.replicas(factor)
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in alive
        sizes = Counter(racks)
        spread = Counter(racks[one - 1] for one in replicas)
        least = (
            min(spread.get(rack, 0) for rack in sizes if spread.get(rack, 0) < sizes[rack])
            if factor < len(racks)
            else None
        )
        if least is not None:
            assert max(spread.values()) <= least + 1, "no rack has two more than one that has room"


def test_leaders_are_spread_over_the_brokers_of_equal_racks():
    placement = Placement(image_of("AABBCC"), random.Random(7).randrange)
    leaders = Counter(placement.replicas(3)[0] for _ in range(600))
    assert set(leaders.values()) == {100}
