"""What is wrong at present, for who waits: told in a warning after the first second, and again, ever more seldom.

Each trouble has a key (a node, a topic, a partition) and one error, the last. What is over is cleared by who noticed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from barnabas.net.errors import Disconnected, raise_it
from barnabas.net.topology import Node
from barnabas.protocol.errors import BarnabasError

log = logging.getLogger(__name__)

FIRST_MS: Final = 1000
"""So long a trouble may last before it is told of."""

AGAIN_MS: Final = (10_000, 60_000, 300_000)
"""How long after that it is told of again; the last, from then on."""

_KEPT_MAX: Final = 1000
_TOLD_AT_ONCE_MAX: Final = 3
_NEVER: Final = 1 << 62
_SHOWN_BYTES: Final = 16

STRANGER: Final = "no broker answered there"
_STRANGERS: Final = {b"HTTP/": "an HTTP server", b"SSH-": "an SSH server", b"220 ": "a mail or file server"}
"""What others say first."""

OnTrouble = Callable[[BarnabasError], None]
"""Called with the error of a trouble when it is told of."""


@dataclass(slots=True)
class _Trouble:
    error: BarnabasError
    since_ms: int
    due_ms: int
    told: int = 0


class Troubles:
    """The troubles of one client. Times are absolute ms."""

    def __init__(self) -> None:
        self.listeners: list[OnTrouble] = []
        self.first: OnTrouble | None = None
        """Told of the next trouble as soon as it is noted, and then forgotten: for who waits for a first answer."""
        self.leave: Callable[[BaseException], None] = raise_it
        """Takes what a listener raises to leave (`sys.exit`)."""
        self._present: dict[Hashable, _Trouble] = {}  # the one noted last stands last

    def __bool__(self) -> bool:
        return bool(self._present)

    def note(self, key: Hashable, error: BarnabasError, now_ms: int, since_ms: int | None = None) -> None:
        """Something is wrong, still or since `since_ms` (now, unless told)."""
        found = self._present.pop(key, None)
        if found is None:
            if len(self._present) >= _KEPT_MAX:
                del self._present[next(iter(self._present))]
            since_ms = now_ms if since_ms is None else since_ms
            found = _Trouble(error, since_ms, since_ms + FIRST_MS)
            if self.first is not None:
                self.first(error)
                self.first = None
        found.error = error
        self._present[key] = found

    def clear(self, key: Hashable) -> None:
        """It is over."""
        found = self._present.pop(key, None)
        if found is not None and found.told:
            log.info("no longer: %s", found.error)

    def clear_all(self, which: Callable[[Hashable], bool]) -> None:
        """All with such keys are over, or nobody's business any more."""
        for key in [key for key in self._present if which(key)]:
            self.clear(key)

    def next_ms(self) -> int:
        """When to call `tick` at the latest."""
        return min((each.due_ms for each in self._present.values()), default=_NEVER)

    def tick(self, now_ms: int) -> None:
        """Tell of what lasts. Of many at once, some are named and the others counted."""
        due = [each for each in self._present.values() if each.due_ms <= now_ms]
        for each in due:
            each.due_ms = now_ms + AGAIN_MS[min(each.told, len(AGAIN_MS) - 1)]
            each.told += 1
        for each in due[:_TOLD_AT_ONCE_MAX]:
            log.warning("for %d s: %s", (now_ms - each.since_ms) // 1000, each.error)
            self.tell(each.error)
        if len(due) > _TOLD_AT_ONCE_MAX:
            log.warning("and %d more of the kind", len(due) - _TOLD_AT_ONCE_MAX)

    def tell(self, error: BarnabasError) -> None:
        """Tell the listeners now: of what no waiting will mend."""
        for listener in self.listeners:
            try:
                listener(error)
            except Exception:
                log.exception("error_cb failed")
            except BaseException as leaving:
                self.leave(leaving)

    def last(self, *keys: Hashable) -> BarnabasError | None:
        """The trouble with the first of these keys that has one; else the one noted last."""
        found = next(filter(None, map(self._present.get, keys)), None)
        found = found or next(reversed(self._present.values()), None)
        return None if found is None else found.error

    def last_is_of_another(self, kind: str) -> bool:
        """Whether the trouble noted last is of another kind than this: keys are (kind, which)."""
        key = next(reversed(self._present), None)
        return key is not None and not (isinstance(key, tuple) and key[0] == kind)

    def of(self, key: Hashable) -> BarnabasError | None:
        """The trouble with this key, if there is one."""
        found = self._present.get(key)
        return None if found is None else found.error

    def why(self, *keys: Hashable) -> str:
        """The same as the end of a sentence, which is empty where nothing is wrong."""
        error = self.last(*keys)
        return "" if error is None else f": {error.detail if isinstance(error, Disconnected) else error}"


def stranger(data: bytes) -> str:
    """Who answered with these first bytes, which are no frame of Kafka's; empty where that is not known."""
    if data[:1] in (b"\x15", b"\x16") and data[1:2] == b"\x03":  # an alert, or a handshake (RFC 8446, 5.1)
        return f"{STRANGER}, but TLS, which this release does not speak: give the port of a PLAINTEXT listener"
    for head, who in _STRANGERS.items():
        if data.startswith(head):
            return f"{STRANGER}, but {who}: give the port of a broker"
    if data and data[:4].isascii() and data[:4].decode("ascii").isprintable():
        return f"{STRANGER}, but something that began with {data[:_SHOWN_BYTES]!r}: give the port of a broker"
    return ""


def unreached(
    node: Node, told_by: str, reason: str, *, reached: bool, handshake: bool, ended: bool = True
) -> Disconnected:
    """Why there is no connection to a node. One that a broker advertises is told with the address of who told it.

    Args:
        node: whom.
        told_by: the address of the broker that told of it; empty where it is known to be right.
        reason: what the system said.
        reached: there was a connection.
        handshake: it was not set up.
        ended: the other side ended it, or the system; else no answer came in time.
    """
    at = node.at
    what = reason if at in reason else f"{at}: {reason}"
    if handshake and not ended and node.id >= 0:  # an address that a broker tells of is a broker's
        return Disconnected(f"broker {node.id} takes connections and does not answer, as one that is paused: {what}")
    if handshake and STRANGER not in reason:
        as_others = ", as a port that speaks TLS ends it, and a broker that takes no more connections" if ended else ""
        what += f" (during the handshake{as_others}: is this one a broker's, of Kafka 0.10 or later, and its listener "
        what += "PLAINTEXT?)"
    if node.id >= 0 and told_by and (handshake or not reached):
        what = f"broker {node.id} cannot be reached where it advertises itself: {what}; {told_by} told that address"
        if told_by != at:
            what += ", and can be reached: see the broker's advertised.listeners"
    elif node.id >= 0 and not reached:
        what = f"broker {node.id} cannot be reached: {what}"
    return Disconnected(what)
