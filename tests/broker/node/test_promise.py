"""What the controller of a cluster keeps of its quorum: who the voters are, and the epochs that were led."""

from __future__ import annotations

import errno

import pytest

from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept
from tests.broker.node.cluster import CLUSTER_ID, Cluster
from tests.broker.node.controllers import Controllers
from tests.broker.node.world import World

LOG = "__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture
def pair():
    return Cluster(1, 2)


def known(cluster, node_id):
    return kept.parse(cluster.disks[node_id].load(kept.FILE))


def test_the_controller_keeps_its_epoch_and_who_votes(pair):
    epoch = pair[1].core.metadata.epoch
    assert known(pair, 1) == (Kept(epoch, 1, 1), [1])
    assert not pair.disks[2].exists(kept.FILE), "it has no vote"
    pair.stop(1)
    pair.start(1)
    pair.until(lambda: pair[1].core.ready)
    assert known(pair, 1) == (Kept(epoch + 1, 1, 1), [1])


def test_no_epoch_is_led_twice_though_the_metadata_log_was_cut(pair):
    pair.stop(1)
    pair.disks[1].write_atomic(kept.FILE, kept.dump(Kept(40, 1, 1), [1]))
    pair.start(1)
    pair.until(lambda: pair[1].core.ready)
    assert pair[1].core.metadata.epoch == 41


def test_without_the_file_epochs_go_on_above_those_of_the_log(pair):
    epoch = pair[1].core.metadata.epoch
    pair.stop(1)
    pair.disks[1].remove(kept.FILE)
    pair.start(1)
    pair.until(lambda: pair[1].core.ready)
    assert known(pair, 1) == (Kept(epoch + 1, 1, 1), [1])


def test_a_start_waits_for_room_to_keep_its_promise(pair):
    pair.stop(1)
    write = pair.disks[1].write_atomic
    refused: list[str] = []

    def full(path, data, done=None, **options):
        if path == kept.FILE and len(refused) < 3:
            refused.append(path)
            done(OSError(errno.ENOSPC, "full"))
        else:
            write(path, data, done, **options)

    pair.disks[1].write_atomic = full
    pair.start(1)
    pair.until(lambda: pair[1].core.ready)
    assert len(refused) == 3


def test_a_controller_that_is_to_follow_another_is_refused_and_nothing_changes(pair):
    """Its topics would be nobody's: node 2 has metadata of its own, or none."""
    pair.stop(1)
    before = pair.disks[1].load(kept.FILE)
    pair.start(1, controller_quorum_voters=("2@node-2:9093",))
    pair.until(lambda: pair[1].core.fault is not None)
    assert str(pair[1].core.fault) == (
        "controller.quorum.voters names nodes 2, and this data directory is of a quorum of 1 "
        "(__cluster_metadata-0/quorum-state): two quorums could decide at once; name those, or another data directory"
    )
    assert pair.disks[1].load(kept.FILE) == before


def test_a_damaged_promise_is_refused(pair):
    pair.stop(1)
    data = pair.disks[1].load(kept.FILE)
    pair.disks[1].write_atomic(kept.FILE, data.replace(b'"leaderEpoch":', b'"leaderEpoch":9'))
    pair.start(1)
    pair.until(lambda: pair[1].core.fault is not None)
    assert "is damaged (its sum is wrong)" in str(pair[1].core.fault)


def test_a_broker_that_stands_alone_keeps_no_promise():
    from tests.broker.node.world import World

    world = World()
    assert not world.disk.exists(kept.FILE)


def alone(disk: MemoryDisk, node_id: int, cluster_id: str = "") -> World:
    """A broker that knows nothing of a cluster, on this disk."""
    world = World(disk=disk, start=False, node_id=node_id, barnabas_cluster_id=cluster_id)
    world.core.start(world.now_ms)
    world.settle()
    return world


def test_a_directory_of_several_controllers_is_not_served_from_alone():
    """It would decide what the others never hear of, and what they have decided meanwhile would be lost."""
    trio = Controllers()
    trio.stop(1)
    before = {name: trio.disks[1].load(name) for name in (kept.FILE, LOG)}
    world = alone(trio.disks[1], 1)
    assert str(world.core.fault) == (
        "this data directory is of a quorum of nodes 1, 2, 3 (__cluster_metadata-0/quorum-state), and this broker "
        "is to stand alone: two quorums could decide at once; start it with its cluster's settings "
        "(controller.quorum.voters, inter.broker.listener.name), or name another data directory"
    )
    assert {name: trio.disks[1].load(name) for name in before} == before


def test_the_only_controller_may_stand_alone_again(pair):
    pair.stop(2)
    pair.stop(1)
    assert alone(pair.disks[1], 1).core.fault is None


def test_who_stood_alone_is_no_controller_of_several_before_the_others_have_what_it_decided():
    """It has promised nobody a vote, so nothing is lost; an empty directory, as for one that did, would be a loss."""
    disk = alone(MemoryDisk(), 1, CLUSTER_ID).stop()
    cluster = Controllers()
    cluster.stop(1)
    cluster.disks[1] = disk
    cluster.start(1)
    cluster.until(lambda: cluster[1].core.fault is not None)
    assert (
        "a broker that decided alone until now never had it: start it with itself alone in controller.quorum.voters, "
        "then `barnabas log voters` makes it one of several"
    ) in str(cluster[1].core.fault)


def test_a_broker_without_a_vote_that_does_not_name_its_controllers_is_told_to(pair):
    """Nothing of it is lost, and there is nothing to repair."""
    pair.stop(2)
    world = alone(pair.disks[2], 2)
    assert "or other nodes are this broker's controllers and have them: name those in controller.quorum.voters" in str(
        world.core.fault
    )
