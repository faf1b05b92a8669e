"""The fetch request's decision: answer now, or wait; and what ends the wait."""

from __future__ import annotations

from typing import Any

from barnabas.explain.stage import Asked, Stage, one_record
from barnabas.explain.telling import Walk

SIZE = len(one_record())


def walk() -> Walk:
    """The four reasons for an answer at once, the sum that ends a wait, and the lettered cases."""
    told = Walk(
        "The fetch: answer now, or wait",
        f"A fetch reads once. If that will not do it waits, watched by all its partitions, and every event on one of "
        f"them asks again. Every batch here has {SIZE} bytes. The letters are those of barnabas/broker/replica/"
        "delayed_fetch.py.",
    )
    _at_once(told)
    _the_sum(told)
    _who_may_read(told)
    _the_cases(told)
    told.after = "Whatever ended the wait, the answer is a fresh read: it never carries what the first read found."
    return told


def _at_once(told: Walk) -> None:
    stage = Stage((1, 2), (1,))
    stage.produce(1, acks=1)
    told.step("Nobody waits with max.wait 0.", {"fetch": stage.fetch({2: 0}, wait_ms=0).told()})
    told.step("Nobody waits for nothing.", {"fetch": stage.fetch({}).told()})
    told.step("Nobody waits when the bytes are there.", {"fetch": stage.fetch({1: 0}, min_bytes=SIZE).told()})
    asked = stage.fetch({2: 0, 1: 5})
    told.step("Nobody waits when one partition has an error (P1 ends at 1).", {"fetch": asked.told()})


def _the_sum(told: Walk) -> None:
    stage = Stage((1, 2), (1,))
    asked = stage.fetch({1: 0, 2: 0}, name="F", min_bytes=2 * SIZE)
    told.step("Else it waits: here for two batches, from P1 and P2 together.", _look(stage, asked))
    stage.produce(1, acks=1)
    told.step("G: a batch for P1. What is there counts; it is one of two.", _look(stage, asked))
    stage.produce(2, acks=1)
    told.step("G: a batch for P2. The sum over the partitions is enough.", _look(stage, asked))
    late = stage.fetch({1: 1}, name="F", wait_ms=500)
    stage.advance(500)
    told.step("The time is up, and nothing came: it is answered with nothing.", {"fetch": late.told()})


def _who_may_read(told: Walk) -> None:
    stage = Stage((1,), (1, 2))
    follower = stage.fetch({1: 0}, name="F2", replica=2)
    consumer = stage.fetch({1: 0}, name="F1")
    stage.produce(1, acks=1)
    told.step(
        "A follower reads up to the log end, a consumer up to the high watermark: an append answers "
        "the follower alone.",
        {"follower": follower.told(), "consumer": consumer.told(), "logs": stage.logs()},
    )
    stage.fetch({1: 1}, replica=2, wait_ms=0)
    told.step(
        "The follower comes again, from 1: the high watermark rises, which answers the consumer.",
        {"consumer": consumer.told(), "logs": stage.logs()},
    )


def _the_cases(told: Walk) -> None:
    stage = Stage((1,), (1, 2))
    asked = stage.fetch({1: 0}, name="F2", replica=2, wait_ms=60_000)
    fenced = stage.fetch({1: 0}, name="F", leader_epoch=0, wait_ms=60_000)
    stage.change(1, leader=2)
    told.step("A, B: the partition is led elsewhere now, and a follower needs the leader.", {"fetch": asked.told()})
    told.step("E: a consumer asked for the epoch that ended with it.", {"fetch": fenced.told()})

    stage = Stage((1,), (1,))
    asked = stage.fetch({1: 0}, name="F", wait_ms=60_000)
    stage.remove_topic()
    told.step("C: the topic is deleted.", {"fetch": asked.told()})

    stage = Stage((1,), (1,), log_flush_interval_messages=1)
    asked = stage.fetch({1: 0}, name="F", wait_ms=60_000)
    stage.fail_disk(1)
    produced = stage.produce(1, acks=1)
    told.step(
        "D: Kafka takes the partitions of a failed disk offline, which answers. Here such a log refuses writes and is "
        "read on, so who waits goes on waiting; only a log that could not be opened at all is offline.",
        {"produce": produced.told(), "fetch": asked.told()},
    )

    stage = Stage((1,), (1, 2))
    stage.produce(1, acks=1)
    asked = stage.fetch({1: 1}, wait_ms=60_000)
    told.step("F1: a consumer asks beyond the high watermark: nothing, at once.", {"fetch": asked.told()})
    asked = stage.fetch({1: 1}, name="F2", replica=2, wait_ms=60_000)
    stage.truncate(1, 0)
    told.step("F1: the log is cut below the offset from which a follower waits.", {"fetch": asked.told()})

    stage = Stage((1,), (1,))
    asked = stage.fetch({1: 0}, name="F", min_bytes=10 * SIZE, wait_ms=60_000)
    stage.produce(1, acks=1)
    stage.roll(1)
    stage.produce(1, acks=1)
    told.step(
        "F2: the log went on in a new segment. Bytes are counted within one, so it is answered, whatever it asked for.",
        {"fetch": asked.told()},
    )

    stage = Stage((1,), (1, 2))
    stage.produce(1, 1, acks=1)
    stage.fetch({1: 1}, replica=2, wait_ms=0)
    stage.produce(1, acks=1)
    stage.change(1, leader=1)
    asked = stage.fetch({1: 2}, name="F2", replica=2, last_fetched_epoch=0, wait_ms=60_000)
    stage.truncate(1, 1)
    told.step("H: the log no longer has the follower's last epoch up to there.", {"fetch": asked.told()})


def _look(stage: Stage, asked: Asked) -> dict[str, Any]:
    return {"fetch": asked.told(), "lists": stage.lists()}
