"""Memory for batches: at most `buffer.memory` bytes, buffers of exactly `batch.size` used again (Kafka's `BufferPool`).

Who finds no memory waits in line, first come first served: memory that comes back goes to the head of the line until
that one has all it needs, and nobody who comes later is served before, however little he asks for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Waiter:
    """One who waits for memory. `wake` is called once, when `buffer` is there (the pool's caller then owns it)."""

    __slots__ = ("_reserved", "buffer", "size", "wake")

    def __init__(self, size: int, wake: Callable[[], None]) -> None:
        self.size = size
        self.wake = wake
        self.buffer: bytearray | None = None
        self._reserved = 0


class BufferPool:
    """Counts every byte handed out. Invariant: available + reserved by waiters + handed out == total."""

    def __init__(self, total_bytes: int, poolable_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.poolable_bytes = poolable_bytes
        self.waiters: deque[Waiter] = deque()
        self._free: list[bytearray] = []
        self._unused_bytes = total_bytes  # neither handed out nor kept as a free buffer

    @property
    def available_bytes(self) -> int:
        """Memory nobody holds: unused bytes and free buffers."""
        return self._unused_bytes + len(self._free) * self.poolable_bytes

    def try_allocate(self, size: int) -> bytearray | None:
        """A buffer of `size` bytes, or None: then wait in line.

        Raises:
            ValueError: `size` is more than the whole memory.
        """
        if size > self.total_bytes:
            raise ValueError(f"{size} bytes are more than buffer.memory ({self.total_bytes})")
        if self.waiters:
            return None
        if size == self.poolable_bytes and self._free:
            return self._free.pop()
        if self.available_bytes < size:
            return None
        self._take(size)
        return bytearray(size)

    def wait(self, size: int, wake: Callable[[], None]) -> Waiter:
        """Stand in line for `size` bytes."""
        waiter = Waiter(size, wake)
        self.waiters.append(waiter)
        self._serve()
        return waiter

    def give_up(self, waiter: Waiter) -> None:
        """Leave the line (deadline passed, producer closed); what was reserved goes to the next."""
        if waiter.buffer is not None:
            buffer, waiter.buffer = waiter.buffer, None
            self.deallocate(buffer)
        elif waiter in self.waiters:
            self.waiters.remove(waiter)
            self._unused_bytes += waiter._reserved
            waiter._reserved = 0
            self._serve()

    def deallocate(self, buffer: bytearray) -> None:
        """Take a buffer back; one of `batch.size` is kept for reuse, any other is dropped."""
        if len(buffer) == self.poolable_bytes:
            self._free.append(buffer)
        else:
            self._unused_bytes += len(buffer)
        assert self.available_bytes <= self.total_bytes, "a buffer came back twice"
        if self.waiters:
            self._serve()

    def _take(self, size: int) -> None:
        while self._unused_bytes < size:  # free buffers are released when a larger request needs their memory
            self._free.pop()
            self._unused_bytes += self.poolable_bytes
        self._unused_bytes -= size

    def _serve(self) -> None:
        while self.waiters:
            head = self.waiters[0]
            if head.size == self.poolable_bytes and self._free:
                head.buffer = self._free.pop()
                self._unused_bytes += head._reserved
            else:
                part = min(head.size - head._reserved, self.available_bytes)
                self._take(part)
                head._reserved += part
                if head._reserved < head.size:
                    return
                head.buffer = bytearray(head.size)
            head._reserved = 0
            self.waiters.popleft()
            head.wake()
