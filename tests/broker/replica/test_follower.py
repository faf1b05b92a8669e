"""A follower's way, story by story: three brokers with a partition each has a replica of, led by broker 1 at first."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.types import EpochEnd
from barnabas.broker.replica import FetchInfo, FetchParams
from barnabas.broker.replica.divergence import cut_at
from barnabas.broker.replica.follower import BACKOFF_MS, MOVES, Follower, Stage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER
from barnabas.protocol.requests.fetch import EpochEndOffset, FetchRequest, FetchResponse
from barnabas.protocol.requests.list_offsets import ListOffsetsRequest
from tests.broker.replica.brokers import Cluster, P
from tests.broker.replica.world import Answer


@pytest.fixture
def cluster():
    made = Cluster()
    made.settle()
    return made


def parts(answer):
    """All partitions of a Fetch answer."""
    return [part for topic in answer.responses for part in topic.partitions]


def requests_of(cluster):
    """What arrives from now on: (who asks, request)."""
    seen = []
    cluster.on_request = lambda sender, request: seen.append((sender.broker_id, request))
    return seen


def answering(cluster, change):
    """Have `change(part)` touch every partition of every Fetch answer from now on."""

    def on_answer(response):
        if isinstance(response, FetchResponse):
            for part in parts(response):
                change(part)
        return response

    cluster.on_answer = on_answer


def tail_of_its_own(cluster, broker, *values):
    """The leader `broker` writes what nobody fetches, and another is elected that it has not heard of."""
    others = {one for one in cluster.brokers if one != broker}
    cluster.silent |= others | {broker}
    for value in values:
        cluster.brokers[broker].produce(value, acks=1)
    cluster.elect(min(others))
    for one in others:
        cluster.hear(one)


def left_behind(cluster, broker):
    """A broker hears nothing for so long that the others go on without it."""
    cluster.silent = {broker}
    cluster.advance(cluster.brokers[1].manager.shared.config.replica_lag_time_max_ms + 1)
    cluster.shrink(*[one for one in cluster.brokers if one != broker])
    for one in set(cluster.brokers) - {broker}:
        cluster.hear(one)


# Following


def test_acks_all_is_answered_when_every_follower_has_asked_for_what_comes_next(cluster):
    answer = cluster.brokers[1].produce(b"a", b"b")
    assert cluster.high_watermarks() == {1: 0, 2: 0, 3: 0}
    while not answer.there:
        assert cluster.high_watermarks()[1] == 0
        cluster.deliver()
    assert (answer.codes, cluster.ends(), cluster.high_watermarks()[1]) == ([0], {1: 2, 2: 2, 3: 2}, 2)
    assert cluster.brokers[2].batches() == cluster.brokers[3].batches() == cluster.brokers[1].batches()


def test_a_follower_knows_the_high_watermark_one_fetch_later_and_then_its_readers_do(cluster):
    waiting = Answer()
    params = FetchParams(max_wait_ms=60_000, min_bytes=1)
    cluster.brokers[2].manager.fetch(params, [(P(0), FetchInfo(fetch_offset=0))], waiting, 0)
    cluster.brokers[1].produce(b"a")
    cluster.settle()
    assert cluster.high_watermarks() == {1: 1, 2: 0, 3: 0}
    assert not waiting.there
    cluster.advance(500)
    assert cluster.high_watermarks() == {1: 1, 2: 1, 3: 1}
    assert len(waiting.one.records) > 0


def test_who_hears_of_more_that_is_committed_than_it_has_takes_its_own_end_for_that(cluster):
    """A follower that is far behind, which is given a piece at a time."""
    answering(cluster, lambda part: setattr(part, "high_watermark", 99))
    for value in (b"a", b"b"):
        cluster.brokers[1].produce(value)
        cluster.settle()
        assert cluster.high_watermarks() == cluster.ends()
    assert cluster.ends() == {1: 2, 2: 2, 3: 2}


def test_how_long_a_leader_keeps_the_request_is_a_setting():
    cluster = Cluster(replica_fetch_wait_max_ms=2000)
    cluster.settle()
    cluster.brokers[1].produce(b"a")
    cluster.settle()
    cluster.advance(1999)
    assert cluster.high_watermarks() == {1: 1, 2: 0, 3: 0}, "nothing new, and nothing is answered yet"
    cluster.advance(1)
    assert cluster.high_watermarks() == {1: 1, 2: 1, 3: 1}


def test_a_follower_that_is_silent_holds_up_acks_all_until_it_is_back(cluster):
    cluster.silent.add(3)
    answer = cluster.brokers[1].produce(b"a")
    cluster.advance(10_000)
    assert not answer.there
    assert cluster.ends() == {1: 1, 2: 1, 3: 0}
    cluster.silent.clear()
    cluster.settle()
    assert answer.codes == [0]


def test_it_says_who_it_is_and_what_it_has(cluster):
    seen = requests_of(cluster)
    cluster.brokers[1].produce(b"a", b"b")
    cluster.settle()
    fetches = [request for broker, request in seen if broker == 2]
    assert all(isinstance(one, FetchRequest) for one in fetches)
    last = fetches[-1]
    assert (last.replica_state.replica_id, last.replica_state.replica_epoch) == (2, 0)
    (part,) = last.topics[0].partitions
    assert (part.fetch_offset, part.last_fetched_epoch, part.current_leader_epoch, part.log_start_offset) == (
        2,
        0,
        0,
        0,
    )


def test_who_was_given_records_goes_to_the_end_of_the_line():
    """An answer holds little more than one batch: every partition has its turn."""
    cluster = Cluster(partitions=3)
    cluster.settle()
    seen = requests_of(cluster)
    for number in range(3):
        cluster.brokers[1].produce(b"x", acks=1, partition=number)
    cluster.silent = {3}
    cluster.settle()
    orders = [[part.partition for topic in one.topics for part in topic.partitions] for _, one in seen]
    assert orders[-1] == [0, 1, 2]
    cluster.brokers[1].produce(b"y", acks=1, partition=1)
    cluster.settle()
    orders = [[part.partition for topic in one.topics for part in topic.partitions] for _, one in seen]
    assert orders[-1] == [0, 2, 1]


def test_a_broker_without_peers_follows_nobody_and_one_that_leads_all_has_nothing_to_say(cluster):
    assert cluster.brokers[1].manager.snapshot(0)["following"] == []
    follower = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 0, "stage": "fetching", "fetch_offset": 0}
    assert cluster.brokers[2].manager.snapshot(0)["following"] == [follower]


# Cutting


def test_a_tail_that_only_the_old_leader_has_is_cut_when_it_follows(cluster, caplog):
    caplog.set_level(logging.INFO)
    cluster.brokers[1].produce(b"a", b"b")
    cluster.settle()
    tail_of_its_own(cluster, 1, b"lost", b"lost, too")
    cluster.brokers[2].produce(b"c", acks=1)
    assert cluster.ends() == {1: 4, 2: 3, 3: 2}
    cluster.silent.clear()
    cluster.hear(1)
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.ends() == cluster.high_watermarks() == {1: 3, 2: 3, 3: 3}
    assert cluster.brokers[1].batches() == cluster.brokers[2].batches()
    assert cluster.brokers[1].log().epochs.entries == [(0, 0), (1, 2)]
    assert cluster.brokers[2].log().end_offset_for_epoch(0) == EpochEnd(0, 2), "where they parted"
    assert "behind broker 2 in epoch 1: cut from 4 to 2: its leader's epoch 0 ended at 2" in caplog.text
    assert cluster.brokers[1].logs.losses.count == 0, "nothing of it was committed"


def test_epochs_that_the_new_leader_never_had_are_taken_away_one_by_one(cluster):
    """1 writes in epochs 0, 2 and 4 what nobody has, 2 in 1 and 3: there is more than one place where they part."""
    for leader in (1, 2, 1, 2, 1):
        if leader != 1 or cluster.leader() != 1:
            cluster.elect(leader)
        cluster.silent = {1, 2, 3}
        cluster.hear(leader)
        cluster.brokers[leader].produce(b"%d" % leader, acks=1)
        if leader == 1:
            cluster.brokers[leader].produce(b"more", acks=1)
    assert cluster.brokers[1].log().epochs.entries == [(0, 0), (2, 2), (4, 4)]
    assert cluster.brokers[2].log().epochs.entries == [(1, 0), (3, 1)]
    cluster.elect(2)
    cluster.silent.clear()
    cluster.hear_all()
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.brokers[1].batches() == cluster.brokers[2].batches() == cluster.brokers[3].batches()
    assert cluster.ends() == cluster.high_watermarks() == {1: 2, 2: 2, 3: 2}


def test_an_epoch_in_which_nothing_was_written_does_not_keep_them_apart(cluster):
    """2 led for a moment: it follows again, in another epoch, with an end that is its leader's."""
    cluster.brokers[1].produce(b"a")
    cluster.settle()
    cluster.elect(2)
    cluster.hear(2)
    cluster.elect(1)
    cluster.hear_all()
    cluster.brokers[1].produce(b"b", acks=1)
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.ends() == cluster.high_watermarks() == {1: 2, 2: 2, 3: 2}
    assert cluster.brokers[2].log().epochs.entries == [(0, 0), (2, 1)]


