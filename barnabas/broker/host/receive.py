"""Bytes in, frames out: no socket, no loop.

All connections of a loop receive into one shared buffer, for a connection without unread bytes needs none of its own
(1.4 KB instead of 258 KB per idle connection). Bytes that cannot be handled at once, because their frame is not whole
or an earlier request still waits, move to a buffer of the connection's own:

    shared   [frame][frame][fra|             one read event
                            |
    own                    [fra|me.........] the rest is received in place, straight behind it

An own buffer is at most four times what was received (at least 4 KiB; from 64 KiB on rounded up to a power of two), and
never longer than the frame: a peer that promises 100 MiB and sends 5 bytes costs 4 KiB. Above 4 MiB it is a map, which
grows 4 MiB at a time without a copy: one of 25 MiB into 100 stops everybody for 80 ms, and whether the C library copies
what is to grow depends on what was freed before (46 MiB: 22 ms). While memory is short it is 4 KiB larger than what was
received, unless the whole of the frame was taken from the account before (`make_whole`).

**Leases.** A frame is handed out as a memoryview into its buffer, and decoded records point into it. Nobody has to
copy in fear: a buffer is received into again only when nothing points into it any more (`is_leased`), else a new one
takes its place and the old one goes with the last view.

Frames of both dialects:

    length  int32, big endian: the bytes that follow
    frame   length bytes
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct
from typing import Final, TypeAlias

from barnabas.broker.account import BROKER, RECEIVED, Account
from barnabas.broker.pages import pages
from barnabas.protocol.errors import ProtocolError

SHARED_BYTES: Final = 256 * 1024
SHARED_BYTES_RECOVERING: Final = 16 * 1024
"""While logs are recovered requests are held, and each may keep a shared buffer of its own."""
SHARED_BYTES_SHORT: Final = 16 * 1024
"""Not less: who has so many bytes to be handled waits in line while others take long (`turns.LARGE_BYTES`)."""
OWN_BYTES_MIN: Final = 4096
GROWTH: Final = 4
POOLED_BYTES_MIN: Final = 64 * 1024
POOLED_BYTES_MAX: Final = 4 * 1024 * 1024
GROWN_BYTES_MAX: Final = 4 * 1024 * 1024
POOL_BYTES_MAX: Final = 16 * 1024 * 1024
STRANGERS_BYTES_MAX: Final = 1024
"""A frame's bound before an introduction between brokers (`introduction`, which few brokers load)."""

OwnBuffer: TypeAlias = bytearray | mmap

_length_at = Struct(">i").unpack_from
_LENGTH_AND_KEY: Final = Struct(">ih")
_length_and_key_at = _LENGTH_AND_KEY.unpack_from


def is_leased(buffer: bytearray) -> bool:
    """Whether a memoryview into the buffer is alive: a bytearray that is looked into refuses to change its size."""
    try:
        last = buffer.pop()
    except BufferError:
        return True
    buffer.append(last)
    return False


class ReceiveBuffers:
    """The shared buffer of a loop, and a pool of large own buffers (powers of two, `POOL_BYTES_MAX` in all).

    Own buffers are charged to `account`, those of the pool to the broker.
    """

    __slots__ = ("_free", "account", "current", "pinned_bytes", "pooled_bytes", "shared_bytes")

    def __init__(self, account: Account | None = None) -> None:
        self.account = account if account is not None else Account()
        self.shared_bytes = SHARED_BYTES
        self.pinned_bytes = 0
        """What a request keeps at least that cannot be handled yet: the shared buffer, while that is a small one."""
        self.current = bytearray(SHARED_BYTES)
        self._free: dict[int, list[bytearray]] = {}
        self.pooled_bytes = 0
        """What the pool holds for later."""

    def shared(self) -> bytearray:
        """The shared buffer, free of leases."""
        current = self.current
        try:
            current.append(current.pop())  # `is_leased`, spelt out: every read begins here
        except BufferError:
            current = self.current = bytearray(self.shared_bytes)
        return current

    def share(self, size: int) -> None:
        """From now on the shared buffer has this size."""
        self.shared_bytes = size
        self.pinned_bytes = size if size < SHARED_BYTES else 0
        self.current = bytearray(size)

    def narrow(self) -> None:
        """Memory is short: one read brings little, for all that is not handled at once has to be kept.

        Thousands of connections may have something to read before anybody can be ended.
        """
        if self.shared_bytes > SHARED_BYTES_SHORT:
            self.shared_bytes = SHARED_BYTES_SHORT
            self.current = bytearray(SHARED_BYTES_SHORT)

    def widen(self) -> None:
        """Memory is no longer short."""
        if self.shared_bytes < SHARED_BYTES and not self.pinned_bytes:
            self.shared_bytes = SHARED_BYTES
            self.current = bytearray(SHARED_BYTES)

    def take(self, held: int, wanted: int, *, reserved: bool = False) -> OwnBuffer:
        """A buffer for `held` bytes that are there, of `wanted` in all, which are only promised.

        `reserved`: memory for all of them is set aside.
        """
        if wanted >= POOLED_BYTES_MIN:
            free = self._free.get(_pool_size(wanted))
            while free:
                buffer = free.pop()
                self.pooled_bytes -= len(buffer)
                self.account.release(BROKER, RECEIVED, len(buffer))
                if not is_leased(buffer):
                    return buffer
        roomy = not self.account.short or reserved
        size = max(OWN_BYTES_MIN, held * GROWTH) if roomy else held + OWN_BYTES_MIN
        size = min(wanted, size, held + GROWN_BYTES_MAX)
        if size > POOLED_BYTES_MAX:
            return pages(max(size, held))
        return bytearray(_pool_size(size) if size >= POOLED_BYTES_MIN else max(size, held))

    def give(self, buffer: OwnBuffer) -> None:
        """Take a buffer back; it may still be leased, which is looked at before it is used again."""
        size = len(buffer)
        if isinstance(buffer, mmap) or size != _pool_size(size) or not POOLED_BYTES_MIN <= size <= POOLED_BYTES_MAX:
            return
        if self.pooled_bytes + size <= POOL_BYTES_MAX and not self.account.short:
            self._free.setdefault(size, []).append(buffer)
            self.pooled_bytes += size
            self.account.charge(BROKER, RECEIVED, size)

    def drop_pool(self) -> None:
        """Give the pool's memory back."""
        self._free.clear()
        if self.pooled_bytes:
            free, self.pooled_bytes = self.pooled_bytes, 0
            self.account.release(BROKER, RECEIVED, free)


