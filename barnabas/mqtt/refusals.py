"""What Kafka says against a record: that it will never take it, or not into this topic, or not now.

A message that is refused for good becomes a dead letter. A dead letter that is itself refused is sent once more without
its payload; when that is refused, too, it is lost, counted and logged: to send it for ever would hold up all behind it.
"""

from __future__ import annotations

from typing import Final

from barnabas.client.errors import InvalidRecord, RecordTooLarge
from barnabas.protocol.errors import ErrorCode, KafkaError

_OF_THE_RECORD: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
    }
)
_OF_THE_TOPIC: Final = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        # Of a timestamp, which is the bridge's own: the clock that is wrong, or the topic's bounds, can be set right.
        # Of several in one batch a producer tells INVALID_RECORD (Sender.java); so it does of a compacted topic.
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
    }
)
REASON_BYTES_MAX: Final = 1000


def of_the_record(error: BaseException) -> bool:
    """Whether it says that this record is none that the topic takes, today or tomorrow."""
    return isinstance(error, RecordTooLarge | InvalidRecord) or (
        isinstance(error, KafkaError) and error.code in _OF_THE_RECORD
    )


def of_the_topic(error: BaseException) -> bool:
    """Whether it says that the topic takes it not, until somebody sets something right."""
    return isinstance(error, KafkaError) and error.code in _OF_THE_TOPIC


def reason(why: str) -> bytes:
    """The value of the header `mqtt.refused`."""
    return why.encode(errors="replace")[:REASON_BYTES_MAX]
