"""What the core of the quorum needs: a log, and somebody who sends, saves, and throws dice. All of it synchronous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from barnabas.broker.raft.kept import Kept
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import Buffer

Answered: TypeAlias = Callable[[Any | None, int], None]
"""`answered(response or None, now_ms)`: what came back, or that nothing did."""
Done: TypeAlias = Callable[[Exception | None, int], None]
"""`done(error, now_ms)`: something is on the device, or cannot be brought there."""


class NotInstalled(BarnabasError):
    """A snapshot could not be written, for want of room, say; the log is as it was."""


class Mark(NamedTuple):
    """A place in a log: the offset after a record, and the epoch of that record. Epochs begin with 1."""

    end: int
    epoch: int


class RaftLog(Protocol):
    """One voter's log. What is appended is on the device after `sync`; what is committed is never cut."""

    @property
    def start(self) -> Mark:
        """Where it begins: what the newest snapshot holds, or (0, 0)."""

    @property
    def end(self) -> Mark:
        """Where it ends; `start` of one without records."""

    @property
    def committed(self) -> int:
        """The high watermark."""

    def end_of(self, epoch: int) -> Mark:
        """Where the largest epoch ends that is here, that of `start` counted, and not above.

        (-1, -1) for a log that has none; where all epochs are above, this one, which ended where the log begins.
        """

    def begin_epoch(self, epoch: int, leader: int) -> None:
        """Append the first record of an epoch, which this voter leads.

        Raises:
            BarnabasError: the disk failed, or is full; nothing was appended.
        """

    def append(self, records: Buffer | list[Buffer] | None) -> int:
        """Append what the leader has sent; how many records that were.

        Raises:
            BarnabasError: the bytes came damaged, do not fit, or cannot be written; what came before them is kept.
        """

    def cut(self, end: int, done: Done) -> None:
        """Cut all from `end` on, none of which is committed; `done` later.

        What must be read first may not be in memory: then nothing is cut, and whoever asks again once it is done
        finds it there.
        """

    def sync(self, end: int, done: Done) -> None:
        """Have all below `end` on the device; `done` later."""

    def commit(self, end: int) -> None:
        """All below `end` is committed."""

    def take_piece(self, snapshot: Mark, position: int, data: bytes, *, whole: bool) -> None:
        """Put a piece of a snapshot aside; the first is at position 0, and begins anew.

        Raises:
            BarnabasError: it is damaged.
        """

    def install(self, snapshot: Mark, done: Done) -> None:
        """All pieces have come: from now on the log is that snapshot and nothing else; `done` once that is synced.

        With NotInstalled where the snapshot could not be written: the log is as it was.
        """


class Outside(Protocol):
    """The world. Nothing of it calls back from inside the call."""

    def send(self, voter: int, request: Any, answered: Answered) -> None:
        """Ask another voter."""

    def save(self, kept: Kept, done: Done) -> None:
        """Bring the state to the device."""

    def below(self, end: int) -> int:
        """A whole number from 0 to before `end`, by chance."""

    def changed(self, now_ms: int) -> None:
        """Role, epoch or leader are others now."""

    def committed(self, now_ms: int) -> None:
        """The high watermark rose."""
