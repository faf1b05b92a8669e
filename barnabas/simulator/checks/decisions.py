"""Decisions: what a controller decides of leaders and in-sync replicas.

the ISR is one of replicas, and empty only while nobody leads; the leader is one of it, and alive
who leads next was in the ISR before, or, where nobody of it is alive, eligible, or, where nobody of those is, the last
leader: else he may lack what was committed; anyone, where the topic lets him and nobody of those is alive. Apart is a
move that ends, and takes the leader away with the change of the ISR by which that leader lets the new one in
nobody is in the ISR and eligible
whoever is fenced neither joins an ISR nor stays in one
a partition epoch rises with each change, a leader epoch with each change of the leader
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Decided
from barnabas.simulator.world import Broken


class Decisions(Check):
    """Each against the one before it."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, Decided] = {}
        self.rules = {Decided: self._decided}

    def _decided(self, event: Decided) -> None:
        before = self._last.get(event.partition)
        why = _wrong(event) or (before is not None and _wrong_after(before, event))
        if why:
            raise Broken(f"decisions: {event.partition} {why}: {event}, after {before}")
        self._last[event.partition] = event


def _wrong(event: Decided) -> str:
    if not set(event.isr) | set(event.elr) <= set(event.replicas) or (event.leader and not event.isr):
        return "has an ISR that is not of its replicas"
    if set(event.isr) & set(event.elr):
        return "has somebody in the ISR who is eligible, too"
    if event.leader and event.leader not in event.isr:
        return "is led from outside the ISR"
    if event.leader and event.leader not in event.alive:
        return "is led by a broker that is fenced"
    if len(event.isr) > 1 and not set(event.isr) <= set(event.alive):
        return "has a fenced broker in the ISR"
    return ""


def _may_lead(before: Decided, event: Decided) -> bool:
    """Of the ISR; where nobody of it is alive, eligible; where nobody of those is, the last leader (KIP-966).

    Who is fenced in this very step (and perhaps unfenced before anybody looked), or comes back without proof, is passed
    over; and so is a leader that gives up, whose log is damaged: it stays neither in the ISR nor eligible.
    """
    if before.leader and before.leader not in event.replicas:
        return event.leader in event.isr
    there = set(event.alive) - set(event.away)
    if before.leader not in (*event.isr, *event.elr):
        there.discard(before.leader)
    for some in (before.isr, before.elr, before.last_known):
        if event.leader in some:
            return True
        if there & set(some):
            return False
    return event.anyone


def _wrong_after(before: Decided, event: Decided) -> str:
    if event[:6] == before[:6]:
        return ""
    if event.partition_epoch <= before.partition_epoch:
        return "changes, and its partition epoch does not rise"
    if event.partition_epoch == before.partition_epoch + 1:  # else there was one between them that nobody saw
        if event.leader not in ("", before.leader) and not _may_lead(before, event):
            return "is led by a broker that was not in the ISR"
        if not set(event.isr) - set(before.isr) <= set(event.alive):
            return "takes a fenced broker into the ISR"
    if event.leader_epoch < before.leader_epoch or (
        event.leader != before.leader and event.leader_epoch == before.leader_epoch
    ):
        return "has another leader in the same epoch"
    return ""
