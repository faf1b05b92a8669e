"""What is read from the device for somebody, until it is in his answer.

A read of 50 MB that a thread has in hand takes 50 MB at once, and so do all that come in one moment. So it is charged
from its beginning on: whoever comes then finds memory short, and has a small answer.
"""

from __future__ import annotations

from barnabas.broker.account import UNREAD, Account
from barnabas.broker.context import Connection
from barnabas.broker.ports import NotYet, Token


class Reading:
    """What a step, which is run again and again, has read from the device: kept until it is through, and charged."""

    __slots__ = ("_account", "_reader", "_size", "_tokens")

    def __init__(self, account: Account, reader: Connection | None) -> None:
        self._account = account
        self._reader = -1 if reader is None else reader.id
        self._size = 0
        self._tokens: list[Token] = []

    def hold(self, pending: NotYet) -> Token:
        """A read more, from its beginning on: when it ends its bytes are there already."""
        self._tokens.append(pending.token)
        self.reach(self._size + pending.size)
        return pending.token

    def reach(self, size: int) -> None:
        """So many bytes are there in all, and the answer is not."""
        more = size - self._size
        if more > 0 and self._reader >= 0:
            self._size = size
            self._account.charge(self._reader, UNREAD, more)

    def end(self) -> None:
        """It is through: what went into an answer is charged as that by now, and the rest goes."""
        if self._size:
            self._account.release(self._reader, UNREAD, self._size)
