from __future__ import annotations

import pytest

from barnabas.broker.account import Account
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.handlers.asked import UNKNOWN_MAX, Asked, weight
from barnabas.broker.handlers.sessions import PARTITION_BYTES, PER_CONNECTION_MAX, Fetching, FetchSessions
from barnabas.broker.metrics import MetricsRegistry
from barnabas.explain.stage import CountingEntropy
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)


class Sessions:
    def __init__(self, slots_max: int = 10) -> None:
        self.cache = FetchSessions(slots_max, CountingEntropy(), MetricsRegistry())
        self.now_ms = 0
        self.who: Who | None = None
        """Who asks; None: each time somebody else."""
        self.last = who(0)

    def begin(self, session: tuple[int, int], *partitions: int, forget: list[int] | None = None) -> Fetching:
        topics = [FetchTopic("t", partitions=[FetchPartition(one) for one in partitions])] if partitions else []
        forgotten = [ForgottenTopic("t", partitions=forget)] if forget else []
        request = FetchRequest(
            session_id=session[0], session_epoch=session[1], topics=topics, forgotten_topics_data=forgotten
        )
        self.last = self.who or who(self.last.connection.id + 1)
        return self.cache.begin(request, 12, self.last, self.now_ms)

    def finish(
        self, fetching: Fetching, *changes: PartitionData, privileged: bool = False, unknown: int = 0
    ) -> list[int] | None:
        """The partitions listed in the answer; those not among `changes` have nothing new."""
        told = {data.partition_index: data for data in changes}
        answers = [(asked, told.get(asked.partition, plain(asked))) for asked in list(fetching.asked.values())]
        listed = self.cache.finish(
            fetching,
            answers,
            self.last,
            privileged=privileged,
            unknown=unknown,
            uses_ids=False,
            now_ms=self.now_ms,
        )
        return None if listed is None else [asked.partition for asked, _ in listed]

    def open(self, *partitions: int, privileged: bool = False) -> int:
        fetching = self.begin((0, 0), *partitions)
        assert self.finish(fetching, privileged=privileged) == list(partitions)
        return fetching.session_id


class Who(RequestContext):
    def respond(self, response: object) -> None:
        raise AssertionError("sessions answer nobody")

    def close(self, reason: str) -> None:
        raise AssertionError("sessions close nothing")


def who(connection_id: int, address: str = "", client_id: str | None = None) -> Who:
    address = address or f"10.1.0.{connection_id}"
    return Who(Connection(connection_id, "PLAINTEXT", address, "kafka", 0), 1, 12, client_id or f"c{connection_id}")


def plain(asked: Asked) -> PartitionData:
    return PartitionData(asked.partition, 0, 5, 5, 0, records=b"")


def data(partition: int, **changes: object) -> PartitionData:
    answer = PartitionData(partition, 0, 5, 5, 0, records=b"")
    for name, value in changes.items():
        setattr(answer, name, value)
    return answer


def test_only_what_changed_is_listed() -> None:
    sessions = Sessions()
    session_id = sessions.open(0, 1, 2, 3, 4, 5)
    listed = sessions.finish(
        sessions.begin((session_id, 1)),
        data(0, records=b"x"),
        data(1, high_watermark=6),
        data(2, log_start_offset=1),
        data(3, preferred_read_replica=2),
        data(4, diverging_epoch=EpochEndOffset(0, 0)),
    )
    assert listed == [0, 1, 2, 3, 4]
    # What was told is remembered; partitions that gave records come last from now on.
    repeated = sessions.begin((session_id, 2))
    assert [one.partition for one in repeated.asked.values()] == [1, 2, 3, 4, 5, 0]
    assert sessions.finish(repeated, data(1, high_watermark=6), data(2, log_start_offset=1)) == []


def test_who_is_gone_by_the_time_of_the_answer_is_given_no_session() -> None:
    """Nobody would end it: a session ends with its connection, which has ended."""
    sessions = Sessions()
    fetching = sessions.begin((0, 0), 0, 1)
    sessions.last.connection.leave()
    assert sessions.finish(fetching) == [0, 1]
    assert fetching.session_id == 0
    assert not sessions.cache.sessions


def test_after_an_error_the_partition_is_told_again() -> None:
    sessions = Sessions()
    session_id = sessions.open(0, 1)
    for epoch in (1, 2):
        assert sessions.finish(sessions.begin((session_id, epoch)), data(0, error_code=6, high_watermark=-1)) == [0]
    assert sessions.finish(sessions.begin((session_id, 3))) == [0]
    assert sessions.finish(sessions.begin((session_id, 4))) == []


