"""What a request that waits is tied to: its connection. Nobody is answered once that is gone, and nothing is kept."""

from __future__ import annotations

from barnabas.broker.delayed import DelayedOperation


class Parked(DelayedOperation):
    """An operation that a connection waits for (`Shared.parked`).

    `connection_id` is who waits, while it does (-1: nobody); `parked_partitions` how many of its partitions count among
    those that are parked, none before it waits.
    """

    __slots__ = ("connection_id", "parked_partitions")

    connection_id: int
    parked_partitions: int

    def leave(self) -> None:
        """Nobody waits for it any more: it ends where it stands."""
        raise AssertionError(f"{type(self).__name__} waits for ever")
