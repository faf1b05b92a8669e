"""What was freed goes back to the system: the C library keeps it for later, hundreds of megabytes after a flood.

A broker's process looks at its memory every two seconds. What it has grown by since it last gave back goes back
once nothing large is under way; what stays then is what the broker knows (topics, sessions), and is not tried again.
The same goes for pages of files that were read through maps, which count as the process' memory, too: they stay in the
page cache, and who reads them again has them from there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.host.looking import memory_bytes

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

LOOK_S: Final = 2.0
GROWN_BYTES_MIN: Final = 32 * 1024 * 1024
"""And a quarter of what is needed: a broker that keeps its records in memory grows all the while."""
HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Nothing large is under way while no more is held for others (`broker/account.py`), and nobody is in line."""


class _Growth:
    """Memory of one kind (bytes), and how to give it back: `give` says whether it does."""

    def __init__(self, give: Callable[[], bool]) -> None:
        self._give = give
        self._given = False
        self.kept_bytes = 0

    def look(self, now_bytes: int, is_calm: Callable[[], bool]) -> None:
        """Give back what has grown; what is left at the look after that is needed."""
        if self._given:
            self._given = False
            self.kept_bytes = now_bytes
        elif now_bytes < self.kept_bytes:
            self.kept_bytes = now_bytes
        elif now_bytes - self.kept_bytes >= max(GROWN_BYTES_MIN, self.kept_bytes // 4) and is_calm():
            self._given = self._give()


class Trim:
    """Gives memory back once it is not needed; `begin` on the loop. Made before the broker starts.

    What the start grew by is looked at, too: requests that were held until logs were recovered took hundreds of
    megabytes, and counted as needed for as long as the broker ran.

    `release_pages` has the system take back the pages of mapped files, and says whether it does (`RealDisk`).
    """

    def __init__(self, host: Host, release_pages: Callable[[], bool] = lambda: False) -> None:
        self._host = host
        self._own = _Growth(_gives_back)
        self._of_files = _Growth(release_pages)
        self._timer: asyncio.TimerHandle | None = None
        self._is_told = (found := memory_bytes()) is not None
        if found is not None:  # what is resident now is needed
            resident, self._own.kept_bytes = found
            self._of_files.kept_bytes = resident - found[1]

    def begin(self) -> None:
        """Look from now on. Where the system does not tell, nothing is done."""
        if self._is_told:
            self._later()

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _later(self) -> None:
        self._timer = self._host.loop.call_later(LOOK_S, self._turn)

    def _turn(self) -> None:
        found = memory_bytes()
        if found is not None:
            resident, own_bytes = found
            self._own.look(own_bytes, self._is_calm)
            self._of_files.look(resident - own_bytes, self._is_calm)
        self._later()

    def _is_calm(self) -> bool:
        host = self._host
        return host.account.total <= HELD_BYTES_MAX and not host.turns.is_waited_for and not host.core.has_lines


def _gives_back() -> bool:
    give_back()
    return True


def give_back() -> None:
    """Return free pages, off the loop's thread, where the C library is glibc; elsewhere nothing happens.

    The call takes the allocator's lock: some 5 ms for 100 MiB.
    """
    threading.Thread(target=_give_back, name="barnabas-trim", daemon=True).start()


def _give_back() -> None:
    import ctypes  # takes longer to load than the loop has time

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