def _out_of_bounds(length: int, most: int) -> str:
    """Who sends one large record asks what to raise; before an introduction between brokers no setting helps."""
    setting = "; socket.request.max.bytes is the most" if length > most > STRANGERS_BYTES_MAX else ""
    return f"frame length {length} is not between 0 and {most}{setting}"


def _pool_size(size: int) -> int:
    return 1 << (size - 1).bit_length()


class Receiver:
    """One connection's unread bytes. Call `target`, receive into it, `received(n)`, `next_frame` until None, `settle`.

    `frame_bytes_max` bounds a frame (`socket.request.max.bytes`); `holder` is charged with the own buffer.
    """

    __slots__ = ("_buffers", "_own", "_reserved", "_view", "end", "frame_bytes_max", "holder", "start")

    def __init__(self, buffers: ReceiveBuffers, frame_bytes_max: int) -> None:
        self._buffers = buffers
        self.frame_bytes_max = frame_bytes_max
        self.holder = BROKER
        self._own: OwnBuffer | None = None
        self._reserved = 0  # charged for what the own buffer has yet to grow
        self._view: memoryview | None = None  # of what holds [start, end): the own buffer, or the shared one just now
        self.start = 0  # of what is not handed out yet
        self.end = 0

    def target(self) -> bytearray | memoryview:
        """Where the next bytes belong."""
        if self._own is None:
            return self._buffers.shared()
        limit = self._reserve()
        return memoryview(self._own)[self.end : limit]

    def received(self, count: int) -> None:
        """`count` bytes were received into the last `target`."""
        if self._own is None:
            self._view = memoryview(self._buffers.current)
            self.start, self.end = 0, count
        else:
            self.end += count

    def only_frame(self, count: int) -> memoryview | None:
        """The frame that the `count` bytes just received are, and nothing else; `received` is not to be told of it.

        None where they are less or more than that, or follow others.
        """
        if self._own is not None or count < 4:
            return None
        current = self._buffers.current
        (length,) = _length_at(current, 0)
        return memoryview(current)[4:count] if length == count - 4 <= self.frame_bytes_max else None

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None.

        Raises:
            ProtocolError: the length is negative or above the bound.
        """
        start = self.start
        if self.end - start < 4:
            return None
        view = self._view
        assert view is not None
        (length,) = _length_at(view, start)
        if not 0 <= length <= self.frame_bytes_max:
            raise ProtocolError(_out_of_bounds(length, self.frame_bytes_max))
        start += 4
        stop: int = start + length
        if stop > self.end:
            return None
        self.start = stop
        return view[start:stop]

    def settle(self) -> bool:
        """What is unread now stays: it moves out of the shared buffer, or the empty own buffer goes back.

        Returns:
            Whether bytes wait.
        """
        if self.start == self.end:
            if self._own is None:  # `clear`, spelt out: almost every event ends here
                self._view = None
                self.start = self.end = 0
            else:
                self.clear()
            return False
        if self._own is None:
            assert self._view is not None
            held = self.end - self.start
            own = self._buffers.take(held, max(self._wanted(), held))
            own[:held] = self._view[self.start : self.end]
            self._adopt(own, held)
        return True

    def unread(self) -> memoryview:
        """The bytes not handed out yet."""
        return memoryview(b"") if self._view is None else self._view[self.start : self.end]

    def skip(self, count: int) -> None:
        """The first `count` unread bytes are dealt with."""
        self.start += count
        assert self.start <= self.end

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` has something to say: a frame is whole, or its length out of bounds."""
        if self.end - self.start < 4:
            return False
        assert self._view is not None
        (length,) = _length_at(self._view, self.start)
        return not self.end - self.start - 4 < length <= self.frame_bytes_max

    def next_asks_for(self, api_key: int) -> bool:
        """Whether the next frame is whole, and is a request of Kafka's for that API."""
        start = self.start
        left = self.end - start
        if left < _LENGTH_AND_KEY.size:
            return False
        assert self._view is not None
        length, key = _length_and_key_at(self._view, start)
        return bool(key == api_key and 0 <= length <= left - 4)

    @property
    def has_bytes(self) -> bool:
        """Whether bytes wait."""
        return self.start != self.end

    @property
    def held_bytes(self) -> int:
        """What this connection's own buffer takes."""
        return 0 if self._own is None else len(self._own)

    @property
    def unread_bytes(self) -> int:
        """Bytes received and not handed out."""
        return self.end - self.start

    @property
    def missing_bytes(self) -> int:
        """How much the own buffer must still grow to hold the first unread frame, as far as that is known."""
        return 0 if self._own is None else max(0, self._wanted() - len(self._own))

    def clear(self) -> None:
        """Forget all bytes."""
        self._view = None
        self.start = self.end = 0
        if self._own is not None:
            own, self._own = self._own, None
            self._give(own)
            if self._reserved:
                self._reserved = self._use(self._reserved)

    def _give(self, own: OwnBuffer) -> None:
        self._buffers.account.release(self.holder, RECEIVED, len(own))
        self._buffers.give(own)

    def _adopt(self, own: OwnBuffer, held: int) -> None:
        self._own = own
        self._view = memoryview(own)
        self.start, self.end = 0, held
        self._buffers.account.charge(self.holder, RECEIVED, len(own))

    def _wanted(self) -> int:
        """How many bytes the first unread frame takes, its length included, as far as that is known."""
        assert self._view is not None
        if self.end - self.start < 4:
            return OWN_BYTES_MIN
        (length,) = _length_at(self._view, self.start)
        return 4 + min(max(int(length), 0), self.frame_bytes_max)

    def _reserve(self) -> int:
        """Make room behind the unread bytes; return where the first frame ends, or the buffer if that comes first."""
        own, view = self._own, self._view
        assert own is not None
        assert view is not None
        held = self.end - self.start
        wanted = self._wanted()
        if wanted <= held:  # whole frames wait; what follows them comes in small pieces
            wanted = held + OWN_BYTES_MIN
        if self.start + wanted > len(own) and (self.end == len(own) or self.start > len(own) // 2):
            del view
            if self.start or not self._grow(min(wanted - len(own), GROWN_BYTES_MAX)):
                own = self._move_to(self._buffers.take(held, wanted, reserved=self._reserved > 0))
        return min(self.start + wanted, len(own))

    def make_whole(self) -> None:
        """Take the memory that the whole of the first unread frame needs from the account."""
        missing = self.missing_bytes - self._reserved
        if missing > 0:
            self._buffers.account.charge(self.holder, RECEIVED, missing)
            self._reserved += missing

    def _use(self, size: int) -> int:
        """So many bytes are charged as what they became, no longer as reserved; what is left of these."""
        used = min(self._reserved, size)
        if used:
            self._buffers.account.release(self.holder, RECEIVED, used)
        return self._reserved - used

    def _grow(self, more: int) -> bool:
        """Let the own buffer grow without a copy; False where it is no map, or somebody looks into it."""
        own = self._own
        if not isinstance(own, mmap):
            return False
        self._view = None
        try:
            own.resize(len(own) + more)
        except (BufferError, OSError, SystemError):  # the last: this system knows no mremap()
            self._view = memoryview(own)
            return False
        self._view = memoryview(own)
        self._reserved = self._use(more)
        self._buffers.account.charge(self.holder, RECEIVED, more)
        return True

    def _move_to(self, larger: OwnBuffer) -> OwnBuffer:
        own, view = self._own, self._view
        assert own is not None
        assert view is not None
        held = self.end - self.start
        larger[:held] = view[self.start : self.end]
        del view
        self._view = None
        self._give(own)
        if self._reserved:
            self._reserved = self._use(max(0, len(larger) - len(own)))
        self._adopt(larger, held)
        return larger
