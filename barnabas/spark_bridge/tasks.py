"""What Spark carries from a plan to a task, which offsets it reads; and what a worker does once, before it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import Span
from barnabas.spark_bridge.origin import Origin
from barnabas.spark_bridge.quick_ack import acknowledge_quickly


@dataclass
class SpanPartition(InputPartition):
    """One task: the records of one span; `topic_id` is empty and `leader_epoch` -1 where it is not known."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str
    leader_epoch: int

    def __init__(self, span: Span, topic_id: str = "", leader_epoch: int = -1) -> None:
        super().__init__(None)
        (self.topic, self.partition), self.start, self.end = span
        self.topic_id, self.leader_epoch = topic_id, leader_epoch

    @property
    def span(self) -> Span:
        """What it reads."""
        return Span(TopicPartition(self.topic, self.partition), self.start, self.end)


@dataclass
class SpansPartition(InputPartition):
    """One task for several: what a planner reads itself, should Spark lose it."""

    tasks: list[SpanPartition]

    def __init__(self, tasks: list[SpanPartition]) -> None:
        super().__init__(None)
        self.tasks = tasks


def tasks_for(spans: Iterable[Span], origin: Origin, epochs: Mapping[TopicPartition, int]) -> list[SpanPartition]:
    """A task for each of these spans, whose offsets were counted in topics of this origin, under leaders of these."""
    return [SpanPartition(span, origin.topics.get(span.where.topic, ""), epochs.get(span.where, -1)) for span in spans]


def tasks_of(partition: InputPartition) -> list[SpanPartition]:
    """What a task reads, in order."""
    if isinstance(partition, SpansPartition):
        return partition.tasks
    assert isinstance(partition, SpanPartition)
    return [partition]


NOTHING: Final = Span(TopicPartition("", 0), 0, 0)
"""Spark wants a task even for a batch without records."""

_settled = False


def settle() -> None:
    """Once per worker process: what is loaded stays, so Spark's garbage collection after each task may pass it over."""
    global _settled
    if not _settled:
        import gc

        gc.freeze()
        acknowledge_quickly()
        _settled = True
