"""What is watched, what is delayed, what is left over, and when that is swept."""

from __future__ import annotations

from typing import Any

from barnabas.broker.delayed.purgatory import PURGE_INTERVAL_COUNT
from barnabas.explain.stage import Stage
from barnabas.explain.telling import Walk

INTERVAL = 4


def walk() -> Walk:
    """One partition that is written to, and one that nobody writes to."""
    stage = Stage((1, 2), (1,), fetch_purgatory_purge_interval_requests=INTERVAL)
    fetches = stage.purgatories()[1]
    told = Walk(
        "The purge: what completed operations leave behind, and when it goes",
        "An operation is in the timer once and in the list of every key it watches. Watched counts entries of lists, "
        "delayed those in the timer. Who is completed by one key's event leaves the timer and that list at once; in "
        "its other lists it stays behind, for looking through all of them each time would cost more. A purge takes "
        f"these away once more than so many operations have finished; here {INTERVAL}, by default "
        f"{PURGE_INTERVAL_COUNT} (fetch.purgatory.purge.interval.requests).",
    )

    def look() -> dict[str, Any]:
        finished = fetches.estimated_total - fetches.num_delayed
        return {
            "lists": stage.lists(),
            "watched": fetches.watched,
            "delayed": fetches.num_delayed,
            "finished": f"{finished} since the last purge; swept above {fetches.purge_interval}",
        }

    for number in (1, 2):
        stage.fetch({1: 0, 2: 0}, name=f"F{number}", wait_ms=60_000)
    told.step("Two consumers fetch P1 and P2, and wait: two operations, four entries.", look())
    stage.produce(1, acks=1)
    told.step("A record comes to P1: both are answered and leave P1's list. In P2's they stay.", look())
    for number in (3, 4):
        stage.fetch({1: 1, 2: 0}, name=f"F{number}", wait_ms=60_000)
    stage.produce(1, acks=1)
    told.step(
        "Two more come, and are answered by P1. Four have finished, which is not more than four: they stay.", look()
    )
    stage.fetch({1: 2, 2: 0}, name="F5", wait_ms=60_000)
    stage.produce(1, acks=1)
    told.step("A fifth. Now more than four have finished; the next look of the reaper is due within 200 ms.", look())
    stage.fetch({2: 0}, name="F6", wait_ms=60_000)
    stage.advance(200)
    told.step("F6 came, and 200 ms have passed: all leftovers are gone. Who waits was not looked at.", look())
    stage.produce(2, acks=1)
    told.step("A record comes to P2, and F6 is answered.", look())
    told.after = (
        "Kafka walks through every list; this purgatory remembers who has finished and goes to their entries alone, so "
        "a purge costs what has finished, however many wait."
    )
    return told
