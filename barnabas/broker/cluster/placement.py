"""Which brokers get a new partition: racks in turn, and in each rack its brokers in turn.

    racks A 1 2, B 3 4, C 5 6; three replicas        1 3 5     the first of each
                                                     4 6 2     from the next rack on, and of each the next broker
                                                     5 1 3
    brokers without a rack are all of one            1 2 3     then 2 3 1, and so on

Where it begins is chance's. An unfenced broker leads; those that are fenced come last in their rack. Racks count for
more than brokers: one broker alone in its rack has a replica of nearly everything.

Kafka's shuffles all lists when it has been once round, so that brokers do not always follow the same ones; here they
do. Source: `StripedReplicaPlacer` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from barnabas.broker.cluster.image import Image
from barnabas.protocol.errors import ErrorCode, KafkaError


class _Rack:
    """The brokers of one rack."""

    def __init__(self, below: Callable[[int], int], alive: list[int], fenced: list[int]) -> None:
        self.alive = alive
        self.fenced = fenced
        self._next = below(len(alive)) if len(alive) > 1 else 0

    def turn(self) -> Iterator[int]:
        """For one partition: each once, those that are alive first; it moves on if it is asked at all."""
        start = self._next
        self._next = (start + 1) % len(self.alive) if self.alive else 0
        yield from self.alive[start:] + self.alive[:start] + self.fenced


class Placement:
    """Chooses replicas, partition by partition."""

    def __init__(self, image: Image, below: Callable[[int], int]) -> None:
        """`below`: chance, as `Entropy` has it."""
        names = sorted({one.rack or "" for one in image.brokers.values()})
        alive: dict[str, list[int]] = {name: [] for name in names}
        fenced: dict[str, list[int]] = {name: [] for name in names}
        for broker_id, broker in sorted(image.brokers.items()):
            (fenced if broker.fenced else alive)[broker.rack or ""].append(broker_id)
        self._racks = [_Rack(below, alive[name], fenced[name]) for name in names]
        self._next = below(len(names)) if len(names) > 1 else 0
        self._registered = len(image.brokers)
        self._none_alive = not any(alive.values())

    def replicas(self, factor: int) -> tuple[int, ...]:
        """The replicas of the next partition.

        Raises:
            KafkaError: INVALID_REPLICATION_FACTOR.
        """
        if factor > self._registered:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot "
                f"be reached because only {self._registered} broker(s) are registered.",
            )
        if self._none_alive:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced.",
            )
        racks = self._racks[self._next :] + self._racks[: self._next]
        self._next = (self._next + 1) % len(racks)
        turns = [rack.turn() for rack in racks]
        first = next(at for at, rack in enumerate(racks) if rack.alive)
        chosen = [next(turns[first])]
        at, had = 0, first
        while len(chosen) < factor:
            if at == had:
                had = -1  # this rack has its replica: it is passed over once
            else:
                chosen.extend(islice(turns[at], 1))
            at = (at + 1) % len(racks)
        return tuple(chosen)
