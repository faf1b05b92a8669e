"""Three controllers, each a broker too: whoever leads decides, and what a majority has outlives any one of them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.judgement import DIRECTORY
from barnabas.broker.cluster.observer import OWN_WAIT_MS
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.growth import grow
from barnabas.broker.node.identity import FILE, DataDirError
from barnabas.broker.raft import kept
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.describe_quorum import (
    DescribeQuorumRequest,
    RequestedPartitionData,
    RequestedTopicData,
)
from tests.broker.node.cluster import CLUSTER_ID, Cluster
from tests.broker.node.controllers import VOTERS, Controllers
from tests.broker.node.test_cluster import gauge, metadata_lag_ms
from tests.broker.node.test_cluster_by_chance import STEPS, Run
from tests.broker.node.world import World, batch

VOTERS_BY_ID = (1, 2, 3)


def fenced(cluster: Controllers, node_id: int) -> set[int]:
    return {one.broker_id for one in cluster[node_id].core.image.brokers.values() if one.fenced}


def test_three_begin_together_and_one_of_them_decides():
    cluster = Controllers()
    assert cluster.active
    cluster.create(partitions=3)
    assert cluster.put(b"one").error_code == 0
    cluster.advance(30_000)
    assert [fenced(cluster, one) for one in (1, 2, 3)] == [set()] * 3
    assert len(cluster.leaders) == 1
    cluster.check()


def test_what_each_voter_knows_of_the_quorum_can_be_read():
    cluster = Controllers()
    cluster.create(partitions=3)
    cluster.advance(2000)

    def told(name: str) -> list[int]:
        return [gauge(cluster[one], "raft-metrics", name) for one in cluster.nodes]

    assert told("current-leader") == [cluster.active] * 3
    assert told("number-of-voters") == [3] * 3
    assert told("voter-failed") == [0] * 3
    ends, epochs = told("log-end-offset"), told("current-epoch")
    assert ends == told("high-watermark") == [ends[0]] * 3
    gone = cluster.active
    cluster.paused.add(gone)
    cluster.until(lambda: cluster.active not in (0, gone))
    cluster.paused.clear()
    cluster.advance(2000)
    assert told("current-leader") == [cluster.active] * 3
    assert min(told("current-epoch")) > max(epochs)
    assert min(told("log-end-offset")) > max(ends)


def test_a_controller_that_is_cut_off_does_not_say_that_it_has_all():
    """Its own broker has what it has, and it leads no more."""
    cluster = Controllers()
    cluster.create(partitions=3)
    cluster.advance(5000)
    assert [metadata_lag_ms(cluster[one]) for one in VOTERS_BY_ID] == [0, 0, 0]
    for gone in (cluster.active, cluster.others()[-1]):
        others = [one for one in VOTERS_BY_ID if one != gone]
        cluster.cut |= {frozenset((gone, one)) for one in others}
        cluster.advance(20_000)
        assert cluster.active in others
        assert 10_000 < metadata_lag_ms(cluster[gone]) <= 21_000
        assert [metadata_lag_ms(cluster[one]) for one in others] == [0, 0]
        cluster.cut.clear()
        cluster.advance(10_000)
        assert [metadata_lag_ms(cluster[one]) for one in VOTERS_BY_ID] == [0, 0, 0]


def test_an_idle_node_asks_its_own_controller_seldom_and_hears_of_news_at_once(monkeypatch: pytest.MonkeyPatch):
    cluster, asked = Controllers(), list[MetadataFeed]()
    cluster.create(partitions=1)
    real = MetadataFeed.fetch

    def fetch(feed: MetadataFeed, *rest: Any) -> None:
        asked.append(feed)
        real(feed, *rest)

    monkeypatch.setattr(MetadataFeed, "fetch", fetch)
    cluster.advance(20_000)
    assert 0 < len(asked) <= len(VOTERS) * (20_000 // OWN_WAIT_MS + 1)
    cluster.create("second")
    assert all("second" in cluster[one].core.image.topics for one in (1, 2, 3))


@pytest.mark.parametrize("power", [False, True])
def test_another_decides_when_the_active_controller_is_gone(power):
    cluster = Controllers()
    cluster.create(partitions=3, flush_messages=1)
    gone = cluster.active
    cluster.kill(gone, power=power)
    took_ms = cluster.until(lambda: cluster.active not in (0, gone))
    assert took_ms < (6000 if power else 1000)
    here, other = cluster.active, cluster.others()[0]
    fenced_ms = cluster.until(lambda: fenced(cluster, here) == {gone})
    assert power or fenced_ms < 1000, "whoever decides now knocks: nobody else has seen its connections close"
    cluster.create("second", factor=2, node_id=other)
    cluster.advance(1000)
    for partition in range(3):
        leader = cluster.state(partition, node_id=here).leader
        assert cluster.put(b"x", partition=partition, node_id=leader).error_code == 0
    cluster.start(gone)
    cluster.until(lambda: cluster[gone].core.ready)
    cluster.until(lambda: "second" in cluster[gone].core.image.topics and not fenced(cluster, here))
    cluster.check()


def test_sessions_begin_anew_with_each_controller():
    """Nobody else is fenced, though the new one has heard of nobody before."""
    cluster = Controllers(1, 2, 3, 4, broker_session_timeout_ms=3000, broker_heartbeat_interval_ms=1000)
    gone = cluster.active
    cluster.kill(gone)
    cluster.fail_over()
    for _ in range(20):
        cluster.advance(500)
        assert fenced(cluster, cluster.active) <= {gone}
    assert fenced(cluster, 4) == {gone}
    cluster.check()


def test_a_change_that_no_majority_has_is_dropped():
    cluster = Controllers()
    cluster.create()
    old = cluster.active
    for one in cluster.others():
        cluster.cut.add(frozenset((old, one)))
    lost = cluster.send(old, CreateTopicsRequest([CreatableTopic("lost", 1, 1)]), 7)
    cluster.advance(10)
    alone = cluster.voter(old).log.end.end
    cluster.fail_over()
    new = cluster.active
    kept = cluster.send(new, CreateTopicsRequest([CreatableTopic("kept", 1, 1)]), 7)
    cluster.until(lambda: kept.done)
    assert kept.response.topics[0].error_code == 0
    cluster.until(lambda: lost.done)
    assert lost.response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert cluster.voter(old).reign is None
    cluster.cut.clear()
    cluster.until(lambda: all("kept" in node.core.image.topics for node in cluster.nodes.values()))
    assert not any("lost" in node.core.image.topics for node in cluster.nodes.values())
    assert alone > 0
    cluster.check()


def test_one_that_is_cut_off_one_way_gives_up():
    """It hears the others and cannot answer, or is not heard: somebody else leads, and nobody is led by both."""
    for way in (0, 1):
        cluster = Controllers()
        old = cluster.active
        for one in cluster.others():
            cluster.cut.add((old, one) if way else (one, old))
        cluster.until(lambda: cluster.active not in (0, old))  # noqa: B023
        cluster.until(lambda: cluster.voter(old).reign is None)  # noqa: B023
        cluster.cut.clear()
        cluster.until(lambda: not fenced(cluster, 1) and not fenced(cluster, old))  # noqa: B023
        cluster.check()


def test_a_paused_controller_finds_that_it_was_deposed():
    cluster = Controllers()
    cluster.create()
    old = cluster.active
    cluster.paused.add(old)
    cluster.until(lambda: cluster.active not in (0, old))
    cluster.paused.clear()
    cluster.until(lambda: cluster.voter(old).reign is None)
    cluster.until(lambda: not fenced(cluster, cluster.active))
    cluster.check()


def test_one_of_three_can_do_nothing_and_decides_again_with_another():
    cluster = Controllers()
    cluster.create()
    first, second = cluster.others()
    cluster.kill(first)
    cluster.kill(second)
    left = next(iter(cluster.nodes))
    cluster.until(lambda: cluster.voter(left).reign is None)
    answer = cluster.send(left, CreateTopicsRequest([CreatableTopic("late", 1, 1)]), 7)
    cluster.until(lambda: answer.done)
    assert answer.response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    cluster.start(first)
    cluster.until(lambda: cluster.active > 0)
    cluster.until(lambda: cluster[first].core.ready)
    cluster.create("late", factor=2, node_id=first)
    cluster.check()


def test_all_lose_their_power_at_once_and_nothing_is_lost():
    cluster = Controllers()
    for number in range(5):
        cluster.create(f"topic-{number}")
    for one in (1, 2, 3):
        cluster.kill(one, power=True)
    for one in (1, 2, 3):
        cluster.start(one)
    cluster.until(lambda: all(node.core.ready for node in cluster.nodes.values()))
    assert len(cluster[1].core.image.topics) == 5
    cluster.check()


def test_one_whose_votes_are_gone_is_refused_and_the_others_go_on():
    """It could vote a second time in an epoch. An empty directory is another matter: see docs/DURABILITY.md."""
    cluster = Controllers()
    cluster.create()
    cluster.kill(2)
    cluster.disks[2].remove(kept.FILE)
    cluster.start(2)
    cluster.until(lambda: cluster[2].core.fault is not None)
    assert "quorum-state is gone" in str(cluster[2].core.fault)
    assert not cluster.disks[2].exists(kept.FILE)
    del cluster.nodes[2]
    cluster.until(lambda: cluster.active > 0)
    cluster.create("second", factor=1, node_id=cluster.active)


def test_one_that_was_away_for_long_begins_with_a_snapshot():
    cluster = Controllers(metadata_log_max_record_bytes_between_snapshots=2000)
    away = cluster.others()[0]
    cluster.kill(away)
    here = cluster.active
    cluster.until(lambda: fenced(cluster, here) == {away})
    for number in range(30):
        cluster.create(f"topic-{number}", factor=2, node_id=here)
    assert cluster.voter(here).log.start.end > 0
    cluster.start(away)
    cluster.until(lambda: cluster[away].core.ready)
    assert cluster.voter(away).log.start.end > 0
    assert len(cluster[away].core.image.topics) == 30
    cluster.check()
    for one in (1, 2, 3):
        cluster.kill(one, power=True)
    for one in (1, 2, 3):
        cluster.start(one)
    cluster.until(lambda: all(node.core.ready for node in cluster.nodes.values()))
    assert [len(cluster[one].core.image.topics) for one in (1, 2, 3)] == [30] * 3
    cluster.check()


@pytest.mark.parametrize("number", [1, 2], ids=["one in the midst", "the last"])
def test_an_offset_that_is_too_high_costs_one_replica_alone(number):
    """Else it would be in sync without what is between the offset that is wrong and the one before it."""
    cluster = Controllers()
    cluster.create(replicas={0: [1, 2, 3]})
    for value in (b"first", b"secnd", b"third"):
        assert cluster.put(value).error_code == 0
    cluster.until(lambda: len(set(cluster.high_watermarks().values())) == 1)
    cluster.kill(1)
    log = "t-0/00000000000000000000.log"
    cluster.disks[1].flip(log, len(cluster.disks[1].load(log)) // 3 * number + 7, 4)
    cluster.until(lambda: 1 not in cluster.state(node_id=2).isr)
    cluster.start(1)
    cluster.until(lambda: len(cluster.state(node_id=2).isr) == 3)
    assert cluster.disks[1].load(log) == cluster.disks[2].load(log)


@pytest.mark.parametrize("count", [1, 3])
def test_a_last_offset_that_is_too_high_leads_nobody(count, caplog):
    """All were killed, and it was elected: the others took from it again what they have, at an offset behind a gap."""
    cluster = Controllers()
    cluster.create(replicas={0: [1, 2, 3]})
    for value in (b"first", b"secnd", b"third")[:count]:
        assert cluster.put(value).error_code == 0
    cluster.until(lambda: len(set(cluster.high_watermarks().values())) == 1)
    before = cluster[2].values()
    for one in (1, 2, 3):
        cluster.kill(one)
    log = "t-0/00000000000000000000.log"
    cluster.disks[1].flip(log, len(cluster.disks[1].load(log)) // count * (count - 1) + 7, 4)
    for one in (2, 1, 3):
        cluster.start(one)
        cluster.advance(3000)
    cluster.until(lambda: all(node.core.ready for node in cluster.nodes.values()))
    cluster.until(lambda: len(cluster.state().isr) == 3)
    assert "nothing is before its last batch" in caplog.text
    assert cluster.put(b"more").base_offset == count
    cluster.until(lambda: cluster[1].values() == cluster[2].values() == cluster[3].values())
    assert cluster[1].values()[:count] == before


@pytest.mark.parametrize("first", [1, 2])
def test_an_epoch_that_no_leader_had_costs_one_replica_alone(first, caplog):
    """It stands outside of the sum of a batch: whoever led with it had the others cut what they have."""
    cluster = Controllers()
    cluster.create(replicas={0: [1, 2, 3]})
    for value in (b"first", b"secnd", b"third"):
        assert cluster.put(value).error_code == 0
    cluster.until(lambda: len(set(cluster.high_watermarks().values())) == 1)
    before = cluster[1].values()
    for one in (1, 2, 3):
        cluster.kill(one)
    log = "t-0/00000000000000000000.log"
    cluster.disks[1].flip(log, len(cluster.disks[1].load(log)) // 3 + 15, 4)
    for one in (first, 3 - first, 3):
        cluster.start(one)
        cluster.advance(3000)
    cluster.until(lambda: all(node.core.ready for node in cluster.nodes.values()))
    cluster.until(lambda: len(cluster.state().isr) == 3)
    assert cluster[1].values() == cluster[2].values() == cluster[3].values() == before
    assert "t-0: from there on it is of epoch 16" in caplog.text
    assert cluster.put(b"more").base_offset == 3


def test_a_broker_without_a_vote_finds_who_leads():
    cluster = Controllers(1, 2, 3, 4)
    for _ in range(3):
        gone = cluster.active
        cluster.kill(gone)
        cluster.fail_over()
        cluster.advance(1000)  # it asks the next one, and until then tells clients to ask later
        cluster.create(f"without-{len(cluster.leaders)}", factor=2, node_id=4)
        cluster.start(gone)
        cluster.until(lambda: not fenced(cluster, 4) and all(node.core.ready for node in cluster.nodes.values()))
    cluster.check()


def test_a_controller_that_stops_lets_another_lead_at_once(caplog):
    caplog.set_level(logging.INFO)
    cluster = Controllers()
    cluster.create(partitions=3)
    gone = cluster.active
    cluster.stop(gone)
    assert cluster.until(lambda: cluster.active not in (0, gone)) < 500
    assert fenced(cluster, cluster.active) == {gone}
    assert f"the leader of the metadata (node {gone}): it answers NOT_LEADER_OR_FOLLOWER" in caplog.text
    for partition in range(3):
        assert cluster.state(partition, node_id=cluster.active).leader not in (-1, gone)
    cluster.check()


def test_the_quorum_is_described_with_its_voters():
    cluster = Controllers(1, 2, 3, 4)
    cluster.create()
    cluster.advance(3000)
    asked = DescribeQuorumRequest([RequestedTopicData("__cluster_metadata", [RequestedPartitionData(0)])])
    for node_id in (1, 2, 3, 4):
        response = cluster.ask(node_id, asked, 2)
        assert [one.node_id for one in response.nodes] == [1, 2, 3]
        (part,) = response.topics[0].partitions
        assert part.leader_id == cluster.active
        assert part.high_watermark == cluster.voter(cluster.active).log.committed
        assert [one.replica_id for one in part.current_voters] == [1, 2, 3]
        assert {one.log_end_offset for one in part.current_voters} == {part.high_watermark}
        assert [one.replica_id for one in part.observers] == [4]


class QuorumRun(Run):
    """As `Run`; controllers are killed, paused and cut off like any others."""

    KIND = Controllers
    cluster: Controllers

    def step(self) -> None:
        active = self.cluster.active
        if active and not self.down and self.random.random() < 0.2:
            self.cluster.kill(active, power=self.synced)
            self.down.add(active)
            self.cluster.advance(self.random.choice([0, 100, 1000, 3000]))
        super().step()
        self.cluster.check()


@pytest.mark.parametrize("seed", range(12))
def test_what_was_acknowledged_is_there_whatever_happens_to_controllers(seed):
    run = QuorumRun(seed)
    assert [run.cluster.put(b"before", partition=number).error_code for number in (0, 1)] == [0, 0]
    for _ in range(STEPS):
        run.step()
    run.heal()
    run.check()
    run.cluster.check()
    assert len(run.cluster.leaders) > 1


def test_a_controller_whose_disk_is_full_votes_again_once_there_is_room():
    cluster = Controllers()
    gone, (full, other) = cluster.active, cluster.others()
    for one in (full, other):
        cluster.disks[one].faults.refuse(1, 1_000_000)
    cluster.kill(gone)
    cluster.advance(10_000)
    assert not cluster.active, "nobody promises what it cannot keep"
    for one in (full, other):
        cluster.disks[one].faults.refuse(1, 0)
    cluster.until(lambda: cluster.active in (full, other))
    cluster.check()


def test_one_controller_becomes_three_and_nothing_is_forgotten():
    alone = Cluster(min_insync_replicas=2)
    alone.create("old", partitions=3, flush_messages=1)
    assert alone.put(b"one", topic="old").error_code == 0
    for one in (2, 3, 1):
        alone.stop(one)
    brought = MemoryDisk()  # who broker 3 is, on the machine of the controller (docs/CLUSTER.md)
    brought.write_atomic(FILE, bytes(alone.disks[3].load(FILE)))
    assert grow([alone.disks[1], brought, alone.disks[2]]) == [1, 2, 3]
    alone.disks[3].make_dir(DIRECTORY)
    for name in brought.list(DIRECTORY):
        alone.disks[3].write_atomic(f"{DIRECTORY}/{name}", bytes(brought.load(f"{DIRECTORY}/{name}")))
    cluster = Controllers(disks=alone.disks)
    assert "old" in cluster[cluster.active].core.image.topics
    assert cluster.put(b"two", topic="old").error_code == 0
    cluster.kill(cluster.active)
    cluster.fail_over()
    assert "old" in cluster[cluster.active].core.image.topics
    cluster.check()
    with pytest.raises(DataDirError, match=r"nodes 1, 2, 3 are controllers already"):
        grow([alone.disks[one] for one in (1, 2, 3)])


def test_who_stood_alone_becomes_the_first_of_three_with_all_it_has():
    world = World(barnabas_cluster_id=CLUSTER_ID, node_id=1)
    world.create("old")
    assert world.put(batch(b"one"), topic="old").base_offset == 0
    cluster = Cluster(disks={1: world.stop()}, min_insync_replicas=2)
    assert cluster.put(b"two", topic="old").base_offset == 1
    for one in (2, 3, 1):
        cluster.stop(one)
    assert grow([cluster.disks[one] for one in (1, 2, 3)]) == [1, 2, 3]
    trio = Controllers(disks=cluster.disks)
    assert trio.put(b"three", topic="old").base_offset == 2
    trio.check()


def test_what_makes_no_quorum_is_refused():
    """Voters that differ from the directory's; a broker that was none, and has not what was decided."""
    alone = Cluster(min_insync_replicas=2)
    alone.stop(2)
    alone.stop(1)
    alone.stop(3)
    for one, told in ((1, "two quorums could decide at once"), (2, "in a data directory that was in use")):
        node = alone.start(one, controller_quorum_voters=VOTERS)
        alone.until(lambda: node.core.fault is not None)  # noqa: B023
        assert told in str(node.core.fault)
        alone.kill(one)
    with pytest.raises(DataDirError, match=r"is no controller's of a cluster"):
        grow([alone.disks[one] for one in (2, 1)])
