"""What goes wrong with one record on the client's side; what goes wrong on the way stands in `barnabas.net.errors`."""

from __future__ import annotations

from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition


class BufferExhausted(ClientTimeout):
    """No memory for the record within `max.block.ms` (Kafka's BufferExhaustedException)."""


class RecordTooLarge(BarnabasError, ValueError):
    """One record is larger than `max.request.size` or `buffer.memory` (Kafka's RecordTooLargeException).

    `row` is which one, of rows that were sent together (else -1), `detail` the sentence without it.
    """

    def __init__(self, detail: str, row: int = -1) -> None:
        super().__init__(detail if row < 0 else f"row {row}: {detail}")
        self.detail, self.row = detail, row


class InvalidRecord(BarnabasError, ValueError):
    """What was handed to `send` is no record: its topic, partition, timestamp or headers."""


class SerializationFailed(BarnabasError, ValueError):
    """A (de)serializer refused the key or the value.

    `topic`, and of a consumed record `partition` and `offset` as well (else -1), say of which: a consumer goes on
    behind it with `seek(TopicPartition(error.topic, error.partition), error.offset + 1)`.
    """

    def __init__(self, detail: str, topic: str = "", partition: int = -1, offset: int = -1) -> None:
        super().__init__(detail)
        self.topic, self.partition, self.offset = topic, partition, offset


class NoPosition(BarnabasError):
    """A partition has no position and `auto.offset.reset` is none: seek first (Kafka's NoOffsetForPartition)."""


class LogTruncated(KafkaError):
    """Records this consumer has read are no longer in the log (Kafka's LogTruncationException)."""

    def __init__(self, where: TopicPartition, position: int, end: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{where}: read up to offset {position}, but the new leader's log diverges at {end}; seek there to go on",
        )
        self.where, self.position, self.end = where, position, end


class CommitFailed(KafkaError):
    """The group went on without this consumer, which has not committed (Kafka's CommitFailedException).

    Its partitions are another member's by now, who begins at what was committed last.
    """

    def __init__(self, code: int, group_id: str) -> None:
        why = (
            "the group went on without this member and gave its partitions away: it took longer than "
            "max.poll.interval.ms between two polls, or was not heard for session.timeout.ms; poll to join again; "
            "handle fewer records at once (max.poll.records), or raise max.poll.interval.ms"
        )
        if code == ErrorCode.FENCED_INSTANCE_ID:
            why = "another member with the same group.instance.id has taken its place; give each one of its own"
        super().__init__(code, f"group {group_id}: not committed: {why}")
        self.group_id = group_id