def test_what_was_committed_and_is_cut_all_the_same_is_told_as_a_loss(cluster, caplog):
    """A leader that has not what others have: beyond what a cluster promises, and so said."""
    cluster.brokers[1].produce(b"a", b"b")
    cluster.advance(500)
    cluster.brokers[3].log().truncate_fully_and_start_at(0)
    cluster.elect(3)
    cluster.hear_all()
    with caplog.at_level(logging.WARNING):
        cluster.advance(2 * BACKOFF_MS)
    assert cluster.ends() == {1: 0, 2: 0, 3: 0}
    losses = cluster.brokers[1].logs.losses
    assert (losses.last[0].partition, losses.last[0].first_offset, losses.last[0].end_offset) == ("t-0", 0, 2)
    assert (losses.count, losses.size > 0) == (1, True)
    assert "loss: t-0: cut to its leader's log, broker 3's, which does not have them" in caplog.text


def test_a_cut_that_waits_for_bytes_is_forgotten_when_the_metadata_goes_on():
    cluster = Cluster(late=True)
    cluster.settle()
    cluster.brokers[1].produce(b"a", b"b")
    cluster.settle()
    tail_of_its_own(cluster, 1, b"tail")
    cluster.silent = {3}
    cluster.hear(1)
    while cluster.stages().get(1) != "cutting":
        cluster.deliver(next(i for i, one in enumerate(cluster.network) if one.target not in cluster.silent))
    cluster.elect(1)
    cluster.hear(1)
    cluster.silent.clear()
    cluster.hear_all()
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.ends() == {1: 3, 2: 3, 3: 3}, "who leads now keeps what it has"


