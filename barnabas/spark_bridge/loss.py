"""Records that a task was to read and that are gone: what exactly, and where to go on. `failOnDataLoss` decides.

planned 10 to 20, the log begins at 14     10 to 13 are gone       goes on at 14
planned 10 to 20, the log begins at 30     10 to 19 are gone       ends
planned 10 to 20, the log ends at 16       16 to 19 are gone       ends, once it has read up to there
planned 10 to 20, the topic is gone        10 to 19 are gone       ends
planned 10 to 20, read up to 15, then the
log is cut at 12 and grows to 30 or more   12 to 19 are gone       goes on at 15, with the records that are there now
"""

from __future__ import annotations

import logging

from barnabas.client.consumer import Consumer
from barnabas.client.errors import LogTruncated
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import OffsetError, Span
from barnabas.spark_bridge.options import SourceOptions

log = logging.getLogger(__name__)


def after_loss(consumer: Consumer, span: Span, position: int, why: str, silent_ms: int, options: SourceOptions) -> int:
    """Where to go on after records were found gone; the span's end where nothing of it is left.

    Without failOnDataLoss what is there is read, even if it was not a moment ago: a log that lost its end grows again.

    Raises:
        OffsetError: failOnDataLoss is set.
    """
    where, onward = span.where, span.end
    if exists(consumer, where):
        first, latest = consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]
        if position < first:
            onward = min(first, span.end)
        elif position < latest and not options.fail_on_data_loss and silent_ms < options.silent_ms_max:
            return position
    what = f"{where}: the records from offset {position} to {onward - 1} are gone ({why})"
    if options.fail_on_data_loss:
        raise OffsetError(
            f"{what}: they were deleted by retention, or the topic was deleted or recreated. Set failOnDataLoss to "
            "false to go on without them"
        )
    log.warning("%s, and failOnDataLoss is false", what)
    return onward


def after_cut(found: LogTruncated, span: Span, options: SourceOptions) -> int:
    """Where to go on in a log that lost its end and has grown anew meanwhile: where it was read up to.

    Raises:
        OffsetError: failOnDataLoss is set.
    """
    what = (
        f"{span.where}: the log was cut at offset {found.end}, and was read up to {found.position}: the records from "
        f"{found.end} to {span.end - 1} are gone, and others may have their offsets"
    )
    if options.fail_on_data_loss:
        raise OffsetError(f"{what}. Set failOnDataLoss to false to go on with those that are there now")
    log.warning("%s; failOnDataLoss is false", what)
    return found.position


def after_silence(consumer: Consumer, span: Span, position: int, silent_ms: int, options: SourceOptions) -> int:
    """No record came although the span is not at its end: the log may be gone or cut, or the broker is slow.

    Raises:
        OffsetError: records are gone, and failOnDataLoss is set; or they did not come for too long.
    """
    if not exists(consumer, span.where):
        return after_loss(consumer, span, position, "the topic was deleted", silent_ms, options)
    # Records of an open transaction are behind the end that read_committed sees, and they are there.
    latest = max(consumer.end_offsets([span.where])[span.where], consumer.high_watermark(span.where))
    if position >= latest:  # of a log that was cut, what is left comes first
        return after_loss(consumer, span, position, f"the log ends at {latest}", silent_ms, options)
    if silent_ms >= options.silent_ms_max:
        raise OffsetError(
            f"{span.where}: nothing came at offset {position} for {silent_ms} ms, though the log ends at {latest}: "
            "look at the broker (a transaction may be open), or raise kafkaConsumer.pollTimeoutMs"
        )
    return position


def exists(consumer: Consumer, where: TopicPartition) -> bool:
    """Whether the partition is there; a topic that is unknown is asked for for a second."""
    try:
        return where.partition in consumer.partitions_for(where.topic)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False
