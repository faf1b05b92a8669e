"""Metadata: what controllers have committed is never lost.

all controllers have the same batches at the same offsets below what is committed, in every life
whoever leads a term has all that was committed in earlier ones
a log holds what it knows to be committed, from its newest snapshot on
nobody finds that he cannot follow: that others have lost what he has

    written in term 6, committed in term 6    the leader of term 7 has it: as it must    lacks it: broken
    written in term 6, committed in term 8                                               lacks it: as it may
"""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Elected, Parted, Recorded, Stands
from barnabas.simulator.world import Broken


class Metadata(Check):
    """Batches by their first offset: last offset, term and sum, and in which term they are committed at the latest."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[str, tuple[int, int, int], int]] = {}
        self._leaders: dict[int, Elected] = {}
        self.rules = {Recorded: self._recorded, Elected: self._elected, Stands: self._stands, Parted: self._parted}

    def _recorded(self, event: Recorded) -> None:
        told = (event.last_offset, event.term, event.crc)
        known = self._batches.get(event.offset)
        if known is None:
            self._batches[event.offset] = event.voter, told, event.known_in
            for leader in self._leaders.values():
                self._compare(leader, event.last_offset, event.known_in)
        elif known[1] != told:
            raise Broken(
                f"metadata: {event.voter} has committed {told} (last offset, term, sum) at offset {event.offset}, "
                f"{known[0]} {known[1]}"
            )

    def _elected(self, event: Elected) -> None:
        self._leaders[event.term] = event
        for _, (last_offset, _, _), known_in in self._batches.values():
            self._compare(event, last_offset, known_in)

    def _compare(self, leader: Elected, last_offset: int, term: int) -> None:
        if term < leader.term and last_offset >= leader.start:
            raise Broken(
                f"metadata: {leader.voter} leads term {leader.term} from offset {leader.start} on, and {last_offset} "
                f"was committed in term {term}"
            )

    def _stands(self, event: Stands) -> None:
        if not event.start <= event.committed <= event.end:
            raise Broken(
                f"metadata: {event.voter} has a snapshot up to {event.start}, knows of {event.committed} to be "
                f"committed, and its log ends at {event.end}"
            )

    def _parted(self, event: Parted) -> None:
        raise Broken(f"metadata: {event.broker} can follow no further: {event.why}")
