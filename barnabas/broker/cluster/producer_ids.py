"""Producer ids: taken from the controller in blocks of 1000, handed out one by one. Source: `RPCProducerIdManager`.

Ids of a block that was not used up are lost with a restart; none is ever given twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from barnabas.protocol.errors import KafkaError

Taker = Callable[[KafkaError | None, int], None]


class BlockSource(Protocol):
    """Where blocks come from: `done(error, first, count)`, now or later."""

    def allocate_producer_ids(self, broker_id: int, done: Callable[[KafkaError | None, int, int], None]) -> None:
        """A block that nobody else gets."""


class ProducerIdPool:
    """Hands out producer ids; who asks while a block is on its way waits in line."""

    __slots__ = ("_asking", "_broker_id", "_end", "_next", "_source", "_waiting")

    def __init__(self, broker_id: int, source: BlockSource) -> None:
        self._broker_id = broker_id
        self._source = source
        self._next = self._end = 0
        self._asking = False
        self._waiting: deque[Taker] = deque()

    def take(self, taker: Taker) -> None:
        """Call `taker(error, producer_id)` once, now or later."""
        self._waiting.append(taker)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._next < self._end:
            producer_id, self._next = self._next, self._next + 1
            self._waiting.popleft()(None, producer_id)
        if self._waiting and not self._asking:
            self._asking = True
            self._source.allocate_producer_ids(self._broker_id, self._granted)

    def _granted(self, fault: KafkaError | None, first: int, count: int) -> None:
        self._asking = False
        if fault is not None:
            waiting, self._waiting = self._waiting, deque()
            for taker in waiting:
                taker(fault, -1)
            return
        self._next, self._end = first, first + count
        self._serve()
