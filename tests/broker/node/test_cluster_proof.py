"""Who comes back to a cluster, and what it can show of its last life: no loss is hidden, and none is made up."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.features import SAFE_DOWNGRADE
from barnabas.broker.log.checkpoint import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_FILE
from barnabas.broker.log.closing import epoch_of_mark, mark
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node import proof
from barnabas.broker.node.proof import LIFE_FILE
from barnabas.protocol.ids import NO_LEADER, TopicPartition
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.node.cluster import CLUSTER_ID, Cluster
from tests.broker.node.test_cluster_features import update
from tests.broker.node.world import World, batch
from tests.durability.plants import Change

CONTROLLER = 1
SENTENCE = "cannot show that it lost nothing"


@pytest.fixture
def three():
    return Cluster()


def back(three, node_id):
    """Start a broker, and wait until it leads `t`; whether the partition is taken for complete."""
    three.start(node_id)
    three.until(lambda: three[node_id].core.ready and three.leader() == node_id)
    return not three.state().recovering


@pytest.mark.parametrize("one", [CONTROLLER, 2])
@pytest.mark.parametrize("end", ["stop", "kill", "power", "stop, power"])
def test_the_last_in_sync_that_comes_back_leads_and_what_it_may_have_lost_is_told(three, one, end, caplog):
    three.create(replicas={0: [one]})
    assert three.put(b"first").error_code == 0
    if end.startswith("stop"):
        three.stop(one)
        three.boots[one] += end == "stop, power"
    else:
        three.kill(one, power=end == "power")
    assert back(three, one) == (end != "power")
    told = [line for line in caplog.messages if SENTENCE in line]
    assert len(told) == (end == "power")
    if told:
        assert told[0].startswith(f"broker {one} ")
        assert told[0].endswith("in 1 partitions, and it may be lost: t-0")
    assert three.put(b"second").error_code == 0


@pytest.mark.parametrize("power", [False, True])
def test_it_is_so_where_nobody_becomes_eligible_too(three, power, caplog):
    """Apache Kafka's controller asks for no proof then, and the last in sync leads, whatever it lost."""
    assert update(three, 1, SAFE_DOWNGRADE, eligible_leader_replicas_version=0) == (0, "")
    three.create(replicas={0: [2, 3]})
    assert three.put(b"first").error_code == 0
    three.kill(3)
    three.until(lambda: three.state().isr == (2,))
    three.kill(2, power=power)
    three.until(lambda: three.leader() == NO_LEADER)
    assert (three.state().isr, three.state().elr) == ((2,), ()), "the last one stays"
    three.start(3)
    three.advance(5000)
    assert three.leader() == NO_LEADER, "it is waited for"
    three.kill(3)
    assert back(three, 2) == (not power)
    assert any(SENTENCE in line for line in caplog.messages) == power


def test_who_was_not_the_last_in_sync_has_nothing_to_show(three, caplog):
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2)
    assert three.put(b"first").error_code == 0
    three.kill(2, power=True)
    three.start(2)
    three.until(lambda: three[2].core.ready and len(three.state().isr) == 3)
    assert SENTENCE not in caplog.text
    assert not three.state().recovering


@pytest.mark.parametrize("change", ["life of before", "another broker's", "torn", "none", "wiped"])
def test_a_file_that_shows_nothing_of_the_last_life_counts_for_nothing(three, change):
    three.create(replicas={0: [2]})
    disk = three[2].disk
    first = disk.load(LIFE_FILE)
    if change == "another broker's":
        first = three[3].disk.load(LIFE_FILE)
    three.stop(2)
    assert back(three, 2)
    assert disk.load(LIFE_FILE) != first
    three.kill(2)
    if change == "wiped":
        three.disks[2] = MemoryDisk()
    elif change == "none":
        disk.remove(LIFE_FILE)
    else:
        disk.write_atomic(LIFE_FILE, first[:-1] if change == "torn" else first)
    assert not back(three, 2)


