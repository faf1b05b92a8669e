"""Open messages of one connection: acknowledged in the order they came in, whatever order their records end in.

    arrived 7    arrived 8    arrived 9
    8 settled    leaving: nothing      (7 is still open, and 8 waits behind it)
    7 settled    leaving: 7, 8

MQTT asks for that order (5.0 and 3.1.1, section 4.6). A packet id belongs to its connection: after a reconnect the MQTT
broker delivers again what was open, and may give the old numbers to others, so an `Open` of an earlier connection
(`epoch`) is settled without an acknowledgement.
"""

from __future__ import annotations

from collections import deque


class Open:
    """One message of QoS 1 that was received and not yet acknowledged. `at_ms` is when it came (monotonic)."""

    __slots__ = ("at_ms", "epoch", "mid", "settled")

    def __init__(self, mid: int, epoch: int, at_ms: int) -> None:
        self.mid = mid
        self.epoch = epoch
        self.at_ms = at_ms
        self.settled = False


class Ledger:
    """What is open. Counts: `arrived_count`, `acknowledged`, and `late` for records of connections that are gone."""

    __slots__ = ("_order", "acknowledged", "arrived_count", "epoch", "late")

    def __init__(self) -> None:
        self.epoch = 0
        self.arrived_count = 0
        self.acknowledged = 0
        self.late = 0
        self._order: deque[Open] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def renew(self) -> int:
        """A connection ended, or begins; how many messages of the last one were open, and will come again."""
        self.epoch += 1
        left = len(self._order)
        self._order.clear()
        return left

    def arrived(self, mid: int, now_ms: int) -> Open:
        """A message came on the current connection."""
        one = Open(mid, self.epoch, now_ms)
        self._order.append(one)
        self.arrived_count += 1
        return one

    def settle(self, one: Open) -> bool:
        """Its record is where it should be; whether something may leave now.

        Raises:
            AssertionError: it was settled before.
        """
        assert not one.settled, f"message {one.mid} of connection {one.epoch} was settled twice"
        one.settled = True
        if one.epoch != self.epoch:
            self.late += 1
            return False
        return self._order[0].settled

    def leaving(self) -> list[int]:
        """The packet ids to acknowledge now, in order; they are open no longer."""
        order = self._order
        mids = []
        while order and order[0].settled:
            mids.append(order.popleft().mid)
        self.acknowledged += len(mids)
        return mids

    def oldest_ms(self, now_ms: int) -> int:
        """How long the oldest has been open; 0 when none is."""
        return now_ms - self._order[0].at_ms if self._order else 0
