"""A produce with acks=all: every partition must be replicated; or the time is up; or too few are in sync."""

from __future__ import annotations

from typing import Any

from barnabas.explain.stage import Asked, Stage
from barnabas.explain.telling import Walk


def walk() -> Walk:
    """Two partitions of three replicas; then a time-out; then an ISR below its minimum."""
    told = Walk(
        "The produce: who is waited for, and for how long",
        "With acks=all an answer means that all in sync have the records of every partition of the request. The high "
        "watermark (HW) is the smallest log end of the ISR; a partition is done when it has reached what was written. "
        "The letters are those of barnabas/broker/replica/delayed_produce.py.",
    )
    _every_partition(told)
    _in_vain(told)
    _too_few(told)
    told.after = (
        "A fetch adds up over its partitions and has enough when the sum is enough; a produce needs each of them. "
        "Records of a produce that timed out stay in the log: a producer that tries again is idempotent for that."
    )
    return told


def _look(stage: Stage, asked: Asked, **more: Any) -> dict[str, Any]:
    return {"produce": asked.told(), **more, "lists": stage.lists(), "logs": stage.logs()}


def _every_partition(told: Walk) -> None:
    stage = Stage((1, 2), (1, 2, 3))
    leader_only = stage.produce(1, acks=1)
    told.step("acks=1: the leader has it, which is all that was asked for.", {"produce": leader_only.told()})
    asked = stage.produce(1, 2, name="DP")
    told.step("acks=all, to P1 and P2: it waits in both lists (D: neither is done).", _look(stage, asked))
    stage.fetch({1: 2}, replica=2, wait_ms=0)
    told.step("Follower 2 has all of P1. Follower 3 has not: the high watermark stays.", _look(stage, asked))
    stage.fetch({1: 2}, replica=3, wait_ms=0)
    told.step("Follower 3 has it too: P1 is done (C1) and leaves nothing to ask; P2 is not.", _look(stage, asked))
    for follower in (2, 3):
        stage.fetch({2: 1}, replica=follower, wait_ms=0)
    told.step("Both have all of P2: every partition is done, and the answer leaves.", _look(stage, asked))


def _in_vain(told: Walk) -> None:
    stage = Stage((1,), (1, 2))
    asked = stage.produce(1, name="DP", timeout_ms=1000)
    stage.advance(999)
    told.step("A follower says nothing. After 999 ms of a timeout of 1000:", _look(stage, asked))
    stage.advance(1)
    told.step("A millisecond later the timer completes it. The record stays where it was written.", _look(stage, asked))


def _too_few(told: Walk) -> None:
    stage = Stage((1,), (1, 2), min_insync_replicas=2)
    asked = stage.produce(1, name="DP")
    told.step("min.insync.replicas=2, and two are in sync: it is taken, and waits.", _look(stage, asked))
    stage.change(1, isr=(1,))
    told.step(
        "The follower leaves the ISR. Fewer than two are in sync, and below that the high watermark stands still "
        "(KIP-966): the record waits to be replicated, and so does the answer. (C2, an answer that it was written and "
        "not replicated, is left for a minimum that is raised meanwhile.)",
        _look(stage, asked),
    )
    told.step("The next one is refused before it is written.", {"produce": stage.produce(1).told()})
