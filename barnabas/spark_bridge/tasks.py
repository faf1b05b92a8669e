"""What Spark carries from a plan to a task, which offsets it reads; and what a worker does once, before it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import Span
from barnabas.spark_bridge.quick_ack import acknowledge_quickly


@dataclass
class SpanPartition(InputPartition):
    """One task: the records of one span; `topic_id` is empty where it is not known, or of no use."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str

    def __init__(self, span: Span, topic_id: str = "") -> None:
        super().__init__(None)
        (self.topic, self.partition), self.start, self.end = span
        self.topic_id = topic_id

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
