"""What the host does when memory is short (`broker/account.py`).

    total <= low           nothing
    low < total <= limit   a connection that holds `SMALL_BYTES` or more of a frame that is not whole is not read from.
                           Those that wait get turns, smallest remainder first, as long as the whole of their frames
                           fits below the limit. Whoever has a turn must bring `TURN_BYTES_PER_S`.
    total > limit          the connections that hold most are ended until it fits, who has a turn last. Requests that
                           change something are seen through, and hold what they have until then: who sends one of
                           `MEDIUM_BYTES` or more, other than records, is ended before it is decoded.

Above low, whoever looks something up, sends more behind it and has waited for `UNHEARD_MS` since is ended, too, those
that hold most first: while a connection is not read from and its peer's system has yet more to bring, neither tells
that the peer is long gone. (Below it they have four seconds, see `progress.py`.) What changes something is seen
through, and who sends nothing on is served.

Small requests are handled all the while: they hold nothing. A frame is held back before it is decoded.

Other brokers neither wait nor are ended: what clients hold would end replication, for a follower of many partitions
is soon the one that holds most. What they send on for clients goes by the clients' rule.

While logs are recovered every large frame waits for its turn, and one at a time has one: what is decoded then lies in
between what recovery makes, and what is left of a thousand requests would not go back to the system. Who is slow gives
its turn to others and is not ended; a request that has to wait for the recovery keeps its turn as long.

Worked example, limit 160 MiB, frames of up to 100 MiB (low = 45): 43 peers send 70 MiB each of frames that never end.
At about 1 MiB each memory is short, and reading stops for all. The rest of one frame fits below the limit: its peer
gets a turn, and all the memory it still needs. A bystander's frame of 1 MiB gets one beside it, or before. After 5 s
and 1 s for each MiB the first peer is ended, and another has its turn.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.handlers.registry import FORWARDED
from barnabas.broker.handlers.services import ONLY_LOOK
from barnabas.broker.host.dialects import NATIVE, api_key_of
from barnabas.broker.host.in_flight import WEIGHTS, is_seen_through
from barnabas.broker.host.progress import RESET, has_more, is_closed, unfinished
from barnabas.broker.host.states import LEFT, QUEUED, STALLED
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.broker.host.channel import Channel
    from barnabas.broker.host.host import Host

SMALL_BYTES: Final = 64 * 1024
TURN_BYTES_PER_S: Final = 1024 * 1024
TURN_MS: Final = 5000
STUCK_MS: Final = 10_000
"""So long all may wait in vain for a turn before those that wait and hold most are ended, until memory is not short:
one at a time, a thousand that hold little each would keep everybody else waiting for hours."""
UNHEARD_MS: Final = 1000
_LOOKUPS: Final = ONLY_LOOK - {ApiKey.FETCH}
"""Whose peers are ended for it: nothing is lost. A fetch may wait for long, as its consumer said."""
AT_ONCE_MAX: Final = 50
"""Connections that are ended, or go on, in one step: some 30 µs each."""
_LOOK_S: Final = 1.0
_MIB: Final = 1024 * 1024


class _Turn(NamedTuple):
    requests: int
    deadline_ms: int


class Relief:
    """Who waits for memory, and whose turn it is."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._account = host.account
        self.waiting: dict[Channel, None] = {}
        self.turns: dict[Channel, _Turn] = {}
        self._ended: dict[Channel, None] = {}
        self._stuck_since_ms: int | None = None
        self._due = self._unread_due = False
        self._timer: asyncio.TimerHandle | None = None
        self.ended = 0
        """Connections ended because memory was short."""
        host.account.on_short = self._is_short

    def must_wait(self, channel: Channel) -> bool:
        """Whether nothing more is to be read of a connection just now; it is told (`Channel.go_on`) when it is."""
        if not (self._account.short or self._recovering) or channel in self.turns or channel.of_brokers:
            return False
        if channel not in self.waiting:
            self.waiting[channel] = None
            self._account.on_released = self._later
            if self._account.short:
                self._say(channel, "waits for memory")
            self._later()
        return True

    def must_go(self, channel: Channel, frame: memoryview) -> bool:
        """End a connection rather than begin with a request of it; whether it was.

        That was reset when its last answer was written, which no read tells; or, above the limit, it asks for what is
        seen through, and so would hold more whoever is ended.
        """
        if channel.paused and is_closed(channel, RESET):
            channel.abort()
            return True
        if self._account.total <= self._account.limit:
            return False
        key = frame[5] if channel.connection.dialect == NATIVE else int.from_bytes(frame[:2], "big")
        if key in WEIGHTS or not is_seen_through(key) or (channel.of_brokers and key not in FORWARDED):
            return False
        self._end(channel, "memory is short, and what it asks for would take more of it")
        return True

    @property
    def _recovering(self) -> bool:
        return self._host.buffers.pinned_bytes > 0

    def recovered(self) -> None:
        """Logs are recovered: whoever waited for that alone goes on."""
        self._later()

    def maps_are_short(self) -> None:
        """Answers that are not read hold all maps there may be: at the end of this event some of them are to go."""
        if not self._unread_due:
            self._unread_due = True
            self._host.loop.call_soon(self._end_unread)

    def _end_unread(self) -> None:
        """End a tenth of those that do not read, those first that have not for the longest."""
        self._unread_due = False
        stalled = [one for one in self._host.channels.values() if one.waits & STALLED and not one.waits & LEFT]
        share = min(-(-len(stalled) // 10), AT_ONCE_MAX)
        for channel in heapq.nsmallest(share, stalled, key=lambda one: one.active_ms):
            self.ended += 1
            channel.end("no more files can be mapped into memory, and it has not read its answers for the longest")

    def forget(self, channel: Channel) -> None:
        """It is gone."""
        self.waiting.pop(channel, None)
        self._ended.pop(channel, None)
        if self.turns.pop(channel, None) is not None:
            self._later()

    def close(self) -> None:
        """Nothing more is decided."""
        self._account.on_released = None
        self._account.on_short = lambda: None
        self._due = True
        if self._timer is not None:
            self._timer.cancel()

    def _is_short(self) -> None:
        self._host.buffers.narrow()
        self._account.on_released = self._later
        self._later()

    def _later(self) -> None:
        """Decide at the end of this event: the core may be in the middle of a step."""
        if not self._due:
            self._due = True
            self._host.loop.call_soon(self._decide)

    def _decide(self) -> None:
        self._due = False
        now_ms = self._host.now_ms()
        if self._account.short:
            self._host.buffers.drop_pool()
        self._end_turns(now_ms)
        self._end_largest()
        self._give_turns(now_ms)
        if not self._account.short:
            self._host.buffers.widen()
        if not self.waiting and not self.turns and not self._account.short:
            self._account.on_released = None
        elif self._timer is None:
            self._timer = self._host.loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        closed = list(islice(filter(is_closed, self.waiting), AT_ONCE_MAX))  # no read tells, for there is none
        for channel in closed:
            self._let_go(channel)
        if len(closed) == AT_ONCE_MAX or self._end_unheard():
            self._timer = self._host.loop.call_later(0, self._look)
        self._decide()

    def _let_go(self, channel: Channel) -> None:
        """It was closed by its peer while it waited."""
        self.waiting.pop(channel)
        self._ended[channel] = None
        channel.abort()

    def _going(self) -> int:
        """What goes with connections that were ended and whose end the core has not been told yet."""
        return sum(self._account.held_by(channel.connection.id) for channel in self._ended)

    def _end_turns(self, now_ms: int) -> None:
        for channel, turn in list(self.turns.items()):
            if self._recovering and channel.outstanding is not None:
                continue  # decoded and not answered
            if channel.requests != turn.requests or not unfinished(channel):
                del self.turns[channel]
            elif now_ms >= turn.deadline_ms:
                del self.turns[channel]
                if self._account.short:  # else it is others' turn while logs are recovered, and its own again later
                    self._end(channel, "memory is short and the rest of its frame comes too slowly")

    def _give_turns(self, now_ms: int) -> None:
        in_line = [(one.missing_bytes, number, one) for number, one in enumerate(self.waiting)]
        heapq.heapify(in_line)
        begun = 0
        while in_line:
            missing, _, channel = heapq.heappop(in_line)
            if self._account.short and missing > self._account.limit - self._account.total:
                break
            if self._recovering and self.turns:
                break
            if begun == AT_ONCE_MAX:
                self._later()
                break
            begun += 1
            if is_closed(channel):  # else each of a thousand that left together had its turn, and its memory, first
                self._let_go(channel)
                continue
            del self.waiting[channel]
            self.turns[channel] = _Turn(channel.requests, now_ms + TURN_MS + missing * 1000 // TURN_BYTES_PER_S)
            channel.go_on()
        if not self.waiting or self.turns:
            self._stuck_since_ms = None
        elif self._stuck_since_ms is None:
            self._stuck_since_ms = now_ms
        elif now_ms - self._stuck_since_ms >= STUCK_MS:
            self._stuck_since_ms = None
            self._end_stuck()

    def _end_stuck(self) -> None:
        left = self._account.total - self._going()
        for channel in heapq.nlargest(AT_ONCE_MAX, self.waiting, key=self._held):
            if left <= self._account.low:
                return
            left -= self._held(channel)
            self._end(channel, "memory is short, nobody gives any back, and of those that wait it holds most")
        if self.waiting and left > self._account.low:
            self._stuck_since_ms = self._host.now_ms() - STUCK_MS
            self._later()

    def _end_largest(self) -> None:
        """End those that hold most until what is held fits, some of them in this step."""
        above = self._account.total - self._account.limit
        if above > 0:
            above -= self._going()
        if above <= 0:
            return
        worth = [
            one
            for one in self._host.channels.values()
            if self._gives(one) >= SMALL_BYTES and not one.waits & LEFT and one not in self.turns and not one.of_brokers
        ]
        if not worth:  # who has a turn was promised its memory, and is the last to go
            worth = list(self.turns)
        for channel in heapq.nlargest(AT_ONCE_MAX, worth, key=self._gives):
            if above <= 0:
                return
            above -= self._gives(channel)
            self._end(channel, "memory is short and it holds most")
        if len(worth) > AT_ONCE_MAX and above > 0:
            self._later()

    def _end_unheard(self) -> bool:
        """End some of those who may be gone, until memory is not short; whether there are more."""
        left = self._account.total - self._account.low
        if left <= 0:
            return False
        left -= self._going()
        unheard = [one for one in self._host.channels.values() if self.is_unheard(one, UNHEARD_MS)]
        for channel in heapq.nlargest(AT_ONCE_MAX, unheard, key=self._held):
            if left <= 0:
                return False
            left -= self._held(channel)
            self._end(channel, "memory is short, and it has long sent more behind a request that waits its turn")
        return len(unheard) > AT_ONCE_MAX and left > 0

    def is_unheard(self, channel: Channel, since_ms: int) -> bool:
        """Whether it looks something up, has sent more behind that, and has brought nothing for so long."""
        if not channel.paused or self._held(channel) < SMALL_BYTES or channel in self.turns or channel.waits & LEFT:
            return False
        if self._host.now_ms() - channel.active_ms < since_ms or self._recovering:
            return False
        if channel.outstanding is not None:
            return channel.outstanding.api_key in _LOOKUPS
        if not channel.waits & QUEUED or not channel.introduced or not has_more(channel):
            return False
        return api_key_of(channel.receiver.unread(), channel.connection.dialect == NATIVE) in _LOOKUPS

    def _gives(self, channel: Channel) -> int:
        """What is given back when a connection is ended: all but what its request holds that is seen through."""
        request = channel.outstanding
        kept = channel.request_bytes if request is not None and is_seen_through(request.api_key) else 0
        return self._held(channel) - kept

    def _held(self, channel: Channel) -> int:
        return self._account.held_by(channel.connection.id)

    def _end(self, channel: Channel, why: str) -> None:
        self.ended += 1
        self._say(channel, f"is ended: {why}")
        self.waiting.pop(channel, None)
        self._ended[channel] = None
        channel.abort()

    def _say(self, channel: Channel, what: str) -> None:
        account = self._account
        self._host.refusals.tell(
            channel.connection.client_host,
            f"{account.total / _MIB:.1f} of {account.limit / _MIB:.0f} MiB for requests are held "
            f"(queued.max.request.bytes; above {account.low / _MIB:.0f} large ones wait); the connection of "
            f"{channel.name} with {account.held_by(channel.connection.id) / _MIB:.1f} MiB {what}",
        )
