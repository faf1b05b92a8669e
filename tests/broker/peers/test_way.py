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
from barnabas.net import versions
from barnabas.protocol.api import SPOKEN, ApiKey, key_of
from barnabas.protocol.errors import BarnabasError, ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.requests.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, Feature
from barnabas.protocol.requests.end_quorum_epoch import EndedPartition, EndedTopic, EndQuorumEpochRequest, ReplicaInfo
from barnabas.protocol.requests.fetch import FetchRequest, ReplicaState
from barnabas.protocol.requests.list_offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse
from barnabas.protocol.requests.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.requests.vote import AskedPartition, AskedTopic, VoteRequest

TIMEOUT_MS = 2 * BACKOFF_MS_MAX
SERVED = SPOKEN
"""A broker of the same release."""


def told(served):
    """An answer to the question for versions."""
    return ApiVersionsResponse(api_keys=[ApiVersion(key, *span) for key, span in served.items()])


class Introduction:
    """Two requests; the second answer may refuse."""

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.answers = 0

    @property
    def ends(self) -> bool:
        return self.answers == 1

    def first(self) -> Any:
        return SaslAuthenticateRequest(b"one")

    def answered(self, response: SaslAuthenticateResponse) -> Any | None:
        self.answers += 1
        if self.answers == 1:
            return SaslAuthenticateRequest(b"two")
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
        self.ask_for(ListOffsetsRequest(replica), version)

    def ask_for(self, request, version=None):
        self.way.ask(request, lambda answer: self.answers.append(answer), self.now_ms, version)

    def told(self):
        self.way.settle()
        answers, self.answers = self.answers, []
        return answers

    def sent(self):
        """The one request that the connection writes now: its header and itself."""
        (sent,) = self.all_sent()
        return sent

    def all_sent(self):
        """The same of all that it writes now."""
        actions = self.way.take_actions()
        writes = [one for one in actions if isinstance(one, Write)]
        assert writes == actions
        return [codec.decode_request(memoryview(b"".join(one.buffers))[4:]) for one in writes]

    def answer(self, header, response):
        frame = b"".join(codec.encode_response(header.api_key, header.api_version, header.correlation_id, response))
        self.way.received(memoryview(frame)[4:], self.now_ms)

    def up(self, served=SERVED):
        """Ask, and bring the connection up."""
        self.ask()
        assert self.way.take_actions() == [Open()]
        self.introduced(served)
        assert self.way.state is State.READY

    def introduced(self, served=SERVED):
        """Open the connection, and answer all that is said before it is ready."""
        self.way.opened(self.now_ms)
        self.answer(self.sent()[0], SaslAuthenticateResponse())
        (last, _), (question, _) = self.all_sent()
        self.answer(last, SaslAuthenticateResponse())
        self.answer(question, told(served))

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
    assert bytes(first.auth_bytes) == b"one"
    world.answer(header, SaslAuthenticateResponse())
    (header, second), (question, asked) = world.all_sent()
    assert bytes(second.auth_bytes) == b"two"
    assert asked == versions.question(), "it goes out behind the last one, and costs no round trip"
    world.answer(header, SaslAuthenticateResponse())
    assert world.way.take_actions() == []
    world.answer(question, told(SERVED))
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
    world.answer(world.sent()[0], SaslAuthenticateResponse())
    world.answer(world.all_sent()[0][0], SaslAuthenticateResponse())
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
    world.introduced()
    world.answer(world.sent()[0], ListOffsetsResponse(5))
    assert [answer.throttle_time_ms for answer in world.told()] == [5]


@pytest.mark.parametrize("stage", ["opening", "introducing", "checking", "asked"])
def test_nothing_takes_longer_than_it_may(world, stage):
    if stage == "asked":
        world.up()
    else:
        world.ask()
        world.way.take_actions()
        if stage != "opening":
            world.way.opened(0)
        if stage == "checking":
            world.answer(world.sent()[0], SaslAuthenticateResponse())
            world.answer(world.all_sent()[0][0], SaslAuthenticateResponse())
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


