"""Whole groups in a simulated cluster: whatever members do, every partition has one owner in the end, and every record
that was handed out and committed comes once."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.consume.record import ConsumerRecord
from barnabas.protocol.ids import TopicPartition
from tests.client.consume.group.simulated import Cluster, Member

WAYS = ["range", "roundrobin", "sticky", "cooperative-sticky", "consumer"]
"""How the leader shares out; `consumer` is the protocol where the broker does (KIP-848)."""


def cluster_of(way: str, topics: dict[str, int], **more: Any) -> tuple[Cluster, dict[str, Any]]:
    """A cluster, and what members need to say to share in this way: their heartbeats are quick."""
    if way == "consumer":
        return Cluster(topics, by_epochs=True, **more), {}
    return Cluster(topics, **more), {"partition.assignment.strategy": way, "heartbeat.interval.ms": 40}


def all_partitions(cluster: Cluster) -> set[TopicPartition]:
    return {TopicPartition(topic, n) for topic, count in cluster.topics.items() for n in range(count)}


def check_one_owner(cluster: Cluster, *members: Member) -> None:
    owned = [where for each in members for where in each.owned()]
    assert sorted(owned) == sorted(all_partitions(cluster))


@pytest.mark.parametrize("way", WAYS)
def test_members_come_and_go_and_share(way: str) -> None:
    cluster, settings = cluster_of(way, {"t": 5, "u": 4})
    first = cluster.member(**settings)
    cluster.settle(first)
    check_one_owner(cluster, first)
    others = [cluster.member(**settings) for _ in range(2)]
    cluster.settle(first, *others)
    check_one_owner(cluster, first, *others)
    assert sorted(len(each.owned()) for each in (first, *others)) in ([3, 3, 3], [2, 3, 4])  # range: topic by topic
    others[0].close()
    cluster.settle(first, others[1])
    check_one_owner(cluster, first, others[1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(4))
def test_no_record_is_lost_or_comes_twice_while_members_come_and_go(way: str, seed: int) -> None:
    """Members poll at their own pace, come, and leave in an orderly way; what goes to another is committed before."""
    cluster, settings = cluster_of(way, {"t": 4, "u": 3}, records=60, seed=seed)
    chance = cluster.chance
    settings |= {"auto.commit.interval.ms": 70}
    members = [cluster.member(**settings)]
    for _ in range(250):
        cluster.run(chance.randrange(1, 25))
        act = chance.random()
        if act < 0.06 and len(members) < 4:
            members.append(cluster.member(**settings))
        elif act < 0.10 and len(members) > 1:
            members.pop(chance.randrange(len(members))).close()
        elif act < 0.13:
            each = chance.choice(members)
            paused = [where for where in each.owned() if chance.random() < 0.3]
            each.recall()
            each.core.pause(paused, True)
        elif act < 0.2:
            each = chance.choice(members)
            each.core.pause(each.core.paused(), False)
        elif act < 0.5:
            chance.choice(members).iterate()
        else:
            chance.choice(members).poll(chance.choice((1, 3, 50)))
    for each in members:
        each.recall()
        each.core.pause(each.core.paused(), False)
    cluster.settle(*members)
    check_one_owner(cluster, *members)
    cluster.run(1500, members)
    for where in all_partitions(cluster):
        assert cluster.handed_out[where] == list(range(60)), where


@pytest.mark.parametrize("way", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_breaks_nothing_is_lost(way: str, seed: int) -> None:
    """Members vanish, stand still for longer than they may, and lose their connections: records may come again."""
    cluster, settings = cluster_of(way, {"t": 5}, records=80, seed=seed)
    chance = cluster.chance
    settings |= {"max.poll.interval.ms": 300, "auto.commit.interval.ms": 50}
    if way != "consumer":  # where the broker says so
        settings |= {"session.timeout.ms": 200}
    members = [cluster.member(**settings) for _ in range(3)]
    for _ in range(120):
        act = chance.random()
        if act < 0.05 and len(members) > 1:
            members.pop(chance.randrange(len(members))).stopped = True
        elif act < 0.10 and len(members) < 4:
            members.append(cluster.member(**settings))
        elif act < 0.2:
            chance.choice(members).cut()
        elif act < 0.25:
            chance.choice(members).commit()
        cluster.run(chance.randrange(1, 120), chance.sample(members, chance.randrange(len(members) + 1)))
    cluster.settle(*members)
    check_one_owner(cluster, *members)
    cluster.run(1500, members)
    for where in all_partitions(cluster):
        found = cluster.handed_out[where]
        assert set(found) == set(range(80)), f"{where} lost {sorted(set(range(80)) - set(found))}"


class Worker(Member):
    """An application that is done with records when it asks for the next ones; what it has in hand dies with it."""

    def __init__(self, cluster: Cluster, done: set[tuple[TopicPartition, int]], **settings: Any) -> None:
        self.done = done
        self.in_hand: list[tuple[TopicPartition, int]] = []
        super().__init__(cluster, tuple(cluster.topics), **settings)
        cluster.members.append(self)

    def _handed_out(self, record: ConsumerRecord) -> TopicPartition:
        where = super()._handed_out(record)
        self.in_hand.append((where, record.offset))
        return where

    def _is_done(self) -> None:
        self.done.update(self.in_hand)
        self.in_hand.clear()

    def poll(self, count_max: int = 3) -> list[TopicPartition]:
        self._is_done()
        return super().poll(count_max)

    def iterate(self) -> None:
        self._is_done()
        super().iterate()

    def kill(self) -> None:
        """SIGKILL in the midst of its work."""
        self.stopped = True
        self.in_hand.clear()


@pytest.mark.parametrize("way", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("seed", range(2))
def test_what_a_killed_consumer_had_in_hand_comes_again(way: str, seed: int) -> None:
    """Auto commit, seeks back, pauses, broken connections, and consumers that are killed between any two steps."""
    cluster, settings = cluster_of(way, {"t": 4}, records=40, seed=seed)
    chance = cluster.chance
    settings |= {"auto.commit.interval.ms": 20}
    if way != "consumer":
        settings |= {"session.timeout.ms": 200}
    done: set[tuple[TopicPartition, int]] = set()
    workers = [Worker(cluster, done, **settings) for _ in range(2)]
    kills = 0
    for _ in range(200):
        cluster.run(chance.randrange(1, 25))
        act, each = chance.random(), chance.choice(workers)
        if act < 0.06:
            each.kill()
            kills += 1
            workers.remove(each)
            workers.append(Worker(cluster, done, **settings))
        elif act < 0.09:
            each.cut()
        elif act < 0.13 and each.owned():
            where = chance.choice(sorted(each.owned()))
            each.recall()
            standing = each.core.fetcher.positions[where].next_offset
            if standing is not None:
                each.core.seek(where, chance.randrange(standing + 1))
        elif act < 0.16 and each.owned():
            each.recall()
            each.core.pause([chance.choice(sorted(each.owned()))], True)
        elif act < 0.25:
            each.recall()
            each.core.pause(each.core.paused(), False)
        elif act < 0.5:
            each.iterate()
        else:
            each.poll(chance.choice((1, 3, 50)))
    for each in workers:
        each.recall()
        each.core.pause(each.core.paused(), False)
    cluster.settle(*workers)
    check_one_owner(cluster, *workers)
    cluster.run(1500, workers)
    for each in workers:
        each.poll()
    assert kills > 5
    missing = {(where, offset) for where in all_partitions(cluster) for offset in range(40)} - done
    assert not missing, sorted(missing)


@pytest.mark.parametrize("by_epochs", [False, True])
def test_a_pattern_takes_in_what_is_made_later(by_epochs: bool) -> None:
    cluster = Cluster({"ta": 2, "other": 1}, by_epochs=by_epochs)
    one, two = cluster.member(pattern="t.*"), cluster.member(pattern="t.*")
    cluster.settle(one, two)
    assert {where.topic for where in one.owned() | two.owned()} == {"ta"}
    cluster.topics["tb"] = 2
    for each in (one, two):
        each.learn()
    cluster.run(5000, (one, two))
    cluster.settle(one, two)
    assert sorted(one.owned() | two.owned()) == sorted(TopicPartition(t, n) for t in ("ta", "tb") for n in range(2))


@pytest.mark.parametrize("by_epochs", [False, True])
def test_partitions_that_are_added_are_shared_out(by_epochs: bool) -> None:
    cluster = Cluster({"t": 2}, by_epochs=by_epochs)
    one, two = cluster.member(), cluster.member()
    cluster.settle(one, two)
    cluster.topics["t"] = 6
    for each in (one, two):
        each.learn()
    cluster.run(5000, (one, two))
    cluster.settle(one, two)
    check_one_owner(cluster, one, two)
