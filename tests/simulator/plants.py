"""Defects of a broker that stands alone, and of clients; each with the checker that has to find it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tests.durability.plants import Change
from tests.simulator.plant import Plant

_BACK_OFF: Final = "position.retry_at_ms = now_ms + self.config.retry_backoff_ms"

PLANTS: Final = MappingProxyType(
    {
        "acknowledged_unsynced": Plant(
            "With flush.messages=1 the high watermark does not wait for the sync.",
            (
                Change(
                    "barnabas.broker.replica.durable_end:DurableEnd.appended",
                    "if partition.log.when_durable(end.offset, lambda error: self._synced(partition, end, error)):",
                    "if True:",
                ),
            ),
            "in sync",
            76,
        ),
        "retention_without_age": Plant(
            "Retention by time lets every committed segment go, however young.",
            (Change("barnabas.broker.log.retention:_too_old", "now_ms - since_ms <= limit or ", ""),),
            "lost write",
            0,
        ),
        "retries_written_twice": Plant(
            "A batch that repeats one of the last five is written again.",
            (Change("barnabas.broker.log.producer_state:ProducerState.check", "return batch", "return None"),),
            "duplicate",
            78,
        ),
        "retry_reorders": Plant(
            "A producer puts what is to go again behind what is newer, and the broker takes it as it comes.",
            (
                Change(
                    "barnabas.client.produce.accumulator:Accumulator._insert",
                    "queue.batches.insert(position, batch)",
                    "queue.batches.append(batch)",
                ),
                Change(
                    "barnabas.client.produce.state:ProducerState.may_drain",
                    "return not any(each.topic_id != topic_id or (each.retry and not each.in_flight) "
                    "for each in state.in_flight)\n"
                    "    return bool(state.in_flight) and state.in_flight[0] is batch",
                    "return True\n    return True",
                ),
                Change(
                    "barnabas.broker.log.producer_state:ProducerState.check",
                    "if not batches or first_sequence == (batches[-1].last_sequence + 1) & _SEQUENCE_MASK:",
                    "if True:",
                ),
            ),
            "order",
            10,
        ),
        "marker_kept": Plant(
            "The marker of a clean stop is still there after the start that took it for one.",
            (
                Change(
                    "barnabas.broker.log.manager:LogManager.load", "disk.remove(checkpoint.CLEAN_SHUTDOWN_FILE)", "pass"
                ),
            ),
            "epochs",
            0,
        ),
        "watermark_off_by_one": Plant(
            "A leader without followers commits one record that is not there.",
            (
                Change(
                    "barnabas.broker.log.log:Log.commit_all",
                    "self._watermark = end, active.base, active.size",
                    "self._watermark = end + 1, active.base, active.size",
                ),
            ),
            "high watermark",
            0,
        ),
        "timer_too_late": Plant(
            "The host arms its timer three seconds too late.",
            (
                Change(
                    "barnabas.broker.host.ticks:Ticks.arm",
                    "max(0, due_ms - host.now_ms()) / 1000",
                    "3 + max(0, due_ms - host.now_ms()) / 1000",
                ),
            ),
            "parked",
            0,
        ),
        "answered_twice": Plant(
            "Every answer leaves twice.",
            (
                Change(
                    "barnabas.broker.host.in_flight:Request.respond",
                    "channel.send(buffers)",
                    "channel.send(buffers + buffers)",
                ),
            ),
            "answers",
            0,
        ),
        "failures_untold": Plant(
            "A batch that has failed is dropped, and nobody is told.",
            (Change("barnabas.client.produce.sender:Sender._fail", "self._finish(batch, error)", "pass"),),
            "settled",
            1,
        ),
        "consumer_goes_back": Plant(
            "After a lost answer a consumer begins one record earlier.",
            (
                Change(
                    "barnabas.client.consume.fetcher:Fetcher._delay",
                    _BACK_OFF,
                    f"{_BACK_OFF}; position.offset -= position.offset > 0",
                ),
            ),
            "poll goes back",
            0,
        ),
        "consumer_gives_up": Plant(
            "After a lost answer a consumer waits for days.",
            (Change("barnabas.client.consume.fetcher:Fetcher._delay", _BACK_OFF, f"{_BACK_OFF} + 10**9"),),
            "never seen",
            0,
        ),
    }
)