@pytest.mark.parametrize(
    ("entries", "end", "told", "cut"),
    [
        ([(1, 0), (2, 7)], 9, (1, 5), 5),  # both have epoch 1, the leader's was shorter
        ([(1, 0), (2, 4)], 9, (1, 7), 4),  # ours was shorter: from its end on another epoch's records lie here
        ([(0, 0), (2, 3)], 9, (1, 5), 3),  # no epoch 1 here
        ([(3, 2), (5, 4)], 9, (1, 5), 2),  # all that is here is younger
        ([(1, 0)], 9, (1, 12), 9),  # nothing to cut
        ([], 9, (1, 5), 5),  # nothing is known here
        ([(1, 0)], 9, (4, 5), 5),  # an epoch that no honest leader names
    ],
)
def test_where_a_log_is_cut(entries, end, told, cut):
    assert cut_at(LeaderEpochs(entries).end_offset_for(told[0], end), end, EpochEnd(*told)) == cut


# Out of range


def test_a_leader_that_begins_behind_our_end_is_followed_from_there(cluster, caplog):
    caplog.set_level(logging.INFO)
    left_behind(cluster, 3)
    for number in range(4):
        cluster.brokers[1].produce(b"%d" % number)
        cluster.settle()
    cluster.brokers[1].delete_records(3)
    cluster.silent.clear()
    seen = requests_of(cluster)
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.brokers[3].log().log_start_offset == 3
    assert cluster.ends() == {1: 4, 2: 4, 3: 4}
    assert [one.topics[0].partitions[0].timestamp for _, one in seen if isinstance(one, ListOffsetsRequest)] == [-1, -2]
    assert "t-0, behind broker 1 in epoch 0: begins anew at 3, where its leader's log does" in caplog.text
    assert cluster.brokers[3].logs.losses.count == 0


