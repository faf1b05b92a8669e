"""The leader's replica state: high watermark, ISR, epochs (`Partition`, `Replica`, KIP-966)."""

from __future__ import annotations

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.ports import IsrAnswer
from barnabas.protocol.errors import ErrorCode
from tests.broker.replica.world import P, World

LAG_MS = 30_000
KEY = P(0)


def three(isr=(1, 2, 3), **settings) -> World:
    world = World(**settings)
    world.host(KEY, replicas=(1, 2, 3), isr=isr)
    return world


# High watermark


def test_one_replica_commits_with_the_append():
    world = World()
    world.host(KEY)
    assert world.produce(KEY).codes == [0]
    assert world.high_watermark(KEY) == 1


def test_the_high_watermark_is_the_minimum_of_the_isr_and_needs_each_followers_next_fetch():
    world = three()
    world.produce(KEY, acks=1)
    world.fetch({KEY: 0}, replica=2)
    world.fetch({KEY: 0}, replica=3)
    assert world.high_watermark(KEY) == 0  # they read offset 0: nobody knows yet that they have it
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 0
    world.caught_up(3, KEY)
    assert world.high_watermark(KEY) == 1


def test_a_new_leader_keeps_its_high_watermark_until_each_member_has_fetched():
    world = three()
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    world.caught_up(3, KEY)
    assert world.high_watermark(KEY) == 1
    world.produce(KEY, acks=1)
    world.host(KEY, leader=2, leader_epoch=2)
    world.host(KEY, leader=1, leader_epoch=3)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 1
    world.caught_up(3, KEY)
    assert world.high_watermark(KEY) == 2


def test_what_followers_told_before_another_led_counts_no_more():
    """3 had the second record, and has cut it as who follows 2 does: what it said of it in epoch 1 commits nothing."""
    world = three()
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    world.caught_up(3, KEY)
    world.produce(KEY, acks=1)
    world.caught_up(3, KEY)
    world.host(KEY, leader=2, leader_epoch=2)
    world.host(KEY, leader=1, leader_epoch=3)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 1
    world.caught_up(3, KEY)
    assert world.high_watermark(KEY) == 2


def test_becoming_leader_begins_the_epoch_at_the_log_end_without_any_record():
    world = three()
    world.produce(KEY, acks=1)
    world.host(KEY, leader_epoch=4)
    log = world.logs.logs[KEY]
    assert (log.epochs.entries, log.latest_epoch) == ([(1, 0), (4, 1)], 4)
    assert log.end_offset_for_epoch(1) == (1, 1)


def test_a_leader_that_stays_remembers_what_followers_told():
    world = three()
    world.caught_up(2, KEY)
    world.caught_up(3, KEY)
    world.host(KEY, leader_epoch=2)
    partition = world.manager.partition(KEY)
    assert partition is not None
    assert [remote.end.offset for remote in partition.remotes.values()] == [0, 0]


def test_a_caught_up_replica_outside_the_isr_holds_the_high_watermark_back():
    world = three(isr=(1, 2))
    world.caught_up(3, KEY)  # caught up and eligible: it may join any time
    world.answer_isr(ErrorCode.OPERATION_NOT_ATTEMPTED)  # no change is pending, the ISR alone would not wait for it
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 0
    world.caught_up(3, KEY)
    assert world.high_watermark(KEY) == 1


def test_a_replica_outside_the_isr_that_was_caught_up_too_long_ago_does_not_count():
    world = three(isr=(1, 2))
    world.caught_up(3, KEY)
    world.answer_isr(ErrorCode.OPERATION_NOT_ATTEMPTED)
    world.produce(KEY, acks=1)
    world.move(30_000)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 0
    world.move(1)
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 2


def test_a_lagging_replica_outside_the_isr_does_not_count():
    world = three(isr=(1, 2))
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 1
    world.fetch({KEY: 0}, replica=3, wait_ms=0)
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 2


def test_an_ineligible_replica_outside_the_isr_does_not_count():
    world = three(isr=(1, 2))
    world.cluster.dead.add(3)
    world.caught_up(3, KEY)
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 1


@pytest.mark.parametrize("acks", [0, 1])
def test_below_min_isr_the_high_watermark_stands_still_for_all_data(acks):
    world = World()
    world.topic_config = TopicConfig(min_insync_replicas=2)
    world.host(KEY, replicas=(1, 2, 3), isr=(1,))
    assert world.produce(KEY, acks=acks).codes == [0]
    assert world.high_watermark(KEY) == 0
    world.caught_up(2, KEY)
    world.answer_isr()
    assert world.isr(KEY) == (1, 2)
    assert world.high_watermark(KEY) == 1


