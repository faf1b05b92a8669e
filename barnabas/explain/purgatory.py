"""The nine steps of one produce, one consumer and three followers, with the watch lists after each."""

from __future__ import annotations

from typing import Any

from barnabas.explain.stage import Stage, one_record
from barnabas.explain.telling import Walk

FOLLOWERS = (2, 3, 4)


def walk() -> Walk:
    """Two partitions, replication factor 4: this broker leads, brokers 2, 3 and 4 follow."""
    stage = Stage((1, 2), (1, *FOLLOWERS))
    minimum = len(one_record()) + 1
    told = Walk(
        "The purgatory: one produce, one consumer, three followers",
        "Partitions P1 and P2 are led by broker 1 and followed by 2, 3 and 4. An answer that cannot be given yet is an "
        "operation in the list of every partition it watches (DP: delayed produce, F: delayed fetch); an event on a "
        "partition tries that list alone. * marks an entry that is completed and not purged yet. All fetches ask for "
        f"{minimum} bytes at least: one batch and a byte.",
    )

    def look(**more: Any) -> dict[str, Any]:
        return {**more, "lists": stage.lists(), "logs": stage.logs()}

    produced = stage.produce(1, name="DP")
    told.step("A produce to P1 with acks=all is appended, and waits until all in sync have it.", look())
    consumer = stage.fetch({1: 0}, name="F1", min_bytes=minimum)
    told.step("A consumer fetches P1 from 0. It may read up to the high watermark, where nothing is yet.", look())
    for index, follower in enumerate(FOLLOWERS):
        stage.fetch({1: 0, 2: 0}, name=f"F{follower}", replica=follower, min_bytes=minimum)
        what = (
            "fetches P1 and P2 from 0. It may read up to the log end, where one batch is too little: one operation, "
            "in two lists."
        )
        told.step(f"Follower {follower} {what if not index else 'does the same.'}", look())
    for follower in FOLLOWERS:
        stage.fetch({1: 1, 2: 0}, replica=follower, wait_ms=0)
    told.step(
        "The followers come again, from offset 1 of P1, which says that they have what lies below. With the third the "
        "high watermark rises, and the produce is answered.",
        look(produce=produced.told()),
    )
    told.step(
        "The rise tries the consumer's fetch too: one batch can be read now, it asked for a byte more.",
        {"consumer": consumer.told(), "it could have": stage.fetch({1: 0}, wait_ms=0).told()},
    )
    stage.produce(1, acks=1)
    told.step(
        "A second produce to P1, with acks=1. The append tries P1's list: two batches are enough for the three "
        "followers, whose answers leave. In P2's list they stay behind.",
        look(),
    )
    for follower in FOLLOWERS:
        stage.fetch({1: 2, 2: 0}, replica=follower, wait_ms=0)
    told.step(
        "The followers come again, from 2. The high watermark rises to 2, and the consumer has its two batches.",
        look(consumer=consumer.told(), counts=stage.counts()),
    )
    purged = sum(purgatory.purge() for purgatory in stage.purgatories())
    told.after = (
        f"What is left is {purged} entries that nobody waits for. Once more than "
        f"{stage.purgatories()[1].purge_interval} operations have finished, a purge takes such entries away; done now, "
        f"it leaves {stage.lists() or 'nothing'}."
    )
    return told