def test_who_waits_too_long_behind_others_is_told_so_alone(world):
    """An answering broker was hung up on where a line was long, and all that stood in it were told that it is away."""
    world.up()
    for replica in (1, 2):
        world.ask(replica)
    first, _ = world.sent()
    world.advance(TIMEOUT_MS - 1)
    world.ask(3)
    world.answer(first, ListOffsetsResponse())
    header, asked = world.sent()
    assert asked.replica_id == 1
    assert world.told() == [ListOffsetsResponse()]
    assert world.way.next_deadline_ms() == TIMEOUT_MS
    world.advance(1)
    assert world.told() == [None], "the second has waited for its whole time, and was never sent"
    assert world.way.take_actions() == []
    world.advance(TIMEOUT_MS // 2 - 2)
    world.answer(header, ListOffsetsResponse())
    assert world.sent()[1].replica_id == 3
    assert world.told() == [ListOffsetsResponse()]


def test_who_was_sent_late_has_half_of_the_time_for_its_answer(world):
    world.up()
    world.ask(1)
    first, _ = world.sent()
    world.advance(TIMEOUT_MS - 1)
    world.answer(first, ListOffsetsResponse())
    assert world.sent()[1].replica_id == 1
    assert world.told() == [ListOffsetsResponse()]
    assert world.way.next_deadline_ms() == TIMEOUT_MS - 1 + TIMEOUT_MS // 2
    world.advance(TIMEOUT_MS // 2 - 1)
    assert world.told() == []
    world.advance(1)
    assert world.told() == [None]
    assert world.way.take_actions() == [Close()]


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
    world.answer(world.sent()[0], ListOffsetsResponse())
    world.told()
    world.ask(version=5)
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
    world.answer(world.sent()[0], ListOffsetsResponse())
    world.told()
    world.ask(version=5)
    header = world.sent()[0]
    header.correlation_id += 1
    world.answer(header, ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t" * SEALED_BYTES_MIN)]))
    assert world.told() == [None]
    assert world.way.state is State.DOWN


FETCH = FetchRequest(replica_state=ReplicaState(2, 7))
PARTS = [AlterPartitionPartition(0, 3, new_isr_with_epochs=[BrokerState(1, 5), BrokerState(2, 7)])]
ALTER_PARTITION = AlterPartitionRequest(2, 7, [AlterPartitionTopic(b"t" * 16, PARTS)])
REGISTRATION = BrokerRegistrationRequest(2, "c", features=[Feature("a", 0, 1), Feature("b", 7, 30)])
END = EndQuorumEpochRequest("c", [EndedTopic("t", [EndedPartition(0, 1, 4, preferred_candidates=[ReplicaInfo(3)])])])
PRE_VOTE = VoteRequest("c", 2, [AskedTopic("t", [AskedPartition(0, 4, 1, pre_vote=True)])])


@pytest.mark.parametrize(
    ("request_", "last", "said"),
    [
        (FETCH, 14, lambda one: (one.replica_id, one.replica_state)),
        (ALTER_PARTITION, 2, lambda one: one.topics[0].partitions[0].new_isr),
        (REGISTRATION, 3, lambda one: [(each.name, each.min_supported_version) for each in one.features]),
        (END, 0, lambda one: one.topics[0].partitions[0].preferred_successors),
    ],
    ids=["Fetch", "AlterPartition", "BrokerRegistration", "EndQuorumEpoch"],
)
def test_an_older_one_is_asked_in_what_it_serves(world, request_, last, said):
    key = key_of(type(request_))
    world.up({**SERVED, key: (0, last)})
    world.answer(world.sent()[0], ListOffsetsResponse())
    before = repr(request_)
    world.ask_for(request_)
    header, came = world.sent()
    assert header.api_version == last
    assert (
        said(came)
        == {
            ApiKey.FETCH: (2, None),
            ApiKey.ALTER_PARTITION: [1, 2],
            ApiKey.BROKER_REGISTRATION: [("a", 1), ("b", 7)],
            ApiKey.END_QUORUM_EPOCH: [3],
        }[key]
    )
    assert repr(request_) == before, "it is asked again of whoever is newer"


@pytest.mark.parametrize(
    ("request_", "served", "why"),
    [
        (PRE_VOTE, {ApiKey.VOTE: (0, 1)}, "broker 2 serves Vote up to version 1 and is older than this release: "),
        (FETCH, {ApiKey.FETCH: (0, 12)}, "broker 2 serves FETCH at versions 0 to 12, and brokers ask from 13 on"),
        (FETCH, {ApiKey.FETCH: (99, 100)}, "broker 2 serves FETCH at versions 99 to 100, and this release speaks "),
        (FETCH, {}, "broker 2 does not serve FETCH: "),
    ],
    ids=["cannot say it", "too old", "too new", "not served"],
)
def test_what_no_version_of_both_can_say_is_answered_so_and_told_once(world, caplog, request_, served, why):
    world.up({ApiKey.LIST_OFFSETS: SERVED[ApiKey.LIST_OFFSETS], **served})
    world.answer(world.sent()[0], ListOffsetsResponse(5))
    for _ in range(2):
        world.ask_for(request_)
    world.ask()
    assert world.sent()[0].api_key == ApiKey.LIST_OFFSETS, "the others have their turn"
    _, *refused = world.told()
    assert [one.error_code for one in refused] == [ErrorCode.UNSUPPORTED_VERSION] * 2
    (said,) = caplog.messages
    assert said.startswith(why)


def up_to_the_question(world):
    """Somebody asks for something, and the other broker is asked what it serves, behind the proofs."""
    world.ask()
    world.way.take_actions()
    world.way.opened(0)
    world.answer(world.sent()[0], SaslAuthenticateResponse())
    (last, _), (question, _) = world.all_sent()
    world.answer(last, SaslAuthenticateResponse())
    return question


def test_one_that_does_not_know_this_question_is_asked_again(world):
    question = up_to_the_question(world)
    refusal = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(ApiKey.API_VERSIONS, 0, 2)])
    question.api_version = 0  # the form in which it says so
    world.answer(question, refusal)
    question, _ = world.sent()
    assert question.api_version == 2
    world.answer(question, told({ApiKey.LIST_OFFSETS: (1, 6)}))
    assert world.sent()[0].api_version == 6


def test_one_that_does_not_say_what_it_serves_is_let_go(world):
    question = up_to_the_question(world)
    world.answer(question, ApiVersionsResponse(ErrorCode.INVALID_REQUEST))
    assert world.told() == [None]
    assert world.way.take_actions() == [Close()]


def test_each_connection_asks_anew_for_it_may_be_another_release():
    world = World()
    world.up({**SERVED, ApiKey.LIST_OFFSETS: (1, 6)})
    assert world.sent()[0].api_version == 6
    world.way.lost("restarted", 0)
    world.advance(BACKOFF_MS)
    world.up()
    assert world.sent()[0].api_version == SERVED[ApiKey.LIST_OFFSETS][1]


def test_what_is_sent_on_in_an_earlier_version_is_decoded_for_its_answer_is_another():
    world = World(seals=True)
    world.up({**SERVED, ApiKey.LIST_OFFSETS: (1, 6)})
    world.answer(world.sent()[0], ListOffsetsResponse())
    world.told()
    world.ask(version=7)
    header, _ = world.sent()
    assert header.api_version == 6
    world.answer(header, ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t" * SEALED_BYTES_MIN)]))
    (large,) = world.told()
    assert large.topics[0].name == "t" * SEALED_BYTES_MIN
