"""Topics of one name: each has a name of its own in histories, whoever sees it, and the first its own."""

from __future__ import annotations

from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.simulator.incarnations import Incarnations

ONE, TWO, THREE = b"1" * 16, b"2" * 16, b"3" * 16


def test_a_topic_that_is_made_anew_is_another_one_whenever_it_is_seen() -> None:
    topics = Incarnations()
    assert [topics.name(one, "t") for one in (ONE, TWO, ONE, THREE, TWO)] == ["t", "t.2", "t", "t.3", "t.2"]
    assert topics.name(b"4" * 16, "u") == "u"


def test_that_one_is_made_anew_is_said_once() -> None:
    topics = Incarnations()
    assert [topics.remade(one, "t") for one in (ONE, TWO, ONE, TWO, THREE)] == [False, True, False, False, True]


def test_its_partitions_are_other_ones_too() -> None:
    topics, key = Incarnations(), TopicPartition("t", 1)
    assert topics.key(ONE, key) is key
    assert topics.key(TWO, key) == TopicPartition("t.2", 1)


def test_a_log_that_has_lost_its_id_is_nobody_new() -> None:
    topics = Incarnations()
    assert topics.name(ZERO_UUID, "t") == "t"
    assert topics.name(ONE, "t") == "t"
