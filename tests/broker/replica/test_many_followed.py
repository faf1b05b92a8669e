"""Very many partitions that follow one leader: asked for and told in slices, and in turns where there are too many.

An answer of 13,000 of them was taken, and the next asked for, in one step of 45 ms; and no leader decodes a request
that names more than 20,000, so that beyond that nothing at all was replicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.jobs import Job, at_once
from barnabas.broker.node.jobs import JobQueue
from barnabas.broker.replica import fetch, fetcher
from barnabas.broker.replica.follower import Follower
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.api import ApiKey
from barnabas.protocol.limits import REQUEST_ELEMENTS_MAX
from barnabas.protocol.requests.fetch import FetchRequest
from tests.broker.replica.brokers import Cluster

MANY = 11


@pytest.fixture
def slice_(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(fetcher, "SLICE", 2)
    return 2


def named(request: FetchRequest) -> list[int]:
    return [part.partition for topic in request.topics for part in topic.partitions]


def one_fetch(cluster: Cluster) -> list[FetchRequest]:
    """What broker 2 has on its way."""
    seen: list[FetchRequest] = []
    cluster.on_request = lambda sender, request: seen.append(request) if sender.broker_id == 2 else None
    cluster.settle()
    return seen


def written(cluster: Cluster, partitions: range) -> list[Any]:
    return [cluster.brokers[1].produce(b"v%d" % number, partition=number) for number in partitions]


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, *names: str) -> Counter[tuple[str, int]]:
    """How often each method is called, by its name and the step."""
    step = 0
    done: Counter[tuple[str, int]] = Counter()

    def count_calls(name: str) -> None:
        usual = getattr(owner, name)

        def count(self: Any, *arguments: Any) -> Any:
            done[name, step] += 1
            return usual(self, *arguments)

        monkeypatch.setattr(owner, name, count)

    for name in names:
        count_calls(name)
    usual_step = JobQueue.step

    def stepped(self: JobQueue) -> bool:
        nonlocal step
        step += 1
        try:
            return usual_step(self)
        finally:
            step += 1

    monkeypatch.setattr(JobQueue, "step", stepped)
    return done


def test_many_are_asked_for_and_told_in_slices(slice_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done = counted(monkeypatch, Follower, "is_busy", "asks", "take", "take_offset")
    cluster = Cluster(partitions=MANY)
    cluster.settle()
    answers = written(cluster, range(MANY))
    cluster.settle()
    assert all(answer.there for answer in answers)
    assert all(set(cluster.ends(number).values()) == {1} for number in range(MANY))
    assert {name for name, _ in done} == {"is_busy", "asks", "take"}
    assert max(done.values()) == slice_


def test_what_a_follower_of_many_asks_for_is_taken_in_by_its_leader_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 500 partitions was back in sync at once, and proposed so to the controller: 23 ms."""
    monkeypatch.setattr(fetch, "LEARNED_AT_ONCE_MAX", 2)
    done = counted(monkeypatch, Partition, "follower_fetched")
    cluster = Cluster(partitions=MANY)
    answers = written(cluster, range(MANY))
    cluster.settle()
    assert all(answer.there for answer in answers)
    assert max(done.values()) == 2


def test_who_is_woken_between_two_slices_is_looked_at_again(slice_: int) -> None:
    """The look had passed it, and asked for nothing."""
    cluster = Cluster(partitions=MANY)
    cluster.settle()
    broker = cluster.brokers[2]
    jobs: list[tuple[Job[None], Callable[[Exception | None], None]]] = []
    broker.manager.shared.run = lambda job, ended: jobs.append((job, ended))
    cluster.advance(broker.manager.shared.config.replica_fetch_wait_max_ms)
    following = broker.manager._following
    assert following is not None
    (one,) = following._fetchers.values()

    def finish() -> None:
        job, ended = jobs.pop()
        at_once(job)
        ended(None)
        broker.drain()

    finish()
    assert len(jobs) == 1, "what was answered is taken, and what comes next looked at"
    first, *_ = one.followers.values()
    for follower in one.followers.values():
        follower.not_before_ms = cluster.now_ms + 10_000
    next(jobs[0][0])
    first.not_before_ms = 0
    one.wake()
    broker.drain()
    finish()
    assert len(jobs) == 1
    finish()
    assert [named(message) for message in one_fetch(cluster)] == [[0]]


def test_more_than_one_request_may_name_are_named_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "ELEMENTS_MAX", 5)
    cluster = Cluster(partitions=MANY)
    asked: list[FetchRequest] = []
    cluster.on_request = lambda sender, request: (
        asked.append(request) if sender.broker_id == 2 and isinstance(request, FetchRequest) else None
    )
    cluster.settle()
    answers = written(cluster, range(MANY))
    cluster.advance(1000)
    assert all(answer.there for answer in answers)
    assert max(len(named(request)) for request in asked) == 4, "and their topic"
    assert {number for request in asked[-3:] for number in named(request)} == set(range(MANY))
    assert {request.max_wait_ms for request in asked} == {fetcher.TURN_WAIT_MS_MAX}


def test_a_request_names_no_more_than_a_leader_decodes() -> None:
    assert REQUEST_ELEMENTS_MAX[ApiKey.FETCH] > fetcher.ELEMENTS_MAX
    assert REQUEST_ELEMENTS_MAX[ApiKey.LIST_OFFSETS] >= fetcher.ELEMENTS_MAX
