"""Whose requests are handled when: what the loop does between two looks at its sockets stays short.

The loop looks, handles every connection that has brought something, and looks again. Five thousand connections that
send in one moment are one such round, and whoever comes then waits for all of it. So from some time on requests wait in
line undecoded, and have their turns in the rounds after this one: a millisecond's worth in each, or half of what the
round before has taken. Those who are served at once ask again at once, and would keep the line waiting for ever.

    in this round            who waits in line
    -                        a connection whose own turn was over before its requests were (`Channel._pump`)
    a turn took long, or     requests of 16 KiB and more
    connections are in line
    5 ms are gone            requests of 1 KiB and more: what they cost grows with their bytes
    25 ms are gone           all, but for a connection that asks for ApiVersions and nothing else

A round's beginning is not told, and to ask for it costs more than a request may: the first that comes `LATE_MS` after
the last look that is known of has the next look noticed, and the round is counted from there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from barnabas.broker.host import dialects
from barnabas.broker.host.sockets import AT_ONCE
from barnabas.broker.host.states import QUEUED

if TYPE_CHECKING:
    from barnabas.broker.host.channel import Channel
    from barnabas.broker.host.host import Host

TURN_MS_MAX: Final = 3
"""How long one connection's requests are handled; while others are in line, to the end of this ms."""
LARGE_BYTES: Final = 16 * 1024
MEDIUM_BYTES: Final = 1024
LATE_MS: Final = 5
VERY_LATE_MS: Final = 25
"""Some thousand small requests, which cost hardly more than to put them in line."""
_AT_ONCE: Final = 0


class Turns:
    """One per host."""

    __slots__ = ("_came", "_host", "_rest_ms", "_since_ms", "late_ms", "line", "look_due", "very_late_ms")

    def __init__(self, host: Host) -> None:
        self._host = host
        self.line: deque[Channel] = deque()
        """Channels that wait for their turn."""
        self.late_ms = _AT_ONCE
        """From when on (ms) whoever has something to handle asks `is_over` first."""
        self.very_late_ms = _AT_ONCE
        """The same of a small request that comes alone: it waits in line no earlier, and most rounds hold only such."""
        self.look_due = False
        """Whether `looked` will be called: this is the round that was noticed, `_since_ms`."""
        self._since_ms = 0
        self._came = 0
        """Connections that came in since the last look."""
        self._rest_ms = 0
        """Until then the line rests, where the broker has work of its own."""

    def came(self, now_ms: int) -> None:
        """A connection more: where they come by all doors, what others ask for is not to keep the next ones out."""
        if not self.look_due:
            self._notice(now_ms)
        self._came += 1
        if self._came >= AT_ONCE:
            self.late_ms = self.very_late_ms = _AT_ONCE

    def is_over(self, channel: Channel, now_ms: int) -> bool:
        """Whether what a channel has to handle waits for its turn, which it is told of (`Channel.take_turn`)."""
        if not self.look_due:
            self._notice(now_ms)
            return False
        receiver, native = channel.receiver, channel.connection.dialect == dialects.NATIVE
        if channel.waits or receiver.unread_bytes < self._waits_from(now_ms) or not channel.has_request:
            return False
        if receiver.unread_bytes < MEDIUM_BYTES and dialects.asks_for_versions(bytes(receiver.unread()), native):
            return False
        self.line_up(channel)
        return True

    def _waits_from(self, now_ms: int) -> int:
        """Requests of so many bytes wait."""
        gone_ms = now_ms - self._since_ms
        if self._came >= AT_ONCE or gone_ms >= VERY_LATE_MS:
            return 0
        return MEDIUM_BYTES if gone_ms >= LATE_MS else LARGE_BYTES

    def line_up(self, channel: Channel) -> None:
        """Give a channel its next turn after those in line."""
        channel.waits |= QUEUED
        self.line.append(channel)
        self.took_long()

    def took_long(self) -> None:
        """Large requests wait in line, until the sockets have been looked at and nobody is in it."""
        if not self.look_due:
            self._notice(self._host.now_ms())
        self.late_ms = _AT_ONCE

    def _notice(self, now_ms: int) -> None:
        """Notice the loop's next look."""
        self.look_due = True
        self._since_ms = now_ms
        self.late_ms = now_ms + LATE_MS
        self.very_late_ms = now_ms + VERY_LATE_MS
        self._host.loop.call_soon(self.looked)

    def looked(self) -> None:
        """The loop has been round: turns for those in line, at least one, until their time is over.

        The broker's jobs have as much time as the line before it goes on: a request may take ten times what a round
        gives to them, and a start under a flood would never come to its end.
        """
        self.look_due = False
        self._came = 0
        host = self._host
        began_ms = now_ms = host.now_ms()
        self.late_ms = self.very_late_ms = now_ms + LATE_MS  # who comes then has the next look noticed
        until_ms = now_ms + max(min(now_ms - self._since_ms, VERY_LATE_MS) // 2, 1)
        while self.line and (now_ms >= self._rest_ms or not host.has_jobs):
            self.line.popleft().take_turn()
            now_ms = host.now_ms()
            if now_ms >= until_ms:
                self._rest_ms = now_ms + (now_ms - began_ms)
                break
        if self.line:
            self.took_long()
