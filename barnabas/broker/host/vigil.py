"""A processor that is put to sleep takes as long to wake as a small request takes to be served.

    asleep    the loop waits for an event: 20 to 30 µs until it runs, on a virtual machine
    awake     it looks at its sockets again and again: 1 µs

Who asks for one thing after the other (a commit, a produce that is waited for, a consumer at the end of the log) asks
again within some ten µs. So after an event the loop stays awake for `barnabas.busy.poll.us` (0: never). Where nothing
came in that time, twice as many events as the last time go by before it does so again, `SKIPPED_MAX` at most: whoever
asks more seldom costs the processor nothing worth naming, and the first who comes in time brings it back. Where each
look finds something, the loop would not sleep anyway, and is left alone for `LOADED_S`. With one processor nobody could
ask meanwhile. Linux does the same for network cards (`net.core.busy_poll`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

SKIPPED_MAX: Final = 255
"""Events that go by after many times in vain: at 50 µs, 0.2 µs for each."""
LOADED_LOOKS: Final = 8
"""So many looks one after the other find something where many ask: those of one who waits for each answer do not."""
LOADED_S: Final = 0.01


class Vigil:
    """Keeps the loop of a broker's process awake for a moment; off until `allow`. One per host.

    `clock_ns` is any that only goes forward.
    """

    __slots__ = ("_awake_ns", "_clock_ns", "_found", "_host", "_in_vain", "_left", "_seen_bytes", "_until_ns")

    def __init__(self, host: Host, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._host = host
        self._clock_ns = clock_ns
        self._awake_ns = 0
        self._in_vain = 0
        """Events that go by after this time, if it is in vain; 0 once something has come."""
        self._left = 0
        self._found = 0
        """Looks one after the other that found something."""
        self._seen_bytes = 0
        self._until_ns = 0

    def allow(self, awake_us: int) -> None:
        """Stay awake so long after an event, from the next on; 0: never."""
        self._awake_ns = awake_us * 1000 if processors() > 1 else 0
        self._rest()

    def begin(self) -> None:
        """An event is over, and the loop was asleep before it (`Host.rests`)."""
        if self._left:
            self._left -= 1
            return
        host = self._host
        host.rests = False
        self._seen_bytes = host.received_bytes
        self._until_ns = self._clock_ns() + self._awake_ns
        self._in_vain = min(2 * self._in_vain + 1, SKIPPED_MAX)  # until something comes
        self._found = 0
        host.loop.call_soon(self._look)

    def _look(self) -> None:
        """The sockets have been looked at."""
        host = self._host
        if host.received_bytes != self._seen_bytes:
            self._seen_bytes = host.received_bytes
            self._in_vain = 0
            self._found += 1
            if self._found >= LOADED_LOOKS:
                host.loop.call_later(LOADED_S, self._rest)
                return
            self._until_ns = self._clock_ns() + self._awake_ns
        elif self._clock_ns() >= self._until_ns:
            self._left = self._in_vain
            self._rest()
            return
        else:
            self._found = 0
        host.loop.call_soon(self._look)

    def _rest(self) -> None:
        """The next event begins anew."""
        self._host.rests = self._awake_ns > 0


def processors() -> int:
    """How many this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