@pytest.mark.parametrize("one", [CONTROLLER, 2])
def test_a_marker_of_a_clean_stop_counts_once(three, one):
    three.create(replicas={0: [one]})
    disk = three[one].disk
    three.stop(one)
    marker = disk.load(CLEAN_SHUTDOWN_FILE)
    assert epoch_of_mark(marker) >= 0
    assert back(three, one)
    assert not disk.exists(CLEAN_SHUTDOWN_FILE)
    three.kill(one, power=True)
    disk.write_atomic(CLEAN_SHUTDOWN_FILE, marker)  # as of a file system that gives back what was removed
    assert not back(three, one)


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("barnabas.broker.node.proof:_of_marker", "return _NONE_NAMED if epoch < 0 else epoch", "return 1 << 40"),
        ("barnabas.broker.cluster.leadership:unproven", "terms_of, broker_id)", "terms_of, NO_LEADER)"),
        ("barnabas.broker.log.closing:mark", "% (broker_epoch,", "% (-1,"),
    ],
)
def test_a_defect_in_it_is_found(place, old, new, caplog):
    undo = Change(place, old, new).make()
    try:
        with pytest.raises(AssertionError):
            all_ends(caplog)
    finally:
        undo()


def all_ends(caplog):
    for one in (2, CONTROLLER):
        for end in ("stop, power", "power"):
            caplog.clear()
            told = test_the_last_in_sync_that_comes_back_leads_and_what_it_may_have_lost_is_told
            told(Cluster(), one, end, caplog)
        test_a_marker_of_a_clean_stop_counts_once(Cluster(), one)


def test_it_is_recovered_when_a_follower_is_in_sync(three):
    three.create(replicas={0: [2, 3]})
    three.kill(3)
    three.until(lambda: three.state().isr == (2,))
    three.kill(2, power=True)
    three.until(lambda: three.leader() == NO_LEADER)
    assert not back(three, 2)
    three.start(3)
    three.until(lambda: len(three.state().isr) == 2)
    assert not three.state().recovering


def test_one_that_stood_alone_and_was_stopped_has_lost_nothing(caplog):
    world = World(barnabas_cluster_id=CLUSTER_ID)
    world.create()
    world.put(batch(b"first"))
    three = Cluster(disks={1: world.stop()})
    assert not three.state().recovering
    assert SENTENCE not in caplog.text


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"brokerEpoch":"x"}', mark(None), b"\xff"])
def test_a_marker_that_names_no_epoch_shows_nothing(data):
    disk = MemoryDisk()
    disk.write_atomic(CLEAN_SHUTDOWN_FILE, data)
    assert proof.previous_epoch(disk, "boot") == -1


