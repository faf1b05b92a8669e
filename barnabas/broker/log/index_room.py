"""What the indexes of all logs of one broker take in memory.

An index of a segment that is written to grows in memory; one that is read from is loaded, and stays for the next
lookup. Each entry is for `index.interval.bytes` of records, which whoever may alter a topic may set to nothing. (Apache
Kafka maps its index files, so that the system may drop their pages; maps are few, see `vm.max_map_count`.)

What comes is counted where it comes; what goes is not. When what there was and what came pass the limit, a walk over
all segments (`index_walk`) counts again what is there, and lets go of what lies on disk as well. Until it is through,
entries lie as far apart as they may: at a start, which makes indexes anew, none comes before the end. What it must
leave, indexes of segments that are written to or are not saved, may pass the limit by itself: then that stays so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from barnabas.broker.config import BrokerConfig

INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
"""Indexes of 13 GB of records with the default `index.interval.bytes`."""
INDEX_INTERVAL_MAX: Final = 64 * 1024
"""Bytes between two entries, whatever `index.interval.bytes` says: a lookup passes all batches between, a thousand of
the smallest here."""
_UNDER_WAY: Final = 2**63

logger = logging.getLogger(__name__)


def index_bytes_max(config: BrokerConfig) -> int:
    """What they may take in a broker with these settings (bytes): in a small container less, as the account has."""
    account = config.queued_max_request_bytes
    return INDEX_BYTES_MAX if account < 0 else min(INDEX_BYTES_MAX, account * 2 // 5)


class IndexRoom:
    """Bytes of the indexes of all logs of one broker.

    Args:
        limit: what they may take together (bytes).

    Attributes:
        held: what they took after the last walk.
        crowded: whether entries are to lie as far apart as they may: since a walk is due, or because what it had to
            leave passes the limit.
        on_full: is called when a walk is due.
    """

    __slots__ = ("_came", "_due_at", "_told", "crowded", "held", "limit", "on_full")

    def __init__(self, limit: int = INDEX_BYTES_MAX) -> None:
        self.limit = limit
        self._came = 0
        self._due_at = limit
        self._told = False
        self.held = 0
        self.crowded = False
        self.on_full: Callable[[], None] = lambda: None

    def came(self, size: int) -> None:
        """So many bytes were loaded, or have grown."""
        self._came += size
        if self._came > self._due_at:
            self._due_at = _UNDER_WAY
            self.crowded = True
            self.on_full()

    def walk_begins(self) -> None:
        """From now on what comes is counted for the next walk."""
        self._came, self._due_at = 0, _UNDER_WAY

    def walk_ended(self, held: int) -> None:
        """So many bytes were left."""
        self.held = held
        self.crowded = held > self.limit
        # What must be left now may be let go of soon; but a walk goes through 20,000 segments.
        self._due_at = max(self.limit - held, self.limit // 8)
        if self.crowded and not self._told:
            self._told = True
            logger.warning(
                "the indexes of segments that are written to take %d bytes, of %d that all indexes may: until they "
                "take less, an entry is for %d bytes of records, whatever index.interval.bytes says",
                held,
                self.limit,
                INDEX_INTERVAL_MAX,
            )
