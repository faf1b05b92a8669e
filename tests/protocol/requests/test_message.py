"""What makes a message: as a dataclass in all that a reader, a codec or a test may do with it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from importlib import import_module
from unittest.mock import ANY

import pytest

from barnabas.protocol.api import STEMS
from barnabas.protocol.requests.fetch import FetchPartition, FetchTopic, ForgottenTopic

EVERY = [
    made
    for stem in STEMS.values()
    for made in vars(import_module(f"barnabas.protocol.requests.{stem}")).values()
    if isinstance(made, type) and "__dataclass_fields__" in vars(made) and made.__module__.endswith(f".{stem}")
]


def test_messages_are_equal_when_all_their_fields_are() -> None:
    topic = FetchTopic("t", partitions=[FetchPartition(1)])
    assert topic == FetchTopic("t", partitions=[FetchPartition(1)])
    assert topic != FetchTopic("t", partitions=[FetchPartition(2)])
    others: list[object] = [ForgottenTopic("t"), ("t", topic.topic_id, [])]
    assert FetchTopic("t") not in others  # the same fields with the same values
    assert topic == ANY  # whoever is not of its class is asked, too


@pytest.mark.parametrize("made", EVERY, ids=lambda made: made.__name__)
def test_a_message_is_a_dataclass_with_slots(made: type) -> None:
    one = made()
    assert dataclasses.is_dataclass(one)
    assert not hasattr(one, "__dict__")
    assert one == made()
    assert one.__doc__
    assert copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@pytest.mark.parametrize("made", EVERY, ids=lambda made: made.__name__)
def test_a_message_shows_itself_as_it_is_written(made: type) -> None:
    plain = dataclasses.make_dataclass(made.__name__, [(field.name, field.type) for field in dataclasses.fields(made)])
    one = made()
    assert repr(one) == repr(plain(*(getattr(one, field.name) for field in dataclasses.fields(made))))