def test_where_the_system_does_not_say_which_boot_it_is_a_clean_stop_alone_shows_anything():
    disk = MemoryDisk()
    proof.note(disk, "", 7)
    disk.deliver()
    assert not disk.exists(LIFE_FILE)
    proof.note(disk, "boot", 7)
    disk.deliver()
    assert [proof.previous_epoch(disk, boot) for boot in ("boot", "another", "")] == [7, -1, -1]
    disk.write_atomic(CLEAN_SHUTDOWN_FILE, mark(None, 8))
    assert proof.previous_epoch(disk, "") == 8


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_log_that_lost_its_topic_id_is_not_taken_for_that_of_a_later_topic(three, end, caplog):
    """The same epochs and offsets told nobody that the records were others."""
    three.create(replicas={0: [2, 3]}, flush_messages=1)
    assert three.put(b"of the old one").error_code == 0
    three.advance(1000)
    if end == "stop":
        three.stop(3)
        three.disks[3].crash()
        three.boots[3] += 1
    else:
        three.kill(3, power=True)
    three.until(lambda: not three[CONTROLLER].core.image.is_alive(3))
    three.disks[3].write_atomic("t-0/partition.metadata", b"")
    three.ask(CONTROLLER, DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    three.create(replicas={0: [2, 3]})
    for value in (b"first", b"second"):
        assert three.put(value).error_code == 0
    three.start(3)
    three.until(lambda: sorted(three.state().isr) == [2, 3])
    assert three[3].values() == three[2].values()
    assert "does not say any more which topic of that name it is of" in caplog.text
    assert any(name.endswith("-stray") for name in three.disks[3].list("")), "its bytes stay"


def test_whose_a_log_is_that_lost_its_topic_id_is_not_decided_while_who_has_all_is_away(three, caplog):
    """It was taken for the later topic's, and in sync without its records once the other one was back."""
    three.create(replicas={0: [2, 3]}, flush_messages=1)
    assert three.put(b"of the old one").error_code == 0
    three.kill(3, power=True)
    three.until(lambda: not three[CONTROLLER].core.image.is_alive(3))
    three.disks[3].write_atomic("t-0/partition.metadata", b"")
    three.ask(CONTROLLER, DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    three.create(replicas={0: [2, 3]})
    assert three.put(b"of the new one").error_code == 0
    three.kill(2)
    three.until(lambda: three.leader() == -1)
    three.start(3)
    three.until(lambda: three[3].core.ready)
    assert len(three[3].values()) == 1, "where nobody else came back, it could be all that is left"
    assert three.disks[3].load("t-0/partition.metadata") == b""
    three.start(2)
    three.until(lambda: sorted(three.state().isr) == [2, 3])
    assert three[3].values() == three[2].values()
    assert "does not say any more which topic of that name it is of" in caplog.text


def test_who_lost_a_topic_id_shows_nothing_though_it_was_only_killed(three, caplog):
    """It was taken for alive when the later topic was made: in sync, with a record of the first one in its log."""
    three.create(replicas={0: [2, 3]}, min_insync_replicas=2)
    assert three.put(b"of the old one").error_code == 0
    three.advance(1000)
    three.kill(3)
    three.taken.add(3)
    three.disks[3].remove("t-0/partition.metadata")
    three.ask(CONTROLLER, DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    three.create(replicas={0: [2, 3]}, min_insync_replicas=2)
    assert three.state().isr == (2, 3)
    answer = three.produce(b"of the new one")
    three.taken.clear()
    three.start(3)
    three.until(lambda: answer.done)
    assert three.part(answer).error_code == 0
    assert three[3].values() == three[2].values()
    assert "does not say any more which topic of that name it is of" in caplog.text


def test_the_only_log_of_a_partition_is_kept_though_it_lost_its_topic_id(three):
    three.create(replicas={0: [3]}, flush_messages=1)
    assert three.put(b"first").error_code == 0
    three.kill(3, power=True)
    three.disks[3].write_atomic("t-0/partition.metadata", b"")
    back(three, 3)
    assert len(three[3].values()) == 1


def test_records_on_the_device_are_not_those_of_a_later_topic_that_nobody_else_has(three):
    """Nothing synced `partition.metadata`: the only replica of the new one led with the records of the old one."""
    three.create(replicas={0: [3]}, flush_messages=1)
    assert three.put(b"of the old one").error_code == 0
    three.kill(3, power=True)
    three.ask(CONTROLLER, DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    three.create(replicas={0: [3]})
    three.until(lambda: not three[CONTROLLER].core.image.is_alive(3))
    three.start(3)
    three.until(lambda: three.leader() == 3)
    assert three[3].values() == []


def test_what_a_follower_had_to_cut_is_no_loss_of_a_later_start(three):
    """What was saved as on the device was cut, rightly; taken for lost it would cost the broker its place."""
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2, flush_messages=1)
    assert three.put(b"first").error_code == 0
    three.cut = {frozenset((2, 1)), frozenset((2, 3))}
    assert three.put(b"2 alone has it", acks=1, node_id=2).error_code == 0
    three.advance(100_000)  # it is saved that all of it is on the device
    assert b"t 0 2 " in three.disks[2].load(RECOVERY_POINT_FILE)
    three.cut = set()
    three.until(lambda: three[2].log().log_end_offset == 1 == three[3].log().log_end_offset)
    three.advance(100)
    three.kill(2)
    three.start(2)
    three.until(lambda: three[2].core.ready)
    assert (three[2].log().log_end_offset, three[2].core.logs.losses.count) == (1, 0)


def test_what_went_elsewhere_and_came_back_is_no_loss_of_a_later_start(three):
    """What was saved of the log that went is not said of the one that begins anew."""
    three.create(replicas={0: [2, 3]}, flush_messages=1)
    assert three.put(b"first").error_code == 0
    three.advance(100_000)
    assert b"t 0 1 " in three.disks[3].load(RECOVERY_POINT_FILE)
    key, logs = TopicPartition("t", 0), three[3].core.logs.logs
    for target in ([2], [2, 3]):
        move = ReassignableTopic("t", [ReassignablePartition(0, target)])
        assert three.ask(CONTROLLER, AlterPartitionReassignmentsRequest(5000, [move]), 1).error_code == 0
        three.until(lambda target=target: (key in logs) == (3 in target))
        three.advance(1000)
        three.paused.add(2)  # nothing is fetched from it
    assert three[3].log().log_end_offset == 0
    three.kill(3)
    three.start(3)
    three.until(lambda: three[3].core.ready)
    assert three[3].core.logs.losses.count == 0
