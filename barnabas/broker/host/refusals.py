"""What is said of connections that are refused, wait, or are ended for their peer's fault: first lines, then a count.

A flood would write as many lines as it has connections. Of one address `ADDRESS_LINES_MAX` are written in `PERIOD_S`,
of all together `LINES_MAX`; at the end of the period one line for each address tells how many more there were, and the
last of them: of what began later in the period nothing else would tell why.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

PERIOD_S: Final = 60.0
ADDRESS_LINES_MAX: Final = 5
LINES_MAX: Final = 50
ADDRESSES_MAX: Final = 1000
_SUMMARIES_MAX: Final = 20
_LAST_LENGTH_MAX: Final = 500

logger = logging.getLogger(__name__)


class Refusals:
    """Counts by address, from the first fault of a period to its end."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lines = 0
        self._untold: dict[str, int] = {}
        self._last: dict[str, str] = {}
        self._untold_of_others = 0
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, address: str, line: str) -> None:
        """One fault of a peer at `address`, written or counted. Only on a running loop."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self.sum_up)
        count = self._counts.get(address, 0)
        if count or len(self._counts) < ADDRESSES_MAX:
            self._counts[address] = count + 1
        if count < ADDRESS_LINES_MAX and self._lines < LINES_MAX:
            self._lines += 1
            logger.warning("%s", line)
        elif address in self._counts:
            self._untold[address] = self._untold.get(address, 0) + 1
            self._last[address] = line[:_LAST_LENGTH_MAX]
        else:
            self._untold_of_others += 1

    def sum_up(self) -> None:
        """End the period: say what was counted, and begin anew with the next fault."""
        ordered = sorted(self._untold.items(), key=lambda one: (-one[1], one[0]))
        for address, count in ordered[:_SUMMARIES_MAX]:
            last = self._last[address]
            logger.warning("%d more lines as these of %s in the last minute, the last: %s", count, address, last)
        rest = sum(count for _, count in ordered[_SUMMARIES_MAX:]) + self._untold_of_others
        if rest:
            logger.warning("%d more lines as these of other addresses in the last minute", rest)
        self._counts.clear()
        self._untold.clear()
        self._last.clear()
        self._lines = self._untold_of_others = 0
        self.close()

    def close(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