def test_replication_1_with_min_insync_2_works():
    world = World()
    world.topic_config = TopicConfig(min_insync_replicas=2)
    world.host(KEY)
    assert world.produce(KEY).codes == [0]
    assert world.high_watermark(KEY) == 1


def test_the_high_watermark_of_a_leader_never_goes_back():
    world = three()
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    world.caught_up(3, KEY)
    world.fetch({KEY: 0}, replica=2, wait_ms=0)  # the follower lost its disk
    world.produce(KEY, acks=1)
    assert world.high_watermark(KEY) == 1


# acks


def test_acks_1_does_not_ask_for_min_isr_but_acks_all_does_and_writes_nothing():
    world = World()
    world.topic_config = TopicConfig(min_insync_replicas=2)
    world.host(KEY, replicas=(1, 2, 3), isr=(1,))
    assert world.produce(KEY, acks=1).codes == [0]
    assert world.produce(KEY, acks=-1).codes == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert world.end(KEY) == 1


def test_acks_1_answers_after_the_local_append():
    world = three()
    assert world.produce(KEY, acks=1).codes == [0]
    assert world.high_watermark(KEY) == 0


def test_other_acks_are_refused_on_every_partition():
    world = World()
    world.host(P(0))
    world.host(P(1))
    assert world.produce(P(0), P(1), acks=2).codes == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert world.end(P(0)) == 0


# Follower fetches


def test_a_stranger_is_refused_with_what_it_told():
    world = three()
    assert world.fetch({KEY: 0}, replica=9).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    told = world.fetch({KEY: 0}, replica=9, current_leader_epoch=1)
    assert told.codes == [ErrorCode.UNKNOWN_LEADER_EPOCH]


def test_a_fetch_of_an_older_incarnation_is_refused():
    world = three()
    world.caught_up(2, KEY, epoch=7, wait_ms=0)
    answer = world.caught_up(2, KEY, epoch=6, wait_ms=100)
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH), (1, 0), (-1, 0)]
)
def test_the_leader_epoch_of_a_fetch_is_checked(epoch, code):
    world = three()
    assert world.fetch({KEY: 0}, wait_ms=0, current_leader_epoch=epoch).codes == [code]


def test_a_diverging_fetch_tells_the_leader_nothing():
    world = three()
    world.produce(KEY, acks=1)
    world.host(KEY, leader_epoch=3)
    answer = world.fetch({KEY: 5}, replica=2, last_fetched_epoch=1)
    assert answer.codes == [0]
    assert answer.one.diverging_epoch == (1, 1)
    assert answer.one.records == b""
    partition = world.manager.partition(KEY)
    assert partition is not None
    assert partition.remotes[2].end.offset == -1


def test_an_undefined_epoch_is_out_of_range():
    world = three()
    world.produce(KEY, acks=1)
    answer = world.fetch({KEY: 1}, replica=2, last_fetched_epoch=9)
    assert answer.codes == [ErrorCode.OFFSET_OUT_OF_RANGE]


# Caught up, shrink, expand


def test_a_follower_at_the_leaders_end_never_leaves_however_long_idle():
    world = three()
    world.caught_up(2, KEY)
    world.caught_up(3, KEY)
    world.move(10 * LAG_MS)
    assert world.controller.pending == []


