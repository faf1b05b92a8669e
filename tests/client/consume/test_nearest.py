"""A consumer of a rack reads where its leader sends it, and goes back to the leader (KIP-392), in virtual time."""

from __future__ import annotations

from typing import Any, cast

import pytest

from barnabas.net.errors import Disconnected
from barnabas.protocol.errors import ErrorCode
from tests.client.consume.test_fetcher import P0, Sent, World, answer, asked, batch, data, values

AGE_MS = 300_000
"""Default of `metadata.max.age.ms`."""


def sent_to_two(**settings: str) -> tuple[World, Sent]:
    """A consumer of t-0 that its leader, 1, has sent to 2, and its first fetch there."""
    world = World(**{"client.rack": "b", **settings})
    world.fetcher.assign([P0])
    first = world.at(5)
    assert (first.node_id, first.request.rack_id) == (1, "b")
    first.answer(answer(data(0, preferred_read_replica=2)), 0)
    (there,) = world.drive()
    assert (there.node_id, asked(there)) == (2, {0: 5})
    return world, there


def test_it_goes_where_its_leader_sends_it_and_stays_there() -> None:
    world, there = sent_to_two()
    there.answer(answer(data(0, batch(5, 2))))
    assert values(world) == [b"5", b"6"]
    assert [(one.node_id, asked(one)) for one in world.drive()] == [(2, {0: 7})]


def test_it_asks_its_leader_again_once_the_age_of_metadata_is_over() -> None:
    world, there = sent_to_two()
    there.answer(answer(data(0)))
    (again,) = world.drive(AGE_MS - 1)
    assert again.node_id == 2
    again.answer(answer(data(0)))
    assert [one.node_id for one in world.drive(AGE_MS)] == [1]


@pytest.mark.parametrize("how", ["lost", "refused", "gone", "elected"])
def test_it_goes_back_when_the_other_is_away(how: str) -> None:
    world, there = sent_to_two()
    if how == "lost":
        there.fail(Disconnected("gone"), 0)
    elif how == "refused":
        there.answer(answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)), 0)
    else:
        there.answer(answer(data(0)))
        if how == "gone":
            cast("dict[int, Any]", world.metadata.cluster.nodes).pop(2)
        else:
            world.lead(1, 1, epoch=1)
    assert [one.node_id for one in world.drive(1000)] == [1]


@pytest.mark.parametrize("asked_then", [False, True])
def test_it_reads_from_a_leader_that_goes_on_sending_it_to_one_who_cannot_be_reached(asked_then: bool) -> None:
    """A leader does so until the other is fenced; a connection may go between two fetches, too: nothing came then."""
    world, there = sent_to_two()
    world.wire.away.add(2)
    if asked_then:
        there.fail(Disconnected("gone"), 0)
    else:
        there.answer(answer(data(0)))
        assert world.drive(0) == []
    (back,) = world.drive(1000)
    assert (back.node_id, back.request.rack_id) == (1, "")
    back.answer(answer(data(0, batch(5, 1))), 1000)
    assert values(world) == [b"5"]
    (soon,) = world.drive(9_999)
    assert (soon.node_id, soon.request.rack_id) == (1, "")
    soon.answer(answer(data(0)), 9_999)
    (again,) = world.drive(11_000)
    assert (again.node_id, again.request.rack_id) == (1, "b")
    again.answer(answer(data(0, preferred_read_replica=2)), 11_000)
    assert world.drive(11_000) == []
    world.wire.away.clear()
    (alone,) = world.drive(11_000)
    assert (alone.node_id, alone.request.rack_id) == (1, "")


def test_an_offset_that_the_other_does_not_have_is_asked_of_the_leader_before_anything_is_reset() -> None:
    world, there = sent_to_two(**{"auto.offset.reset": "earliest"})
    there.answer(answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)), 0)
    (back,) = world.drive()
    assert (back.node_id, world.fetcher.position_of(P0).offset) == (1, 5)
    back.answer(answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)), 0)
    assert world.fetcher.position_of(P0).offset == -1, "now its leader says so"


def test_without_a_rack_nothing_of_it_is_said() -> None:
    world = World()
    world.fetcher.assign([P0])
    assert world.at(5).request.rack_id == ""
