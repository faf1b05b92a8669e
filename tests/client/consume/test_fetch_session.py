"""Fetch sessions from the client's side: what each request tells, and what each answer leaves."""

from __future__ import annotations

from barnabas.client.consume.fetch_session import EPOCH_MAX, NAMES_ONLY_VERSION_MAX, FetchSession, Wanted
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest

ID, OTHER = b"i" * 16, b"o" * 16
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def want(offset: int, topic_id: bytes = ID) -> Wanted:
    return Wanted(topic_id, offset, 0, 100)


def told(session: FetchSession, wanted: dict[TopicPartition, Wanted]) -> tuple[dict[TopicPartition, int], list[str]]:
    request = FetchRequest()
    session.fill(request, wanted)
    assert (request.session_id, request.session_epoch) == (session.id, session.epoch)
    offsets = {
        TopicPartition(topic.topic, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }
    gone = [f"{topic.topic}-{number}" for topic in request.forgotten_topics_data for number in topic.partitions]
    return offsets, gone


def opened() -> FetchSession:
    session = FetchSession()
    assert told(session, {A0: want(1), A1: want(2)}) == ({A0: 1, A1: 2}, [])
    assert session.answered(0, 77)
    assert (session.id, session.epoch) == (77, 1)
    return session


def test_only_what_changed_is_told() -> None:
    session = opened()
    assert told(session, {A0: want(5), A1: want(2), B0: want(0)}) == ({A0: 5, B0: 0}, [])
    assert session.answered(0, 77)
    assert session.epoch == 2
    assert told(session, {A0: want(5)}) == ({}, ["a-1", "b-0"])
    assert session.answered(0, 77)
    assert told(session, {A0: want(5), A1: want(2)}) == ({A1: 2}, [])


def test_a_recreated_topic_is_forgotten_under_its_old_id() -> None:
    session = opened()
    assert told(session, {A0: want(0, OTHER), A1: want(2)}) == ({A0: 0}, ["a-0"])


def test_without_topic_ids_names_must_be_sent() -> None:
    assert FetchSession().fill(FetchRequest(), {A0: want(0, ZERO_UUID)}) == NAMES_ONLY_VERSION_MAX
    assert FetchSession().fill(FetchRequest(), {A0: want(0)}) is None


def test_a_declined_session_asks_for_everything_again() -> None:
    session = FetchSession()
    told(session, {A0: want(1)})
    assert session.answered(0, 0)
    assert told(session, {A0: want(1)}) == ({A0: 1}, [])
    assert (session.id, session.epoch) == (0, 0)


def test_a_session_the_broker_let_go_is_opened_anew() -> None:
    session = opened()
    assert session.answered(0, 0), "the answer itself counts"
    assert (session.id, session.epoch) == (0, 0)
    assert told(session, {A0: want(1)}) == ({A0: 1}, [])


def test_an_unknown_session_is_opened_anew() -> None:
    session = opened()
    assert not session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert (session.id, session.epoch) == (0, 0)


def test_other_trouble_closes_the_session_and_opens_another() -> None:
    for trouble in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None):
        session = opened()
        if trouble is None:
            session.lost()
        else:
            assert not session.answered(trouble, 0)
        assert (session.id, session.epoch) == (77, 0)
        assert told(session, {A0: want(3)}) == ({A0: 3}, [])


def test_after_the_last_epoch_comes_one() -> None:
    session = opened()
    session.epoch = EPOCH_MAX
    assert session.answered(0, 77)
    assert session.epoch == 1
