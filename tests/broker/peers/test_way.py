"""One connection to another broker: the table of `way`, line by line, with the codec of the other side."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.context import Sealed
from barnabas.broker.peers.way import (
    BACKOFF_MS,
    BACKOFF_MS_MAX,
    SEALED_BYTES_MIN,
    WAITING_MAX,
    Close,
    Open,
    State,
    Way,
    Write,
)
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.requests.list_offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse

TIMEOUT_MS = 2 * BACKOFF_MS_MAX


class Introduction:
    """Two requests; the second answer may refuse."""

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.answers = 0

    def first(self) -> Any:
        return ApiVersionsRequest("one", "1")

    def answered(self, response: ApiVersionsResponse) -> Any | None:
        self.answers += 1
        if self.answers == 1:
            return ApiVersionsRequest("two", "1")
        if self.refuses:
            raise BarnabasError("it has another secret")
        return None


class World:
    def __init__(self, *, seals=False, timeout_ms=TIMEOUT_MS):
        self.now_ms = 0
        self.refuses = False
        self.answers: list[Any] = []
        self.way = Way("broker 2", timeout_ms, lambda: Introduction(self.refuses), seals=seals)

    def ask(self, replica=7, version=None):
        self.way.ask(ListOffsetsRequest(replica), lambda answer: self.answers.append(answer), self.now_ms, version)

    def told(self):
        self.way.settle()
        answers, self.answers = self.answers, []
        return answers

    def sent(self):
        """The one request that the connection writes now: its header and itself."""
        (write,) = self.way.take_actions()
        assert isinstance(write, Write)
        return codec.decode_request(memoryview(b"".join(write.buffers))[4:])

    def answer(self, header, response):
        frame = b"".join(codec.encode_response(header.api_key, header.api_version, header.correlation_id, response))
        self.way.received(memoryview(frame)[4:], self.now_ms)

    def up(self):
        """Ask, and bring the connection up."""
        self.ask()
        assert self.way.take_actions() == [Open()]
        self.way.opened(self.now_ms)
        self.answer(self.sent()[0], ApiVersionsResponse())
        self.answer(self.sent()[0], ApiVersionsResponse())
        assert self.way.state is State.READY

    def advance(self, ms):
        self.now_ms += ms
        self.way.tick(self.now_ms)


@pytest.fixture
def world():
    return World()


def test_nothing_is_opened_before_something_is_asked(world):
    world.way.tick(0)
    assert world.way.take_actions() == []
    assert world.way.next_deadline_ms() is None


def test_each_connection_begins_with_the_introduction_and_asks_one_at_a_time(world):
    world.ask(1)
    world.ask(2)
    assert world.way.take_actions() == [Open()]
    world.way.opened(0)
    header, first = world.sent()
    assert first.client_software_name == "one"
    world.answer(header, ApiVersionsResponse())
    header, second = world.sent()
    assert second.client_software_name == "two"
    world.answer(header, ApiVersionsResponse())
    header, request = world.sent()
    assert request.replica_id == 1
    assert world.told() == [], "it was not answered yet"
    world.answer(header, ListOffsetsResponse(5))
    header, request = world.sent()
    assert request.replica_id == 2
    world.answer(header, ListOffsetsResponse(6))
    assert [answer.throttle_time_ms for answer in world.told()] == [5, 6]
    assert world.way.take_actions() == []


def test_a_request_goes_at_the_version_it_was_given(world):
    world.up()
    world.answer(world.sent()[0], ListOffsetsResponse())
    world.ask(version=3)
    assert world.sent()[0].api_version == 3


def test_who_is_refused_is_told_and_the_next_attempt_waits(world):
    world.refuses = True
    world.ask()
    world.way.take_actions()
    world.way.opened(0)
    world.answer(world.sent()[0], ApiVersionsResponse())
    world.answer(world.sent()[0], ApiVersionsResponse())
    assert world.way.take_actions() == [Close()]
    assert world.told() == [None]
    assert world.way.state is State.DOWN


def test_a_lost_connection_ends_all_that_was_asked_and_is_opened_again_after_the_back_off(world):
    world.up()
    world.ask()
    world.way.lost("reset", 0)
    assert world.told() == [None, None]
    world.ask()
    assert world.way.take_actions() == []
    assert world.way.next_deadline_ms() == BACKOFF_MS
    world.advance(BACKOFF_MS)
    assert world.way.take_actions() == [Open()]


def test_the_back_off_doubles_up_to_its_end_and_begins_anew_with_a_connection(world):
    waits = []
    for _ in range(8):
        world.ask()
        world.advance(0)
        if not world.way.take_actions():
            waits.append(world.way.next_deadline_ms() - world.now_ms)
            world.advance(waits[-1])
            assert world.way.take_actions() == [Open()]
        world.way.lost("refused", world.now_ms)
        assert world.told() == [None]
    assert waits == [50, 100, 200, 400, 800, BACKOFF_MS_MAX, BACKOFF_MS_MAX]
    world.advance(BACKOFF_MS_MAX)
    world.up()
    world.way.lost("reset", world.now_ms)
    world.ask()
    assert world.way.next_deadline_ms() == world.now_ms + BACKOFF_MS


def test_who_asks_while_it_waits_to_connect_has_half_of_its_time_for_the_connection():
    """A broker that was away long was asked no change of an ISR any more, where a request may take one second."""
    world = World(timeout_ms=1000)
    for _ in range(8):
        world.ask()
        world.advance(500)
        world.way.lost("refused", world.now_ms)
        assert world.told() == [None]
        world.way.take_actions()
    world.ask()
    world.advance(500)
    assert world.way.take_actions() == [Open()]
    world.advance(499)
    world.way.opened(world.now_ms)
    world.answer(world.sent()[0], ApiVersionsResponse())
    world.answer(world.sent()[0], ApiVersionsResponse())
    world.answer(world.sent()[0], ListOffsetsResponse(5))
    assert [answer.throttle_time_ms for answer in world.told()] == [5]


@pytest.mark.parametrize("stage", ["opening", "introducing", "asked"])
def test_nothing_takes_longer_than_it_may(world, stage):
    if stage == "asked":
        world.up()
    else:
        world.ask()
        if stage == "introducing":
            world.way.opened(0)
    world.way.take_actions()
    assert world.way.next_deadline_ms() == TIMEOUT_MS
    world.advance(TIMEOUT_MS - 1)
    assert world.told() == []
    world.advance(1)
    assert world.told() == [None]
    assert world.way.take_actions() == [Close()]


def test_one_that_waits_while_down_is_not_kept_beyond_its_time(world):
    world.ask()
    world.way.take_actions()
    for _ in range(10):
        world.way.lost("refused", world.now_ms)
    world.told()
    world.ask()
    world.now_ms += TIMEOUT_MS
    world.way.tick(world.now_ms)
    assert world.told() == [None]


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\x63rest", b"\xff" * 40])
def test_what_is_no_answer_ends_the_connection(world, frame):
    world.up()
    world.way.take_actions()
    world.way.received(memoryview(frame), 0)
    assert world.told() == [None]
    assert world.way.take_actions() == [Close()]


def test_what_nobody_asked_for_ends_the_connection(world):
    world.up()
    header, _ = world.sent()
    world.answer(header, ListOffsetsResponse())
    world.answer(header, ListOffsetsResponse())
    assert world.way.take_actions() == [Close()]
    assert [answer is None for answer in world.told()] == [False]


def test_the_line_is_bounded_and_nobody_is_called_back_from_within(world):
    for _ in range(WAITING_MAX + 1):
        world.ask()
    assert world.answers == []
    assert world.told() == [None]


@pytest.mark.parametrize("seals", [False, True])
def test_a_large_answer_that_is_sent_on_is_not_decoded(seals):
    """An answer of 11 MB, about 10,000 topics, took the broker that sent it on 0.7 s."""
    world = World(seals=seals)
    world.up()
    world.answer(world.sent()[0], ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t" * SEALED_BYTES_MIN)]))
    (large,) = world.told()
    assert isinstance(large, Sealed) == seals
    assert (large.opened() if seals else large).topics[0].name == "t" * SEALED_BYTES_MIN
    world.ask()
    world.answer(world.sent()[0], ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t")]))
    assert [one.topics[0].name for one in world.told()] == ["t"]


def test_a_large_answer_to_another_request_ends_the_connection():
    world = World(seals=True)
    world.up()
    header = world.sent()[0]
    header.correlation_id += 1
    world.answer(header, ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t" * SEALED_BYTES_MIN)]))
    assert world.told() == [None]
    assert world.way.state is State.DOWN
