"""Leader epochs of one log: which epoch starts where (`leader-epoch-checkpoint`; Kafka's LeaderEpochFileCache)."""

from __future__ import annotations

from bisect import bisect_right

from barnabas.broker.log.types import EpochEnd

UNDEFINED = EpochEnd(-1, -1)


class LeaderEpochs:
    """Entries (epoch, start offset), both strictly rising; `latest` is the newest epoch, -1 if there is none.

    `entries` given at first are what the checkpoint holds, unless `saved` says that it holds something else.
    """

    __slots__ = ("_changed", "_epochs", "_saved", "_starts", "latest")

    def __init__(
        self, entries: list[tuple[int, int]] | None = None, *, saved: list[tuple[int, int]] | None = None
    ) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = -1
        for epoch, start in entries or []:
            self.assign(epoch, start)
        self._saved = self.entries if saved is None else saved
        self._changed = saved is not None

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def behind(self, log_end_offset: int) -> bool:
        """Whether the checkpoint says something else of the records below `log_end_offset`.

        An epoch that has no record yet need not be there: a start forgets it anyway. So ten thousand partitions get
        their leader without one file being written.
        """
        if not self._changed:
            return False
        known = [entry for entry in self.entries if entry[1] < log_end_offset]
        return known != [entry for entry in self._saved if entry[1] < log_end_offset]

    def unsaved_from(self) -> int | None:
        """The offset from which on the checkpoint may say something else of the records; None: it says the same."""
        if not self._changed:
            return None
        ours, saved = self.entries, self._saved
        same = 0
        while same < min(len(ours), len(saved)) and ours[same] == saved[same]:
            same += 1
        starts = [start for _, start in ours[same : same + 1] + saved[same : same + 1]]
        return max(min(starts), 0) if starts else None

    def as_saved(self, entries: list[tuple[int, int]] | None = None) -> LeaderEpochs:
        """The same epochs, of which the checkpoint holds `entries` (None: all)."""
        twin = self.copy()
        twin._saved = self.entries if entries is None else entries
        twin._changed = twin._saved != twin.entries
        return twin

    def as_lost(self) -> LeaderEpochs:
        """The same epochs; the checkpoint could not be written, so what it holds is not known."""
        twin = self.copy()
        twin._saved = [(-1, -1)]
        twin._changed = True
        return twin

    def copy(self) -> LeaderEpochs:
        """Another object that knows the same."""
        twin = LeaderEpochs()
        twin._epochs, twin._starts = self._epochs.copy(), self._starts.copy()
        twin._saved, twin._changed, twin.latest = self._saved, self._changed, self.latest
        return twin

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Let `epoch` start at `start_offset`. Returns whether anything changed.

        Entries with an epoch or a start not below the new one are dropped; an epoch that is not newer is ignored when
        its start does not lie before what is known.
        """
        if epoch < 0:
            return False
        if self._epochs and epoch <= self._epochs[-1] and start_offset >= self._starts[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        self._changed = True
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where an epoch ended: the greatest known epoch not above it and the start of the next (KIP-101, KIP-279).

        -1 is no epoch; one that lies below it is older than all that are known, as in Kafka's `LeaderEpochFileCache`.
        """
        if epoch == -1 or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[index - 1], self._starts[index])

    def up_to(self, end_offset: int) -> LeaderEpochs:
        """What is left of them without epochs that start at or after `end_offset`."""
        left = self.copy()
        while left._starts and left._starts[-1] >= end_offset:
            left._starts.pop()
            left._epochs.pop()
            left.latest = left._epochs[-1] if left._epochs else -1
            left._changed = True
        return left

    def from_start(self, start_offset: int) -> LeaderEpochs:
        """What is left without epochs that ended at or before `start_offset`; the one that covers it starts there."""
        left = self.copy()
        index = bisect_right(left._starts, start_offset)
        if index and left._starts[index - 1] != start_offset:
            left._starts[index - 1] = start_offset
            left._changed = True
        if index > 1:
            del left._starts[: index - 1], left._epochs[: index - 1]
            left._changed = True
        return left
