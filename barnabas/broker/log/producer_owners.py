"""Who brought a producer id, and how many each of them may have remembered.

A producer id proves nothing: anyone may write with one that nobody gave out. So who brings one is counted, in three
groups: its connection, its client id at its address, its address. Whoever has its share forgets its own.

Shares are such that no honest program meets them: a connection belongs to one producer, which has one id; a Spark job
writes to 10,000 partitions with one; behind the gateway of a container network 2,000 producers have one address, and
perhaps one client id. Apache Kafka has no such bound.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barnabas.broker.context import source_of

Asker: TypeAlias = tuple[int, str, str | None]
"""Who sent a request: the connection's id, its address, the client's name for itself."""
Group: TypeAlias = int | str


class Owner(NamedTuple):
    """Who brought a producer: the groups it counts for, the narrowest first.

    A client id may have 32 KB and is not kept: `client` is a sum of it and the address, below zero to be no
    connection's, and one that nobody can make the same for another's: what is of one client is forgotten together.
    """

    connection: int
    client: int
    address: str


class Limits(NamedTuple):
    """How many producers one of each may have in a table."""

    connection: int
    client: int
    address: int


def owner_of(asker: Asker) -> Owner:
    """The groups of who sent a request."""
    from hashlib import blake2b  # a start does without it

    connection, host, client_id = asker
    address = source_of(host)
    name = f"{address} {client_id or ''}".encode(errors="surrogatepass")
    return Owner(connection, -1 - int.from_bytes(blake2b(name, digest_size=8).digest()), address)


class Shares:
    """How many producers of a table each group has."""

    __slots__ = ("_held", "_last")

    def __init__(self) -> None:
        self._held: dict[Group, int] = {}
        self._last: Owner | None = None

    def one(self, owner: Owner) -> Owner:
        """The same owner: of a row of equal ones the first, so that a flood keeps one."""
        if owner != self._last:
            self._last = owner
        assert self._last is not None
        return self._last

    def count(self, owner: Owner | None, change: int) -> None:
        """An owner (None: not known, so not counted) has one more producer (1) or one fewer (-1)."""
        for group in owner or ():
            held = self._held.get(group, 0) + change
            if held:
                self._held[group] = held
            else:
                del self._held[group]

    def spent(self, owner: Owner, limits: Limits) -> list[Group]:
        """Which of an owner's groups have their share, the narrowest first."""
        groups: tuple[Group, ...] = owner
        held = self._held
        return [group for group, limit in zip(groups, limits, strict=True) if held.get(group, 0) >= limit]
