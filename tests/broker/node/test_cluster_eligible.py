"""Who leads where nobody is in sync any more, in virtual time: those that lack nothing, and nobody else unasked."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.broker.cluster.elections import UNCLEAN
from barnabas.broker.jobs import Gate, wait
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node import startup
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER
from barnabas.protocol.requests.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.requests.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.unregister_broker import UnregisterBrokerRequest
from tests.broker.node.cluster import Cluster
from tests.durability.plants import Change

CONTROLLER = 1
FILE = "t-0/00000000000000000000.log"


@pytest.fixture
def four():
    return four_of_them()


def four_of_them():
    """A topic on 2, 3 and 4, of which two are to be in sync, with a record that all have."""
    four = Cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False)
    four.create(replicas={0: [2, 3, 4]}, min_insync_replicas=2)
    assert four.put(b"all have it").error_code == 0
    return four


def stands(four):
    state = four.state()
    return state.leader, state.isr, state.elr


def away(four, *brokers, power=False):
    """These go, one after the other."""
    for one in brokers:
        four.kill(one, power=power)
        four.until(lambda one=one: not four[CONTROLLER].core.image.is_alive(one))


def back(four, *brokers):
    for one in brokers:
        four.start(one)
        four.until(lambda one=one: four[one].core.ready)


def healed(four):
    """All are back: everybody is in sync, and has the same log."""
    four.until(lambda: len(four.state().isr) == 3)
    four.until(lambda: len({four[one].log().log_end_offset for one in (2, 3, 4)}) == 1)
    assert stands(four)[2] == ()
    assert four[2].values() == four[3].values() == four[4].values()


def test_one_that_left_an_isr_below_its_minimum_leads_when_nobody_else_is_there(four):
    away(four, 4, 3)
    assert stands(four) == (2, (2,), (3,))
    refused = four.put(b"one has it", acks=1)
    assert refused.error_code == 0, "which nobody promised to keep"
    away(four, 2)
    assert stands(four) == (NO_LEADER, (), (2, 3))
    assert four.state().last_known == (2,)
    back(four, 4)
    assert four.leader() == NO_LEADER, "4 had left before: it may lack something"
    back(four, 3)
    assert (four.leader(), four.state().isr[0]) == (3, 3)
    assert not four.state().recovering
    count = four[CONTROLLER].core.registry.read(
        "kafka.controller:ControllerStats", "ElectionFromEligibleLeaderReplicasPerSec"
    )
    assert count is not None
    assert count["count"] == 1
    back(four, 2)
    healed(four)
    assert b"all have it" in four[2].values()[0][2]
    assert len(four[2].values()) == 1, "what 2 had alone is cut"


def test_who_lost_its_disk_is_not_eligible_any_more_and_what_the_other_has_is_kept(four):
    """3 would lead the empty log, had it stayed in the ELR."""
    away(four, 4, 3, 2)
    four.disks[3] = MemoryDisk()
    back(four, 3)
    assert stands(four) == (NO_LEADER, (), (2,))
    back(four, 2)
    assert stands(four)[0] == 2
    back(four, 4)
    healed(four)
    assert len(four[3].values()) == 1, "3 has fetched it anew"


@pytest.mark.parametrize("end", ["a flipped bit", "a file that is gone"])
def test_what_a_start_finds_lost_says_more_than_any_proof(four, end, caplog):
    """The process of 3 was killed, nothing else; but its disk has not kept what it had."""
    four.advance(10_000)  # what was committed is noted every five seconds
    away(four, 4, 3, 2)
    if end == "a flipped bit":
        size = len(four.disks[3].load("t-0/00000000000000000000.log"))
        four.disks[3].flip("t-0/00000000000000000000.log", size - 2)
    else:
        four.disks[3].remove("t-0/00000000000000000000.log")
    back(four, 3)
    assert stands(four) == (NO_LEADER, (), (2,))
    assert "what was found lost leaves this broker in no ISR" in caplog.text
    back(four, 2)
    back(four, 4)
    healed(four)
    assert len(four[3].values()) == 1


def test_what_a_start_finds_lost_counts_though_it_is_killed_before_it_could_tell(four, monkeypatch):
    """The next start finds a log that is whole, up to where it was cut."""
    away(four, 4, 3, 2)
    size = len(four.disks[3].load(FILE))
    four.disks[3].flip(FILE, size - 2)
    with monkeypatch.context() as cut_short:
        cut_short.setattr(startup, "_disprove", lambda core: wait(Gate()))
        four.start(3)
        four.until(lambda: four[3].core.logs.losses.count == 1)
        four.kill(3)
    assert len(four.disks[3].load(FILE)) < size
    back(four, 3)
    assert stands(four) == (NO_LEADER, (), (2,))
    back(four, 2)
    back(four, 4)
    healed(four)
    assert len(four[3].values()) == 1


def test_the_controller_that_told_what_it_lost_is_believed_again(four):
    """One loss costs it one place, not every place from then on."""
    four.create("u", replicas={0: [1, 2]}, min_insync_replicas=2)
    assert four.put(b"both have it", topic="u").error_code == 0
    four.kill(CONTROLLER)
    size = len(four.disks[CONTROLLER].load("u-0/00000000000000000000.log"))
    four.disks[CONTROLLER].flip("u-0/00000000000000000000.log", size - 2)
    four.start(CONTROLLER)
    four.until(lambda: len(four.state(topic="u").isr) == 2)
    away(four, 2)
    assert four.put(b"one has it", topic="u", acks=1).error_code == 0
    four.kill(CONTROLLER)
    four.start(CONTROLLER)
    four.until(lambda: four[CONTROLLER].core.ready)
    assert (four.leader(topic="u"), four.state(topic="u").recovering) == (CONTROLLER, False)


def test_one_that_was_forgotten_and_comes_back_without_its_disk_is_not_eligible(four):
    """3 would lead an empty log: unregistered, it counted for a new broker, which has nothing to lose."""
    away(four, 4, 3)
    assert four.ask(CONTROLLER, UnregisterBrokerRequest(3), 0).error_code == 0
    assert stands(four) == (2, (2,), (3,))
    away(four, 2)
    four.disks[3] = MemoryDisk()
    back(four, 3)
    assert stands(four) == (NO_LEADER, (), (2,))
    back(four, 2)
    back(four, 4)
    healed(four)
    assert len(four[2].values()) == 1


def test_where_all_lost_power_the_last_that_led_leads_and_it_is_told(four, caplog):
    away(four, 4, 3, 2, power=True)
    back(four, 3)
    back(four, 4)
    assert stands(four) == (NO_LEADER, (), (2,))
    assert "may be lost" not in caplog.text
    back(four, 2)
    assert stands(four)[0] == 2
    assert four.state().recovering or len(four.state().isr) > 1
    assert "broker 2 cannot show that it lost nothing" in caplog.text
    assert (
        "1 partitions have a leader that may lack what was acknowledged, for nobody else could: t-0 (2)" in caplog.text
    )
    healed(four)
    assert not four.state().recovering


def test_one_that_has_nothing_leads_only_if_it_is_asked_to(four):
    away(four, 4, 3, 2)
    back(four, 4)
    four.advance(60_000)
    assert four.leader() == NO_LEADER
    response = four.ask(CONTROLLER, ElectLeadersRequest(UNCLEAN, [TopicPartitions("t", [0])]), 2)
    assert response.replica_election_results[0].partition_result[0].error_code == 0
    assert (stands(four), four.state().recovering) == ((4, (4,), ()), True)


def test_eligible_leaders_are_told_by_any_broker(four):
    away(four, 4, 3, 2)
    told = four.ask(CONTROLLER, DescribeTopicPartitionsRequest([TopicRequest("t")]), 0).topics[0].partitions[0]
    assert (told.isr_nodes, told.eligible_leader_replicas, told.last_known_elr) == ([], [2, 3], [2])
    assert (told.leader_id, told.error_code) == (NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE)


def test_a_smaller_minimum_ends_it_for_the_leader_commits_alone_then(four):
    away(four, 4, 3)
    assert stands(four)[2] == (3,)
    change = AlterableConfig("min.insync.replicas", 0, "1")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, "t", [change])])
    assert four.ask(CONTROLLER, request, 1).responses[0].error_code == 0
    assert stands(four) == (2, (2,), ())
    four.until(lambda: four[2].log().config.min_insync_replicas == 1)
    assert four.put(b"2 alone has it").error_code == 0
    away(four, 2)
    back(four, 3)
    assert four.leader() == NO_LEADER
    back(four, 2)
    assert stands(four)[0] == 2


def test_a_minimum_of_one_broker_or_none_for_all_is_refused(four):
    for name, operation, value in (("2", 0, "1"), ("1", 0, "1"), ("", 1, None)):
        change = AlterableConfig("min.insync.replicas", operation, value)
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, name, [change])])
        code = four.ask(CONTROLLER, request, 1).responses[0].error_code
        assert code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)


def all_of_it(caplog):
    for test in (
        test_who_lost_its_disk_is_not_eligible_any_more_and_what_the_other_has_is_kept,
        partial(test_what_a_start_finds_lost_says_more_than_any_proof, end="a flipped bit", caplog=caplog),
        test_one_that_has_nothing_leads_only_if_it_is_asked_to,
        test_a_smaller_minimum_ends_it_for_the_leader_commits_alone_then,
    ):
        test(four_of_them())


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("barnabas.broker.cluster.succession:eligible", " and one != lost", ""),
        ("barnabas.broker.cluster.succession:_elect", "have_all = isr or elr", "have_all = state.replicas"),
        ("barnabas.broker.node.startup:run", "losses.count > lost", "losses.count < lost"),
        ("barnabas.broker.cluster.succession:smaller_minimum", "if not changed:", "if changed:"),
    ],
)
def test_a_defect_in_it_is_found(place, old, new, caplog):
    undo = Change(place, old, new).make()
    try:
        with pytest.raises(AssertionError):
            all_of_it(caplog)
    finally:
        undo()
