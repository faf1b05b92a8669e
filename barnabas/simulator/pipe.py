"""One direction of a connection: bytes that were copied, in order, in pieces, late, or not at all.

TCP's promises and no others. What was sent arrives once, in order, as long as both ends live; when, and in how many
pieces, is chance's. Where the way is cut, pieces wait and come some time after it is open again; an end that hears
nothing of what it has sent gives up after `Network.patience_ns`.

    a piece   bytes
    room      an int: the other side has read so many bytes more
    EOF       the sender has closed, and all it sent before has arrived
    RESET     the connection is no more; what was not read by then is lost
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

if TYPE_CHECKING:
    from barnabas.simulator.network import Network
    from barnabas.simulator.wire import Wire


class End(Enum):
    """How a direction ends."""

    EOF = "eof"
    RESET = "reset"


Item: TypeAlias = "bytes | int | End"


class Pipe:
    """From one wire to its peer.

    Attributes:
        room: bytes that may still be sent before the peer has read some.
    """

    __slots__ = ("_held_since_ns", "_items", "_last_ns", "_network", "_orphan", "_source", "_target", "room")

    def __init__(self, network: Network, source: Wire, target: Wire, window: int) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._items: deque[tuple[int, Item]] = deque()
        self._last_ns = 0
        self._held_since_ns = -1
        self._orphan = False
        self.room = window

    def send(self, data: bytes) -> int:
        """Take as many bytes as there is room for, in one piece or in several; how many."""
        size = min(len(data), self.room)
        self.room -= size
        start = 0
        while start < size:
            end = start + self._network.piece(size - start)
            self.put(data[start:end])
            start = end
        return size

    def put(self, item: Item) -> None:
        """Send something on its way, behind what is on it already."""
        world = self._network.world
        self._last_ns = max(self._last_ns, world.now_ns + self._network.delay_ns(self._source.host, self._target.host))
        self._items.append((self._last_ns, item))
        if len(self._items) == 1:
            world.at(self._last_ns, self._arrive)

    def lose(self) -> None:
        """What is on its way is lost."""
        self._items.clear()
        self._held_since_ns = -1

    def orphan(self) -> None:
        """The sender's machine is gone: what is on its way arrives, or is lost where it cannot."""
        self._orphan = True
        if self._held_since_ns >= 0:
            self.lose()

    def _arrive(self) -> None:
        if not self._items:
            return
        at_ns, item = self._items[0]
        network, world = self._network, self._network.world
        if at_ns > world.now_ns:  # what this was for is lost, or late
            world.at(at_ns, self._arrive)
            return
        if not network.reaches(self._source.host, self._target.host):
            self._hold()
            return
        self._held_since_ns = -1
        self._items.popleft()
        if isinstance(item, bytes):
            world.note(f"{self._target.name} gets {len(item)} bytes {crc32(item):08x}")
        elif isinstance(item, End):
            world.note(f"{self._target.name} gets {item.value}")
        self._target.arrived(item)
        if self._items:
            world.at(self._items[0][0], self._arrive)

    def _hold(self) -> None:
        """Try again later; in the end, give up."""
        network, world = self._network, self._network.world
        if self._orphan:
            self.lose()
            return
        if self._held_since_ns < 0:
            self._held_since_ns = world.now_ns
        if world.now_ns - self._held_since_ns > network.patience_ns:
            self._items.clear()
            network.world.count("connections given up")
            self._source.failed(TimeoutError("nothing was heard of the peer"))
            return
        again_ns = world.now_ns + network.again_ns(world.now_ns - self._held_since_ns)
        self._items[0] = (again_ns, self._items[0][1])
        world.at(again_ns, self._arrive)
