"""What a task makes of records that are gone: which, and where it goes on. A consumer of the test's own answers."""

from __future__ import annotations

from typing import cast

import pytest

from barnabas import Consumer
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.loss import after_loss, after_silence
from barnabas.spark_bridge.offsets import OffsetError, Offsets, Span
from barnabas.spark_bridge.options import SourceOptions, read_options

WHERE = TopicPartition("a", 0)
SPAN = Span(WHERE, 10, 20)


class Log:
    """A consumer of a log from `first` to `latest`, and `watermark` with open transactions; none has no topic."""

    def __init__(self, first: int | None, latest: int = 0, watermark: int = -1) -> None:
        self.first, self.latest, self.watermark = first, latest, watermark

    def partitions_for(self, topic: str) -> list[int]:
        if self.first is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        return [0]

    def beginning_offsets(self, _: list[TopicPartition]) -> Offsets:
        assert self.first is not None
        return {WHERE: self.first}

    def end_offsets(self, _: list[TopicPartition]) -> Offsets:
        return {WHERE: self.latest}

    def high_watermark(self, _: TopicPartition) -> int:
        return self.watermark


def options(**given: str) -> SourceOptions:
    return read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "a", **given}, "stream")


@pytest.mark.parametrize(
    ("log", "position", "gone", "onward"),
    [
        (Log(14, 99), 10, (10, 13), 14),
        (Log(30, 99), 10, (10, 19), 20),
        (Log(20, 20), 12, (12, 19), 20),
        (Log(0, 5), 10, (10, 19), 20),
        (Log(None), 13, (13, 19), 20),
    ],
    ids=["partly", "wholly", "all the log", "cut", "deleted"],
)
def test_what_is_lost_is_said_to_the_record(
    log: Log, position: int, gone: tuple[int, int], onward: int, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = cast("Consumer", log)
    told = f"a-0: the records from offset {gone[0]} to {gone[1]} are gone (why)"
    with pytest.raises(OffsetError) as raised:
        after_loss(consumer, SPAN, position, "why", 0, options())
    assert str(raised.value).startswith(told)
    assert after_loss(consumer, SPAN, position, "why", 0, options(failOnDataLoss="false")) == onward
    assert told in caplog.text


def test_what_is_there_after_all_is_read_but_not_asked_for_without_end() -> None:
    """A log that lost its end and grew again: what was the end of a task may have become its middle."""
    consumer = cast("Consumer", Log(0, 15))
    chosen = options(failOnDataLoss="false", **{"kafkaConsumer.pollTimeoutMs": "500"})
    assert after_loss(consumer, SPAN, 12, "why", 400, chosen) == 12
    assert after_loss(consumer, SPAN, 12, "why", 500, chosen) == 20


def test_a_log_that_was_cut_within_a_task_is_read_up_to_where_it_ends() -> None:
    consumer = cast("Consumer", Log(0, 16))
    chosen = options(failOnDataLoss="false")
    assert after_silence(consumer, SPAN, 12, 5000, chosen) == 12
    assert after_silence(consumer, SPAN, 16, 5000, chosen) == 20
    with pytest.raises(OffsetError, match=r"from offset 16 to 19 are gone \(the log ends at 16\)"):
        after_silence(consumer, SPAN, 16, 5000, options())


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_of_an_open_transaction_are_not_lost(fail: str) -> None:
    """A restart asks for read_committed, and the batch it runs again was planned without."""
    consumer = cast("Consumer", Log(0, 16, watermark=20))
    chosen = options(failOnDataLoss=fail)
    assert after_silence(consumer, SPAN, 16, 5000, chosen) == 16
    with pytest.raises(OffsetError, match="nothing came at offset 16 for 120000 ms"):
        after_silence(consumer, SPAN, 16, 120_000, chosen)