def test_partitions_join_and_leave() -> None:
    sessions = Sessions()
    session_id = sessions.open(0, 1)
    grown = sessions.begin((session_id, 1), 2, 0)
    assert [one.partition for one in grown.asked.values()] == [0, 1, 2]
    assert sessions.finish(grown) == [2]
    shrunk = sessions.begin((session_id, 2), forget=[0])
    assert [one.partition for one in shrunk.asked.values()] == [1, 2]
    emptied = sessions.begin((session_id, 3), forget=[1, 2])
    assert (emptied.session_id, emptied.error, sessions.cache.sessions) == (0, 0, {})


def test_epochs_must_follow_and_wrap() -> None:
    sessions = Sessions()
    session_id = sessions.open(0)
    assert sessions.begin((session_id, 2)).error == 71
    assert sessions.begin((session_id + 1, 1)).error == 70
    sessions.cache.sessions[session_id].epoch = 2**31 - 1
    assert sessions.begin((session_id, 2**31 - 1)).error == 0
    assert sessions.begin((session_id, 1)).error == 0


def test_a_full_request_closes_the_session_it_names() -> None:
    sessions = Sessions()
    first = sessions.open(0)
    second = sessions.begin((first, 0), 0)
    sessions.finish(second)
    assert second.session_id not in (0, first)
    last = sessions.begin((second.session_id, -1), 0)
    assert sessions.finish(last) == [0]
    assert (last.session_id, sessions.cache.sessions) == (0, {})


def test_an_answer_that_was_overtaken_is_no_answer() -> None:
    sessions = Sessions()
    session_id = sessions.open(0)
    parked = sessions.begin((session_id, 1))
    sessions.begin((session_id, 2))
    assert sessions.finish(parked) is None


def test_a_full_cache_evicts_the_unused_and_the_lesser() -> None:
    sessions = Sessions(slots_max=2)
    small, large = sessions.open(0), sessions.open(0, 1, 2)
    declined = sessions.begin((0, 0), 0, 1)
    sessions.finish(declined)
    assert declined.session_id == 0
    # Sessions in use give way to larger ones and to followers, once they are old enough.
    sessions.now_ms = 120_001
    for session_id in (small, large):
        sessions.finish(sessions.begin((session_id, 1)))
    replaced = sessions.begin((0, 0), 0, 1)
    sessions.finish(replaced)
    assert replaced.session_id != 0
    assert set(sessions.cache.sessions) == {large, replaced.session_id}
    # A session that nobody used for two minutes always goes first.
    sessions.now_ms += 120_001
    sessions.finish(sessions.begin((replaced.session_id, 1)))
    again = sessions.open(0)
    assert set(sessions.cache.sessions) == {replaced.session_id, again}


def test_no_slots_no_sessions() -> None:
    sessions = Sessions(slots_max=0)
    fetching = sessions.begin((0, 0), 0)
    assert sessions.finish(fetching) == [0]
    assert fetching.session_id == 0


def test_the_partitions_of_all_sessions_are_bounded_together(monkeypatch) -> None:
    monkeypatch.setattr("barnabas.broker.handlers.sessions.PARTITIONS_MAX", 5)
    sessions = Sessions()
    first, second = sessions.open(0, 1, 2), sessions.open(0, 1)
    third = sessions.begin((0, 0), 7)
    assert sessions.finish(third) == [7], "it is served"
    assert third.session_id == 0, "without a session"
    assert sessions.finish(sessions.begin((first, 1), 1)) == [], "what is known already takes no room"
    assert sessions.finish(sessions.begin((first, 2), 3, forget=[0])) == [3]
    assert sessions.begin((second, 1), 9).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert list(sessions.cache.sessions) == [first]


def test_a_connection_has_so_many_sessions_and_no_more() -> None:
    sessions = Sessions(slots_max=100)
    me = sessions.who = who(1)
    for _ in range(PER_CONNECTION_MAX):
        sessions.open(0)
    eleventh = sessions.begin((0, 0), 0)
    assert sessions.finish(eleventh) == [0], "it is served"
    assert eleventh.session_id == 0, "without a session"
    sessions.cache.disconnected(me.connection.id)
    assert not sessions.cache.sessions, "they go with their connection"
    assert sessions.open(0)


def test_one_client_and_one_address_leave_room_for_others() -> None:
    sessions = Sessions(slots_max=20)
    made = []
    for number in range(30):
        sessions.who = who(number, "10.0.0.1", "greedy")
        fetching = sessions.begin((0, 0), 0)
        sessions.finish(fetching)
        made.append(fetching.session_id != 0)
    assert made == [True] * 10 + [False] * 20, "half of the slots for one client id of one address"
    for number in range(30, 60):
        sessions.who = who(number, "10.0.0.1")
        sessions.finish(sessions.begin((0, 0), 0))
    assert len(sessions.cache.sessions) == 18, "nine tenths for one address"
    sessions.who = who(60, "10.0.0.2")
    assert sessions.open(0)