def test_a_leader_that_begins_in_the_midst_of_a_batch_is_followed_from_its_beginning(cluster):
    left_behind(cluster, 3)
    cluster.brokers[1].produce(b"0", b"1", b"2", b"3")
    cluster.settle()
    cluster.brokers[1].delete_records(2)
    cluster.silent.clear()
    cluster.advance(2 * BACKOFF_MS)
    log = cluster.brokers[3].log()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 4, 4)


@pytest.mark.parametrize("killed", [False, True])
def test_a_batch_of_the_leader_that_holds_our_end_takes_the_place_of_what_is_here(cluster, killed):
    """What 1 wrote last as a leader ends where 2's log begins, in the midst of a batch: no epoch tells them apart."""
    cluster.silent = {1, 2, 3}
    cluster.brokers[1].produce(b"of epoch 0", acks=1)
    cluster.elect(2)
    cluster.shrink(2)
    cluster.hear(2)
    cluster.advance(cluster.brokers[2].manager.shared.config.replica_lag_time_max_ms + 1)
    assert cluster.brokers[2].produce(b"of epoch 1", b"of epoch 1").codes == [0]
    cluster.brokers[2].delete_records(1)
    assert cluster.brokers[2].log().epochs.entries == [(1, 1)]
    if killed:
        cluster.restart(2)
        assert cluster.brokers[2].log().log_start_offset == 0, "deleted records come back until they are deleted again"
    cluster.silent.clear()
    cluster.hear_all()
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.ends() == {1: 2, 2: 2, 3: 2}
    assert cluster.brokers[1].batches() == cluster.brokers[2].batches() == cluster.brokers[3].batches()
    assert cluster.brokers[1].logs.losses.count == 0, "nothing of it was committed"


def test_a_batch_that_begins_below_what_is_committed_here_cuts_nothing(cluster, caplog):
    """A wrong bit in the place of a batch, which its sum does not cover."""
    cluster.brokers[1].produce(b"a", b"b")
    cluster.advance(500)

    def misplace(part):
        if part.records:
            part.records = bytearray(part.records)
            part.records[:8] = (1).to_bytes(8, "big")

    answering(cluster, misplace)
    cluster.brokers[1].produce(b"c", b"d", acks=1)
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.ends() == {1: 4, 2: 2, 3: 2}
    assert caplog.text.count("its leader's batch at 1 begins below what is committed here") == 2
    cluster.on_answer = lambda response: response
    cluster.advance(BACKOFF_MS)
    assert cluster.ends() == {1: 4, 2: 4, 3: 4}


def test_deleted_records_are_hidden_at_followers_too(cluster):
    cluster.brokers[1].produce(b"a", b"b", b"c")
    cluster.advance(500)
    cluster.brokers[1].delete_records(2)
    cluster.advance(500)
    assert [one.log().log_start_offset for one in cluster.brokers.values()] == [2, 2, 2]


def test_a_log_out_of_range_that_is_not_is_asked_for_again_later(cluster, caplog):
    """Whatever a leader answers, nobody asks it without end."""

    def out_of_range(part):
        part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE

    answering(cluster, out_of_range)
    seen = requests_of(cluster)
    cluster.brokers[1].produce(b"a", acks=1)
    cluster.advance(5 * BACKOFF_MS)
    assert 10 <= len([one for one in seen if isinstance(one[1], FetchRequest)]) <= 16
    assert caplog.text.count("out of range, and begins and ends around it") == 2