def test_a_silent_follower_leaves_within_1_to_1_5_times_the_lag():
    world = three()
    world.caught_up(2, KEY)
    world.caught_up(3, KEY)
    world.move(1000)
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    world.move(LAG_MS - 1000)  # 30,000: the task runs; 3 was last caught up at 0, 30,000 ago: not more than the lag
    assert world.controller.pending == []
    world.move(LAG_MS // 2)
    proposal = world.controller.pending[0][0]
    assert proposal.isr == (1, 2)
    assert (proposal.leader_epoch, proposal.partition_epoch, proposal.partition) == (1, 0, KEY)


def test_a_follower_that_keeps_up_with_a_moving_end_stays():
    """It never reaches the end, but at each fetch it asks for what was the end at its last one."""
    world = three(isr=(1, 2))
    for _ in range(20):
        end = world.end(KEY)
        world.produce(KEY, acks=1)
        world.fetch({KEY: end}, replica=2, wait_ms=0)
        world.move(LAG_MS // 4)
    assert world.controller.pending == []


def test_a_follower_that_fetches_but_stays_behind_leaves():
    world = three(isr=(1, 2))
    for _ in range(5):
        world.produce(KEY, acks=1)
    for _ in range(8):
        world.fetch({KEY: 1}, replica=2, wait_ms=0)
        world.move(LAG_MS // 4)
    assert world.controller.pending[0][0].isr == (1,)


def test_until_a_shrink_is_answered_the_old_isr_counts():
    world = three(isr=(1, 2))
    produced = world.produce(KEY, timeout_ms=10 * LAG_MS)
    world.move(2 * LAG_MS)
    assert not produced.there
    assert world.isr(KEY) == (1, 2)
    world.answer_isr()
    assert world.isr(KEY) == (1,)
    assert world.high_watermark(KEY) == 1
    assert produced.codes == [0]
    assert world.meter("ReplicaManager", "IsrShrinksPerSec") == 1


def test_one_change_is_pending_at_a_time():
    world = three(isr=(1, 2))
    world.produce(KEY, acks=1)
    world.move(2 * LAG_MS)
    assert len(world.controller.pending) == 1
    world.caught_up(3, KEY)  # would expand
    world.move(2 * LAG_MS)  # would shrink again
    assert len(world.controller.pending) == 1


def test_a_follower_rejoins_when_it_reaches_the_high_watermark_without_any_timer():
    world = three(isr=(1, 2))
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    world.produce(KEY, acks=1)
    world.fetch({KEY: 0}, replica=3, wait_ms=0)
    assert world.controller.pending == []
    world.fetch({KEY: 1}, replica=3, wait_ms=0)  # the high watermark, one below the end
    assert world.controller.pending[0][0].isr == (1, 2, 3)
    world.answer_isr()
    assert world.isr(KEY) == (1, 2, 3)
    assert world.meter("ReplicaManager", "IsrExpandsPerSec") == 1


def test_a_follower_below_this_epochs_start_does_not_rejoin():
    world = three(isr=(1, 2))
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    world.produce(KEY, acks=1)
    world.host(KEY, leader_epoch=2)  # starts at 2, the high watermark is 1
    world.fetch({KEY: 1}, replica=3, wait_ms=0)
    assert world.controller.pending == []
    world.fetch({KEY: 2}, replica=3, wait_ms=0)
    assert world.controller.pending[0][0].isr == (1, 2, 3)


def test_an_ineligible_follower_is_not_proposed():
    world = three(isr=(1, 2))
    world.cluster.epochs[3] = 8
    world.caught_up(3, KEY, epoch=7, wait_ms=0)
    assert world.controller.pending == []
    world.caught_up(3, KEY, epoch=8, wait_ms=0)
    assert len(world.controller.pending) == 1


def test_while_an_expand_is_pending_the_high_watermark_waits_for_the_new_member():
    world = three(isr=(1, 2))
    world.caught_up(3, KEY)
    world.produce(KEY, acks=1)
    world.move(LAG_MS * 2)  # 3 is not caught up any more, but it is in the maximal ISR
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 0
    world.answer_isr(ErrorCode.INELIGIBLE_REPLICA)  # back to the committed ISR
    assert world.isr(KEY) == (1, 2)
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 2


def test_a_new_member_that_is_refused_is_waited_for_no_longer():
    """A broker that stops left its ISRs, fetched once more, and was fenced: to take it in is proposed too late."""
    world = three(isr=(1, 2))
    world.cluster.epochs[3] = 7
    world.caught_up(3, KEY, epoch=7)
    produce = world.produce(KEY)
    world.cluster.epochs[3] = 8
    world.caught_up(2, KEY)
    assert world.high_watermark(KEY) == 0
    world.answer_isr(ErrorCode.INELIGIBLE_REPLICA)
    assert world.high_watermark(KEY) == 1
    assert produce.codes == [0]


# The controller's answers


@pytest.mark.parametrize("code", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_some_refusals_go_back_to_the_committed_isr_without_retry(code):
    world = three(isr=(1, 2))
    world.caught_up(3, KEY, wait_ms=0)
    world.answer_isr(code)
    world.move(200)
    assert world.controller.pending == []
    assert world.meter("ReplicaManager", "FailedIsrUpdatesPerSec") == 1
    world.caught_up(3, KEY, wait_ms=0)  # the next fetch proposes anew
    assert len(world.controller.pending) == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_other_refusals_stay_pending_until_new_metadata(code):
    world = three(isr=(1, 2))
    world.caught_up(3, KEY, wait_ms=0)
    world.answer_isr(code)
    world.move(200)
    world.caught_up(3, KEY, wait_ms=0)
    assert world.controller.pending == []
    world.host(KEY)
    world.caught_up(3, KEY, wait_ms=0)
    assert len(world.controller.pending) == 1


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_the_rest_is_tried_again_after_50_ms(code):
    world = three(isr=(1, 2))
    world.caught_up(3, KEY, wait_ms=0)
    first = world.answer_isr(code)
    world.move(49)
    assert world.controller.pending == []
    world.move(1)
    assert world.controller.pending[0][0] is first
    world.answer_isr()
    assert world.isr(KEY) == (1, 2, 3)


def test_an_answer_that_metadata_has_overtaken_is_dropped():
    world = three(isr=(1, 2))
    world.caught_up(3, KEY, wait_ms=0)
    world.host(KEY, isr=(1,))
    world.answer_isr(isr=(1, 2, 3))
    assert world.isr(KEY) == (1,)


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(5, 9), (0, 9), (1, -1)])
def test_an_answer_of_another_leader_epoch_or_an_older_state_is_not_adopted(leader_epoch, partition_epoch):
    world = three(isr=(1, 2))
    world.caught_up(3, KEY, wait_ms=0)
    _, done = world.controller.take()
    done(IsrAnswer(0, leader_epoch, partition_epoch, isr=(1, 2, 3)))
    world.manager.drain(world.now_ms)
    assert world.isr(KEY) == (1, 2)


def test_metadata_that_says_what_was_proposed_counts_as_its_answer():
    world = three(isr=(1, 2))
    world.caught_up(3, KEY, wait_ms=0)
    world.host(KEY, isr=(1, 2, 3))
    assert world.meter("ReplicaManager", "IsrExpandsPerSec") == 1
    world.answer_isr()
    assert world.meter("ReplicaManager", "IsrExpandsPerSec") == 1


def test_an_older_partition_epoch_is_ignored():
    world = three()
    world.host(KEY, isr=(1, 2))
    partition = world.manager.partition(KEY)
    assert partition is not None
    old = world.states[KEY]
    world.manager.apply({KEY: type(old)(replicas=(1, 2, 3), isr=(1,), partition_epoch=0)}, [], 0)
    assert world.isr(KEY) == (1, 2)


# Metrics


def test_gauges_of_all_and_of_each_partition():
    world = World()
    world.topic_config = TopicConfig(min_insync_replicas=2)
    world.host(P(0), replicas=(1, 2, 3))
    world.host(P(1), replicas=(1, 2, 3), isr=(1, 2))
    world.host(P(2), replicas=(1, 2, 3), isr=(1,))
    world.host(P(3), replicas=(1, 2, 3), leader=2)
    expected = {
        "LeaderCount": 3,
        "PartitionCount": 4,
        "UnderReplicatedPartitions": 2,
        "UnderMinIsrPartitionCount": 1,
        "AtMinIsrPartitionCount": 1,
        "ReassigningPartitions": 0,
        "OfflineReplicaCount": 0,
    }
    assert {name: world.gauge("ReplicaManager", name) for name in expected} == expected
    each = {
        reading.name: reading.values["value"]
        for reading in world.registry.collect(0)
        if reading.type == "Partition" and ("partition", "1") in reading.tags
    }
    assert each == {
        "UnderReplicated": 1,
        "UnderMinIsr": 0,
        "AtMinIsr": 1,
        "InSyncReplicasCount": 2,
        "ReplicasCount": 3,
        "LastStableOffsetLag": 0,
    }
    world.produce(P(0), acks=1)
    log = world.logs.logs[P(0)]
    of_log = {
        reading.name: reading.values["value"]
        for reading in world.registry.collect(0)
        if reading.domain == "kafka.log" and ("partition", "0") in reading.tags
    }
    assert of_log == {"LogStartOffset": 0, "LogEndOffset": 1, "NumLogSegments": 1, "Size": log.size_bytes}
    assert log.size_bytes > 0


def test_the_snapshot_tells_offsets_isr_and_followers():
    world = three()
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY, wait_ms=0)
    (state,) = world.manager.snapshot(0)["partitions"]
    assert (state["log_end_offset"], state["high_watermark"], state["log_start_offset"]) == (1, 0, 0)
    assert (state["isr"], state["leader"], state["leader_epoch"]) == ([1, 2, 3], 1, 1)
    assert [(follower["broker"], follower["log_end_offset"]) for follower in state["followers"]] == [(2, 1), (3, -1)]
