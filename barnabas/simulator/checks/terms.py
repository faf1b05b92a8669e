"""Terms: of the quorum of controllers one at most leads a term, in one of its lives, and nobody votes twice in one.

A vote is on the disk of who gives it before anybody hears of it: he would give it again, to another one.

Committed is what a majority has, once a record of the leader's own term is among it: by count alone a later leader
could take back what an earlier one wrote (Raft, 5.4.2).
"""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Elected, Raised, Voted
from barnabas.simulator.world import Broken


class Terms(Check):
    """Whoever leads, and whoever was voted for, by term."""

    def __init__(self) -> None:
        self._leaders: dict[int, tuple[str, int]] = {}
        self._votes: dict[tuple[str, int], str] = {}
        self.rules = {Elected: self._elected, Voted: self._voted, Raised: self._raised}

    def _elected(self, event: Elected) -> None:
        who = (event.voter, event.incarnation)
        first = self._leaders.setdefault(event.term, who)
        if first != who:
            raise Broken(
                f"terms: {event.voter} (life {event.incarnation}) leads term {event.term}, as {first[0]} (life "
                f"{first[1]}) does"
            )

    def _voted(self, event: Voted) -> None:
        first = self._votes.setdefault((event.voter, event.term), event.candidate)
        if first != event.candidate:
            raise Broken(f"terms: {event.voter} votes in term {event.term} for {event.candidate}, and for {first}")
        if not event.kept:
            raise Broken(f"terms: {event.voter} votes in term {event.term} for {event.candidate}, and may forget it")

    def _raised(self, event: Raised) -> None:
        if event.last_term != event.term:
            raise Broken(
                f"terms: {event.voter} leads term {event.term}, and commits up to a record of term {event.last_term}"
            )