def test_a_leader_that_ends_before_us_and_knows_none_of_our_epochs_is_asked_where_it_ends(cluster):
    """It was elected from outside, and its log knows no epoch: there is nothing but its end to go by."""
    cluster.brokers[1].produce(b"a", acks=1)
    cluster.settle()
    cluster.brokers[1].produce(b"b", acks=1)
    cluster.settle()
    leader = cluster.brokers[3]
    leader.log().truncate_to(1)
    cluster.elect(3)
    cluster.hear(3)
    leader.log().epochs = LeaderEpochs()
    seen = requests_of(cluster)
    cluster.hear_all()
    cluster.advance(BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}
    asked = [one.topics[0].partitions[0].timestamp for _, one in seen if isinstance(one, ListOffsetsRequest)]
    assert asked[:2] == [-1, -1], "each that follows asks for the leader's end, and cuts there"


@pytest.mark.parametrize(
    ("code", "stage"),
    [(ErrorCode.FENCED_LEADER_EPOCH, "parked"), (ErrorCode.UNKNOWN_LEADER_EPOCH, "asking_end")],
)
def test_a_question_for_an_offset_is_refused_as_a_fetch_is(cluster, code, stage):
    def on_answer(response):
        if isinstance(response, FetchResponse):
            for part in parts(response):
                part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            response.topics[0].partitions[0].error_code = code
        return response

    cluster.on_answer = on_answer
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.stages() == {2: stage, 3: stage}


def test_a_disk_that_has_no_room_for_a_new_beginning_is_asked_again(cluster, caplog):
    left_behind(cluster, 3)
    for _ in range(3):
        cluster.brokers[1].produce(b"x")
        cluster.settle()
    cluster.brokers[1].delete_records(3)
    disk = cluster.brokers[3].disk
    disk.faults.refuse(1, 1000)
    cluster.silent.clear()
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.stages()[3] == "asking_start"
    assert cluster.ends()[3] == 0
    disk.faults.refuse(1, 0)
    cluster.advance(2 * BACKOFF_MS)
    assert (cluster.ends()[3], cluster.stages()[3]) == (3, "fetching")


# Epochs


def test_a_leader_in_a_later_epoch_parks_it_until_it_hears_of_that(cluster):
    cluster.elect(1)
    cluster.hear(1)
    cluster.advance(500)
    assert cluster.stages() == {2: "parked", 3: "parked"}
    seen = requests_of(cluster)
    cluster.advance(10_000)
    assert not seen, "nobody asks in an epoch that is over"
    cluster.hear(2)
    cluster.advance(1)
    assert cluster.stages() == {2: "fetching", 3: "parked"}
    assert {broker for broker, _ in seen} == {2}


def test_a_leader_that_has_not_heard_of_its_epoch_yet_is_asked_again(cluster, caplog):
    caplog.set_level(logging.INFO)
    cluster.elect(2)
    cluster.hear(3)
    cluster.settle()
    assert cluster.stages()[3] == "fetching"
    assert "its leader answers UNKNOWN_LEADER_EPOCH" in caplog.text
    assert not [one for one in caplog.records if one.levelno > logging.INFO], "that is no fault"
    cluster.hear_all()
    cluster.brokers[2].produce(b"a", acks=1)
    cluster.advance(BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}


def test_an_answer_that_comes_in_a_later_epoch_is_dropped(cluster):
    cluster.brokers[1].produce(b"of epoch 0", acks=1)
    assert [one.target for one in cluster.network] == [2, 3], "answers with the record are on their way"
    cluster.elect(2)
    cluster.hear_all()
    cluster.brokers[2].produce(b"of epoch 1", acks=1)
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.brokers[3].batches() == cluster.brokers[2].batches()


