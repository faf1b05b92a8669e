"""What must hold, one small checker a property. Each hears of the history as it happens, and knows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.history import Committed, Event, Looked, Uncertain

Rules: TypeAlias = "dict[type, Callable[[Any], None]]"
"""What a checker wants to hear of, and where."""
_OF_COMMITTED: Final = (Looked, Committed)
"""What promises to stay as it is, until a leader may lack it."""


class Check:
    """A property. `rules` are called with the events of their type and raise `Broken`."""

    rules: Rules


class Checks:
    """All checkers of a run."""

    def __init__(self, checks: Iterable[Check]) -> None:
        self._uncertain: set[TopicPartition] = set()
        self._rules: dict[type, list[Callable[[Any], None]]] = {
            Uncertain: [lambda event: self._uncertain.add(event.partition)]
        }
        self.events = 0
        for check in checks:
            for kind, rule in check.rules.items():
                self._rules.setdefault(kind, []).append(rule)

    def see(self, event: Event) -> None:
        """Something happened.

        Raises:
            Broken: it must not.
        """
        self.events += 1
        if self._uncertain and isinstance(event, _OF_COMMITTED) and event.partition in self._uncertain:
            return
        for rule in self._rules.get(type(event), ()):
            rule(event)


def all_checks() -> list[Check]:
    """A checker of each kind."""
    from barnabas.simulator.checks.agreement import Agreement
    from barnabas.simulator.checks.anew import Anew
    from barnabas.simulator.checks.answers import Answers
    from barnabas.simulator.checks.bounds import Bounds
    from barnabas.simulator.checks.committed_offsets import CommittedOffsets
    from barnabas.simulator.checks.consumed import Consumed
    from barnabas.simulator.checks.decisions import Decisions
    from barnabas.simulator.checks.duplicates import Duplicates
    from barnabas.simulator.checks.epochs import EpochCaches
    from barnabas.simulator.checks.high_watermark import HighWatermark
    from barnabas.simulator.checks.images import Images
    from barnabas.simulator.checks.in_sync import InSync
    from barnabas.simulator.checks.inconsistent_offsets import InconsistentOffsets
    from barnabas.simulator.checks.leaders import Leaders
    from barnabas.simulator.checks.lives import Lives
    from barnabas.simulator.checks.lost_writes import LostWrites
    from barnabas.simulator.checks.metadata import Metadata
    from barnabas.simulator.checks.minimum import Minimum
    from barnabas.simulator.checks.order import Order
    from barnabas.simulator.checks.owners import Owners
    from barnabas.simulator.checks.parked import ParkedOperations
    from barnabas.simulator.checks.polls import Polls
    from barnabas.simulator.checks.proposals import Proposals
    from barnabas.simulator.checks.settled import Settled
    from barnabas.simulator.checks.synced import SyncedFirst
    from barnabas.simulator.checks.terms import Terms
    from barnabas.simulator.checks.unclean import Unclean
    from barnabas.simulator.checks.unseen import Unseen
    from barnabas.simulator.checks.zombies import Zombies

    return [
        LostWrites(),
        Duplicates(),
        Order(),
        InconsistentOffsets(),
        Polls(),
        Unseen(),
        Anew(),
        Unclean(),
        HighWatermark(),
        Leaders(),
        Decisions(),
        InSync(),
        Minimum(),
        SyncedFirst(),
        Proposals(),
        Lives(),
        Terms(),
        Metadata(),
        Images(),
        Agreement(),
        EpochCaches(),
        ParkedOperations(),
        Bounds(),
        Answers(),
        CommittedOffsets(),
        Owners(),
        Zombies(),
        Consumed(),
        Settled(),
    ]
