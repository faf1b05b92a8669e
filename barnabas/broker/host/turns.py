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
    25 ms are gone           all

A connection that asks for ApiVersions and nothing else does not stand behind others in that line, but behind its like,
in one that has as much time, for it costs little and always the same. There who asks first on its connection takes
turns with who has asked before, the newest first: thousands may have come before it, hardly more than `AT_ONCE` with
it. While some wait there, who asks once more waits, too, however early in a round. Other brokers stand behind no
client, or whoever fills these lines takes the quorum its leader, and has brokers taken for gone whose heartbeats nobody
has looked at; what they send on for clients stands in line as those would.

A round's beginning is not told, and to ask for it costs more than a request may: the first that comes `LATE_MS` after
the last look that is known of has the next look noticed, and the round is counted from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.handlers.registry import FORWARDED
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

    __slots__ = (
        "_came",
        "_host",
        "_newest",
        "_rest_ms",
        "_since_ms",
        "askers",
        "late_ms",
        "line",
        "look_due",
        "newcomers",
        "of_brokers",
        "very_late_ms",
    )

    def __init__(self, host: Host) -> None:
        self._host = host
        self.line: deque[Channel] = deque()
        """Channels that wait for their turn."""
        self.of_brokers: deque[Channel] = deque()
        """Those of other brokers: they have had one in this round."""
        self.askers: deque[Channel] = deque()
        """Those that ask for ApiVersions alone, and have asked for something before."""
        self.newcomers: list[Channel] = []
        """Those that ask for it first, the newest at the end."""
        self._newest = False
        """Whether the newest was the last of these to have its turn."""
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
        if channel.waits or not channel.has_request or _is_a_brokers_own(channel):
            return False
        receiver, native = channel.receiver, channel.connection.dialect == dialects.NATIVE
        waits = receiver.unread_bytes >= self._waits_from(now_ms)
        if not waits and not self.askers:
            return False
        if receiver.unread_bytes < MEDIUM_BYTES and dialects.asks_for_versions(bytes(receiver.unread()), native):
            return self._asks(channel, now_ms)
        if waits:
            self.line_up(channel)
        return waits

    def _asks(self, channel: Channel, now_ms: int) -> bool:
        """As `is_over`, of who asks for ApiVersions alone."""
        if now_ms - self._since_ms < VERY_LATE_MS and not (self.askers and channel.requests):
            return False
        (self.askers if channel.requests else self.newcomers).append(channel)
        channel.waits |= QUEUED
        self.took_long()
        return True

    def _waits_from(self, now_ms: int) -> int:
        """Requests of so many bytes wait."""
        gone_ms = now_ms - self._since_ms
        if self._came >= AT_ONCE or gone_ms >= VERY_LATE_MS:
            return 0
        return MEDIUM_BYTES if gone_ms >= LATE_MS else LARGE_BYTES

    def line_up(self, channel: Channel) -> None:
        """Give a channel its next turn after those in line; another broker's own comes before them."""
        channel.waits |= QUEUED
        (self.of_brokers if _is_a_brokers_own(channel) else self.line).append(channel)
        self.took_long()

    def took_long(self) -> None:
        """Large requests wait in line, until the sockets have been looked at and nobody is in it."""
        if not self.look_due:
            self._notice(self._host.now_ms())
        self.late_ms = _AT_ONCE
        if self.askers:  # who was answered may ask again at once, and would have their time
            self.very_late_ms = _AT_ONCE

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody is in line."""
        return bool(self.line or self.of_brokers or self.askers or self.newcomers)

    def _notice(self, now_ms: int) -> None:
        """Notice the loop's next look."""
        self.look_due = True
        self._since_ms = now_ms
        self.late_ms = now_ms + LATE_MS
        self.very_late_ms = now_ms + VERY_LATE_MS
        self._host.loop.call_soon(self.looked)

    def looked(self) -> None:
        """The loop has been round: turns for those in line, at least one in each, until their time is over.

        The broker's jobs have as much time as the line before it goes on: a request may take ten times what a round
        gives to them, and a start under a flood would never come to its end.
        """
        self.look_due = False
        self._came = 0
        host = self._host
        now_ms = host.now_ms()
        self.late_ms = self.very_late_ms = now_ms + LATE_MS  # who comes then has the next look noticed
        share_ms = max(min(now_ms - self._since_ms, VERY_LATE_MS) // 2, 1)
        for _ in range(len(self.of_brokers)):
            self.of_brokers.popleft().take_turn()
        self._give(self._next_asker, share_ms)
        began_ms = host.now_ms()
        if (began_ms >= self._rest_ms or not host.has_jobs) and self._give(self._next, share_ms):
            now_ms = host.now_ms()
            self._rest_ms = now_ms + (now_ms - began_ms)
        if self.is_waited_for:
            self.took_long()

    def _give(self, next_one: Callable[[], Channel | None], share_ms: int) -> bool:
        """Turns one after the other; whether time was over before nobody was left."""
        clock = self._host.now_ms
        until_ms = clock() + share_ms
        while (channel := next_one()) is not None:
            channel.take_turn()
            if clock() >= until_ms:
                return True
        return False

    def _next(self) -> Channel | None:
        return self.line.popleft() if self.line else None

    def _next_asker(self) -> Channel | None:
        self._newest = bool(self.newcomers) and not (self._newest and self.askers)
        if self._newest:
            return self.newcomers.pop()
        return self.askers.popleft() if self.askers else None


def _is_a_brokers_own(channel: Channel) -> bool:
    """Whether another broker asks, and not for a client."""
    return channel.of_brokers and int.from_bytes(channel.receiver.unread()[4:6], "big") not in FORWARDED
