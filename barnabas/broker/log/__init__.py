"""One partition's log, and all logs of one data directory.

    log = Log(disk, "orders-0", TopicPartition("orders", 0), topic_id, config)   # then: yield from log.recover(...)
    manager = LogManager(disk, broker_config, config_of, wall_clock)             # then: yield from manager.load()

Every call is synchronous. What needs bytes that are not in memory raises `ports.NotYet` **before it changed
anything**: park on the token and call again. What takes long is a job (a generator, see `broker/jobs.py`).

`Log`
    identity      `topic_partition`, `topic_id`, `directory`, `config` (`configure` replaces it)
    offsets       `log_start_offset`, `high_watermark`, `last_stable_offset` (the high watermark until transactions
                  come), `log_end_offset`, `recovery_point` (all below is on stable storage): ints, and
                  `log_end_metadata`, `placed_high_watermark()`, `placed_last_stable()`: `OffsetMetadata`
                  (the place is looked up once where it is not known, as after a start)
    append        `append_as_leader(records, leader_epoch, now_ms, validate_full=False, asker=None, origin=CLIENT)
                  -> AppendInfo`
                  `append_as_follower(records, *, leader_epoch=EPOCH_MAX, now_ms=-1) -> AppendInfo | None`
                  `now_ms` is the time of day.
                  Patches a writable buffer in place and takes no reference to it. Raises `KafkaError` (`InvalidRecord`
                  with `record_errors`), or `Costly` for a batch to look through apart or to stage first
    read          `read(offset, max_bytes, isolation, min_one=True) -> FetchData`
                  `offset_metadata(offset) -> OffsetMetadata`
                  `offset_for_timestamp(ms)`, `offset_of_max_timestamp() -> TimestampOffset | None`
    watermarks    `advance_high_watermark(OffsetMetadata | int) -> bool`, `commit_all() -> bool` (never backwards),
                  `raise_log_start_offset(offset) -> bool` (DeleteRecords, a follower's leader)
    epochs        `assign_epoch(epoch)` (at LEO), `latest_epoch`, `end_offset_for_epoch(epoch) -> EpochEnd`
    durability    `when_durable(offset, callback)`: calls `callback(None | KafkaError)` once all below `offset` is on
                  stable storage, never from inside the call; starts the sync itself
    cut           `truncate_to(offset)`, `truncate_fully_and_start_at(offset)`
    producers     `producers`: state of idempotent producers; `expire_producers(now_ms, expiration_ms)`
    jobs          `recover(...)`, `retain(now_ms)`, `compact(now_ms, ...)`, `flush()`, `mend_indexes()`, `close()`
    `failed`      a sync failed: appends raise KAFKA_STORAGE_ERROR until the broker is started anew; reads go on
    `ending`      the broker stops: appends raise NOT_LEADER_OR_FOLLOWER; reads go on

`LogManager`
    `load(topic_ids?) -> Job`: all logs of the directory, clean or not, with checkpoints
    `get(tp) -> Log | None`, `logs` (dict by `TopicPartition`), `config_of` (callable, given at construction)
    `create(tp, topic_id, config) -> Log` (raises KafkaError), `delete(tp)` (renamed at once, removed after
    `file.delete.delay.ms`), `stray(tp)` (renamed, its bytes stay)
    `start(now_ms)`, `next_deadline_ms() -> int | None`, `due_jobs(now_ms) -> list[Job]`: retention, compaction, flush,
    checkpoints, producer expiry and removal of deleted files, each when it is due (monotonic ms)
    `shutdown() -> Job`: flush, snapshots, checkpoints, and last of all the clean shutdown marker
"""

from __future__ import annotations

from barnabas.broker.log.log import Log
from barnabas.broker.log.manager import LogManager
from barnabas.broker.log.types import (
    AppendInfo,
    AppendOrigin,
    EpochEnd,
    FetchData,
    InvalidRecord,
    Isolation,
    OffsetMetadata,
    TimestampOffset,
)

__all__ = [
    "AppendInfo",
    "AppendOrigin",
    "EpochEnd",
    "FetchData",
    "InvalidRecord",
    "Isolation",
    "Log",
    "LogManager",
    "OffsetMetadata",
    "TimestampOffset",
]