def test_who_leads_or_has_no_leader_follows_nobody(cluster):
    cluster.elect(2)
    cluster.hear_all()
    assert sorted(cluster.stages()) == [1, 3]
    cluster.elect(NO_LEADER)
    cluster.hear_all()
    assert cluster.stages() == {}
    assert cluster.brokers[3].produce(b"a", acks=1).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_change_within_the_epoch_leaves_it_on_its_way(cluster):
    """The same follower goes on: what it was answered meanwhile counts."""
    cluster.brokers[1].produce(b"a", acks=1)
    seen = requests_of(cluster)
    assert cluster.truth.topics["t"].partitions[0].isr == (1, 2, 3)
    cluster.shrink(1, 2)
    cluster.hear_all()
    cluster.settle()
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}
    assert all(one.topics[0].partitions[0].fetch_offset == 1 for _, one in seen)


# The disk


def test_with_a_sync_asked_for_nothing_is_asked_for_before_it_is_done():
    cluster = Cluster(flush_messages=1)
    cluster.settle()
    answer = cluster.brokers[1].produce(b"a")
    cluster.brokers[1].disk_answers()
    for _ in range(10):
        while cluster.network:
            cluster.deliver()
        cluster.brokers[2].drain()
    assert cluster.ends()[2] == 1
    assert cluster.brokers[2].log().recovery_point == 0
    assert not answer.there, "no follower has said that it has it"
    cluster.settle()
    assert answer.codes == [0]
    assert cluster.brokers[2].log().recovery_point == 1


def test_what_a_follower_had_not_synced_does_not_count_when_it_leads():
    cluster = Cluster(flush_messages=1)
    cluster.settle()
    answer = cluster.brokers[1].produce(b"a")

    def go_on(*with_disks: int) -> None:
        for _ in range(20):
            for one in with_disks:
                cluster.brokers[one].disk_answers()
            while cluster.network:
                cluster.deliver()
            for broker in cluster.brokers.values():
                broker.drain()

    go_on(1, 3)
    assert (cluster.ends(), cluster.brokers[2].log().recovery_point) == ({1: 1, 2: 1, 3: 1}, 0)
    cluster.elect(2)
    cluster.hear_all()
    go_on(1, 3)
    assert cluster.high_watermarks()[2] == 0, "power may still take it from the leader"
    go_on(1, 2, 3)
    assert cluster.brokers[2].log().recovery_point == 1
    cluster.advance(1000)
    assert set(cluster.high_watermarks().values()) == {1}
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_sync_that_fails_ends_it_and_leaves_the_others(caplog):
    cluster = Cluster(flush_messages=1)
    cluster.settle()
    cluster.brokers[2].disk.fail_syncs = 1
    answer = cluster.brokers[1].produce(b"a")
    with caplog.at_level(logging.ERROR):
        cluster.advance(5000)
    assert cluster.stages() == {2: "halted", 3: "fetching"}
    assert not answer.there
    assert "stopped for good" in caplog.text


def test_a_full_disk_is_tried_again_until_there_is_room(cluster, caplog):
    disk = cluster.brokers[2].disk
    disk.capacity = disk.used
    answer = cluster.brokers[1].produce(b"a" * 100)
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 0, 3: 1}
    assert not answer.there
    assert caplog.text.count("no space left on device") == 1, "said once"
    disk.capacity = None
    cluster.advance(BACKOFF_MS)
    assert answer.codes == [0]


