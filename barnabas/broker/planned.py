"""How often anything was planned to be done earlier than all else.

After a request the host would have to ask the core when something is due next, and the core each room. Mostly nothing
has changed: a fetch that waits is due later than what is due before it, and one that is answered is due no more.
"""

from __future__ import annotations

from typing import Final


class Planned:
    """One for the process, for all rooms and timers alike.

    Whoever has told when it must be called next need not be asked again while `count` is the same: what was planned
    for later, or is cancelled, may have that call come in vain, never too late. Of several brokers in one process each
    is asked as often as all of them plan.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


PLANNED: Final = Planned()