@pytest.mark.parametrize("network", ["127.{}.{}.1", "2001:db8::{:x}:{:x}"])
def test_the_addresses_of_one_machine_are_one(network: str) -> None:
    """Each of 127.0.0.0/8, or of an IPv6 network, had nine tenths of its own: two of them took all sessions."""
    sessions = Sessions(slots_max=20)
    for number in range(40):
        sessions.who = who(number, network.format(number % 2, number), "greedy")
        sessions.finish(sessions.begin((0, 0), 0))
    assert len(sessions.cache.sessions) == 10, "half of the slots for one client id"
    for number in range(40, 80):
        sessions.who = who(number, network.format(number % 2, number))
        sessions.finish(sessions.begin((0, 0), 0))
    assert len(sessions.cache.sessions) == 18, "nine tenths for one machine"
    sessions.who = who(80, "10.0.0.2")
    assert sessions.open(0)


def test_a_session_follows_who_uses_it() -> None:
    sessions = Sessions()
    session_id = sessions.open(0)
    first = sessions.last
    sessions.finish(sessions.begin((session_id, 1)))  # over another connection
    sessions.cache.disconnected(first.connection.id)
    assert sessions.begin((session_id, 2)).error == 0
    sessions.cache.disconnected(sessions.last.connection.id)
    assert sessions.begin((session_id, 3)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_partitions_that_nobody_knows_do_not_fill_the_cache() -> None:
    sessions = Sessions()
    few = sessions.begin((0, 0), 0)
    sessions.finish(few, unknown=UNKNOWN_MAX)
    assert few.session_id != 0
    more = sessions.begin((0, 0), 1)
    assert sessions.finish(more, unknown=1) == [1]
    assert more.session_id == 0
    known = sessions.open(2)
    grown = sessions.begin((known, 1), 3)
    sessions.finish(grown, unknown=1)
    assert grown.session_id == 0
    assert known not in sessions.cache.sessions


def test_a_name_that_no_topic_can_have_is_not_remembered() -> None:
    assert weight(Asked(FetchTopic("n" * 249), FetchPartition(0))) == 1
    assert weight(Asked(FetchTopic("n" * 250), FetchPartition(0))) > UNKNOWN_MAX


def test_what_a_session_evicts_is_told_from_what_it_keeps() -> None:
    """The least of those that have had their time: no follower before a consumer, no large one before a small one."""
    sessions = Sessions(slots_max=3)
    follower = sessions.open(0, privileged=True)
    sessions.now_ms = 1
    large, small = sessions.open(0, 1, 2), sessions.open(0, 1)
    sessions.now_ms = 120_002
    for session_id in (small, large, follower):
        sessions.finish(sessions.begin((session_id, 1)))
    newest = sessions.open(0, 1, 2, 3)
    assert set(sessions.cache.sessions) == {follower, large, newest}
    second = sessions.begin((0, 0), 0, 1, 2, 3)
    sessions.finish(second)
    assert set(sessions.cache.sessions) == {follower, newest, second.session_id}
    declined = sessions.begin((0, 0), *range(9))
    sessions.finish(declined)
    assert declined.session_id == 0, "those left are a follower's, and too young"


def test_a_watermark_told_beside_an_error_is_told_again() -> None:
    sessions = Sessions()
    session_id = sessions.open(0)
    assert sessions.finish(sessions.begin((session_id, 1)), data(0, error_code=5)) == [0]
    assert sessions.finish(sessions.begin((session_id, 2)), data(0)) == [0], "the error is over"
    assert sessions.finish(sessions.begin((session_id, 3)), data(0)) == []


def test_the_account_hears_of_what_sessions_keep() -> None:
    account = Account()
    sessions = Sessions()
    sessions.cache = FetchSessions(10, CountingEntropy(), MetricsRegistry(), account)
    session_id = sessions.open(0, 1)
    first = sessions.last.connection.id
    assert account.held_by(first) == 3 * PARTITION_BYTES
    sessions.finish(sessions.begin((session_id, 1), 2))
    assert (account.held_by(first), account.total) == (0, 4 * PARTITION_BYTES)
    sessions.finish(sessions.begin((session_id, 2), forget=[0, 1]))
    assert account.total == 2 * PARTITION_BYTES
    sessions.cache.disconnected(sessions.last.connection.id)
    assert account.total == 0


def test_the_account_hears_of_a_long_client_id() -> None:
    """A thousand sessions of the native dialect held 1.7 GB of them."""
    account = Account()
    sessions = Sessions()
    sessions.cache = FetchSessions(10, CountingEntropy(), MetricsRegistry(), account)
    sessions.who = who(1, client_id="c" * 32_767)
    sessions.open(0, 1)
    assert account.held_by(1) > 32_767
    sessions.cache.disconnected(1)
    assert account.total == 0