def test_a_disk_that_cannot_cut_is_asked_again(cluster):
    cluster.brokers[1].produce(b"a")
    cluster.settle()
    tail_of_its_own(cluster, 1, b"tail")
    disk = cluster.brokers[1].disk
    disk.faults.refuse(1, 1000)
    cluster.silent.clear()
    cluster.hear(1)
    cluster.advance(3 * BACKOFF_MS)
    assert (cluster.ends()[1], cluster.stages()[1]) == (2, "fetching")
    disk.faults.refuse(1, 0)
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("flush_messages", [1, 1000])
def test_a_broker_that_stops_takes_no_more_and_says_nothing_of_it(caplog, flush_messages):
    cluster = Cluster(flush_messages=flush_messages)
    cluster.settle()
    cluster.brokers[1].produce(b"a", acks=1)
    while cluster.ends()[2] == 0:
        cluster.deliver()
    cluster.brokers[2].log().begin_close()
    cluster.brokers[1].produce(b"b", acks=1)
    with caplog.at_level(logging.WARNING):
        cluster.advance(BACKOFF_MS)
    assert (cluster.ends()[2], cluster.stages()[2]) == (1, "halted")
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_log_without_epochs_begins_at_its_high_watermark(cluster):
    """Nobody can say of such records whose they are."""
    one = cluster.brokers[3]
    cluster.brokers[1].produce(b"a")
    cluster.advance(500)
    cluster.brokers[1].produce(b"b", acks=1)
    cluster.advance(1)
    assert (one.log().high_watermark, one.log().log_end_offset) == (1, 2)
    one.log().epochs = LeaderEpochs()
    seen = requests_of(cluster)
    cluster.elect(2)
    cluster.hear_all()
    cluster.settle()
    first = next(request for broker, request in seen if broker == 3)
    assert first.topics[0].partitions[0].fetch_offset == 1


# Answers that are wrong, or do not come


def test_a_batch_that_was_damaged_on_its_way_is_not_written(cluster, caplog):
    def damage(part):
        if part.records:
            part.records = bytearray(part.records)
            part.records[-1] ^= 1

    answering(cluster, damage)
    cluster.brokers[1].produce(b"a", acks=1)
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 0, 3: 0}
    assert caplog.text.count("the fetched batch at offset 0 is corrupt") == 2, "once for each that follows"
    cluster.on_answer = lambda response: response
    cluster.advance(BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}


def test_a_divergence_that_leaves_nothing_to_cut_is_asked_about_later(cluster, caplog):
    def nonsense(part):
        part.diverging_epoch = EpochEndOffset(0, 99)
        part.records = b""

    cluster.brokers[1].produce(b"a")
    cluster.advance(500)
    answering(cluster, nonsense)
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}
    assert caplog.text.count("leaves nothing to cut") == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda answer: setattr(answer, "error_code", 31), "broker 1 refuses to be followed"),
        (lambda answer: setattr(answer, "responses", []), "its leader's answer leaves it out"),
        (lambda answer: setattr(parts(answer)[0], "error_code", 4711), "its leader answers 4711"),
    ],
)
def test_an_answer_that_is_of_no_use_is_said_once_and_asked_for_again(cluster, caplog, change, said):
    def on_answer(response):
        change(response)
        return response

    cluster.on_answer = on_answer
    cluster.brokers[1].produce(b"a", acks=1)
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 0, 3: 0}
    assert caplog.text.count(said) == 2, "once for each that follows"
    cluster.on_answer = lambda response: response
    cluster.advance(BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}


def test_a_defect_of_ours_in_one_answer_ends_nothing(cluster, caplog, monkeypatch):
    def broken(self, data, now_ms):
        raise ValueError("a defect")

    cluster.brokers[1].produce(b"a", acks=1)
    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL + 1):
        patched.setattr(Follower, "take", broken)
        cluster.settle()
    assert cluster.ends() == {1: 1, 2: 0, 3: 0}
    cluster.advance(BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}


def test_a_leader_that_does_not_answer_is_asked_again_after_a_while(cluster, caplog):
    caplog.set_level(logging.INFO)
    seen = requests_of(cluster)
    cluster.brokers[1].produce(b"a", acks=1)
    while cluster.network:
        cluster.lose()
    cluster.advance(BACKOFF_MS - 1)
    assert not seen
    cluster.advance(1)
    assert cluster.ends() == {1: 1, 2: 1, 3: 1}
    assert caplog.text.count("broker 1 does not answer; it is asked again every 1000 ms") == 2
    assert caplog.text.count("broker 1 answers again") == 2


def test_every_stage_can_end_and_none_comes_back_from_its_end():
    assert set(MOVES) == set(Stage)
    assert all(Stage.OVER in after for stage, after in MOVES.items() if stage is not Stage.OVER)
    assert MOVES[Stage.OVER] == ()
