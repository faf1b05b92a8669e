"""What the log says of groups that are full: without it only the refused client knows.

One line when a group first refuses a member, and again after `AGAIN_MS` as long as it does, with how many it refused
meanwhile: clients come again at once. `GROUPS_MAX` groups have lines at a time; those beyond are refused as well.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.ports import WallClock

AGAIN_MS: Final = 60_000
GROUPS_MAX: Final = 50
NAME_CHARS_MAX: Final = 255
"""So much of a group's and a client's name is told: either may have 32 KB, and a line of the log 2,000 characters."""

logger = logging.getLogger(__name__)


class Full:
    """The groups that refused members lately: when that was said (wall clock), and how many since."""

    __slots__ = ("_clock", "_of")

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._of: dict[str, tuple[int, int]] = {}

    def refused(self, group_id: str, setting: str, size_max: int, context: RequestContext) -> None:
        """A group of `size_max` members, as many as `setting` allows, refused one more: who asked."""
        wall_ms = self._clock.now_ms()
        said_ms, more = self._of.pop(group_id, (None, 0))
        if said_ms is not None and 0 <= wall_ms - said_ms < AGAIN_MS:
            self._of[group_id] = said_ms, more + 1
            return
        if len(self._of) >= GROUPS_MAX:
            self._of = {key: one for key, one in self._of.items() if 0 <= wall_ms - one[0] < AGAIN_MS}
            if len(self._of) >= GROUPS_MAX:
                return
        self._of[group_id] = wall_ms, 0
        since = f"; {more} more since this was said last" if more else ""
        logger.warning(
            "group %s is full, a member is refused: %s=%d; client %s at %s%s",
            group_id[:NAME_CHARS_MAX],
            setting,
            size_max,
            (context.client_id or "without a name")[:NAME_CHARS_MAX],
            context.connection.client_host,
            since,
        )
