"""What a log remembers of idempotent producers, and when it refuses them (Kafka's ProducerStateManager, KIP-98).

Per producer id: its epoch and its last five batches. A batch that equals one of the five is a duplicate; another must
carry the next sequence. Sequences count records and go from 2^31-1 on to 0.

Snapshot file `<offset>.snapshot` (state of all batches below that offset), big endian:

    version i16 = 1 | crc-32c u32 of what follows | count i32 | count entries of 50 bytes:
    producerId i64, epoch i16, lastSequence i32, lastOffset i64, offsetDelta i32, timestamp i64, coordinatorEpoch i32,
    currentTxnFirstOffset i64 (-1: none), and only the last batch of each producer
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.broker.log.producer_owners import Asker, Group, Limits, Owner, Shares, owner_of
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.primitives import crc32c

REMEMBERED_BATCHES: Final = 5
PRODUCERS_MAX: Final = 4000
"""Producers that one partition remembers, 430 to 800 bytes each. Kafka has no bound but the time (a day)."""
PRODUCERS_OF_ALL_MAX: Final = 200_000
"""Producers that all partitions remember together; above it a partition forgets before it learns of a new one ..."""
PRODUCERS_KEPT: Final = 5
"""... once it remembers so many."""
CONNECTION_MAX: Final = 100
"""Producers of one connection that one partition remembers ..."""
CONNECTION_OF_ALL_MAX: Final = 20_000
"""... and all partitions together. A client id at one address has half of all places, an address nine tenths."""
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1
_SEQUENCE_MASK: Final = 0x7FFFFFFF


class ProducerBatch(NamedTuple):
    """One remembered batch: sequences of its first and last record, last offset, offset delta, max timestamp in ms."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class Producer:
    """State of one producer id. `batches` holds at most five, oldest first.

    `seen_ms`: time of day of its last append, -1 if none was seen since the start. `timestamp`: what a snapshot without
    a batch said. `owner`: who brought it; None if that is not known, as after a start.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "owner", "seen_ms", "timestamp", "txn_first_offset")

    def __init__(self, epoch: int, owner: Owner | None = None) -> None:
        self.epoch = epoch
        self.owner = owner
        self.batches: list[ProducerBatch] = []
        self.coordinator_epoch = -1
        self.txn_first_offset = -1
        self.seen_ms = -1
        self.timestamp = -1

    @property
    def last_offset(self) -> int:
        """Offset of the last record, -1 if no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else -1


class ProducerRoom:
    """How many producers the logs of one broker remember together, and whose they are."""

    __slots__ = ("count", "shares")

    def __init__(self) -> None:
        self.count = 0
        self.shares = Shares()


class ProducerState:
    """All producers of one log. They are counted from `enter` to `leave`: while the state is a log's own."""

    __slots__ = ("_room", "_shares", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self._room: ProducerRoom | None = None
        self._shares: Shares | None = None
        """Whose they are; None while they are too few for anybody to have its share."""

    def enter(self, room: ProducerRoom) -> None:
        """Be counted, and forget what there is no room for."""
        self.leave()
        self._room = room
        room.count += len(self.producers)
        for producer in self.producers.values():
            room.shares.count(producer.owner, 1)
        while room.count > PRODUCERS_OF_ALL_MAX and len(self.producers) > PRODUCERS_KEPT:
            self._forget_some(list(self.producers))

    def leave(self) -> None:
        """Not be counted any more."""
        if self._room is not None:
            self._room.count -= len(self.producers)
            for producer in self.producers.values():
                self._room.shares.count(producer.owner, -1)
            self._room = None

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> ProducerBatch | None:
        """Judge a client's batch before it is written: None to write it, or the batch it repeats.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            return None
        if epoch == producer.epoch:
            batches = producer.batches
            for batch in batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
            if not batches or first_sequence == (batches[-1].last_sequence + 1) & _SEQUENCE_MASK:
                return None
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {first_sequence} after {batches[-1].last_sequence}",
            )
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} sent epoch {epoch}, the last one seen is {producer.epoch}",
            )
        if first_sequence != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} began epoch {epoch} with sequence {first_sequence}",
            )
        return None

    def update(
        self, producer_id: int, epoch: int, batch: ProducerBatch, seen_ms: int = -1, asker: Asker | None = None
    ) -> None:
        """Remember a batch that was written at `seen_ms` (time of day), or is replayed from the log (-1).

        `asker`: who sent it, None if that is not known. A producer stays with who brought it first.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self._learn(producer_id, epoch, None if asker is None else owner_of(asker))
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        batches = producer.batches
        if len(batches) == REMEMBERED_BATCHES:
            del batches[0]
        batches.append(batch)
        producer.seen_ms = seen_ms

    def _learn(self, producer_id: int, epoch: int, owner: Owner | None) -> Producer:
        room = self._room
        if room is not None and owner is not None:
            owner = room.shares.one(owner)
        self._make_room(owner)
        producer = self.producers[producer_id] = Producer(epoch, owner)
        if room is not None:
            room.count += 1
            room.shares.count(owner, 1)
        if self._shares is not None:
            self._shares.count(owner, 1)
        return producer

    def _make_room(self, owner: Owner | None) -> None:
        """Forget, where a new producer of `owner` has no room.

        Who has its share forgets its own, and takes nobody else's place. Of all partitions together it has its share
        and one in each other partition: what it has elsewhere is not looked for.
        """
        spent = () if owner is None else self._spent(owner)
        for group in spent:
            if self._forget_some(self._of(group)):
                return
        count, room = len(self.producers), self._room
        full = room is not None and room.count >= PRODUCERS_OF_ALL_MAX and count >= PRODUCERS_KEPT
        if count >= PRODUCERS_MAX or (full and not spent):
            self._forget_some(self._crowd(owner))

    def _spent(self, owner: Owner) -> list[Group]:
        """The groups of an owner that have their share, here or of all partitions."""
        if self._shares is None and len(self.producers) >= CONNECTION_MAX:
            self._shares = Shares()
            for producer in self.producers.values():
                self._shares.count(producer.owner, 1)
        spent: list[Group] = []
        if self._shares is not None:
            spent += self._shares.spent(owner, _limits(CONNECTION_MAX, PRODUCERS_MAX))
        if self._room is not None:
            spent += self._room.shares.spent(owner, _limits(CONNECTION_OF_ALL_MAX, PRODUCERS_OF_ALL_MAX))
        return spent

    def _of(self, group: Group) -> list[int]:
        return [one for one, producer in self.producers.items() if producer.owner and group in producer.owner]

    def _crowd(self, owner: Owner | None) -> list[int]:
        """Of whom to forget when all places are taken.

        The address that asks, if it has a tenth of them, or the one that has most. Those whose address is not known
        count as of one.
        """
        held = Counter(None if one.owner is None else one.owner.address for one in self.producers.values())
        if owner is not None and held[owner.address] * 10 >= len(self.producers):
            return self._of(owner.address)
        most = max(held, key=held.__getitem__)
        return self._of(most) if most is not None else [one for one, p in self.producers.items() if p.owner is None]

    def _forget(self, producer_ids: list[int]) -> None:
        room, shares = self._room, self._shares
        for producer_id in producer_ids:
            owner = self.producers.pop(producer_id).owner
            if shares is not None:
                shares.count(owner, -1)
            if room is not None:
                room.shares.count(owner, -1)
        if room is not None:
            room.count -= len(producer_ids)

    def _forget_some(self, of: list[int]) -> bool:
        """Forget a tenth: first who has sent one batch and never came back, then who has been silent the longest.

        Silence is told by offsets, for timestamps are the clients' own. Who is forgotten and sends again is a new
        producer, as after `producer.id.expiration.ms`: its next batch is taken, a repetition would be taken twice.
        Returns whether there was anyone.
        """

        def worth(producer_id: int) -> tuple[bool, bool, int]:
            producer = self.producers[producer_id]
            return producer.txn_first_offset >= 0, len(producer.batches) > 1, producer.last_offset

        self._forget(sorted(of, key=worth)[: max(1, len(of) // 10)])
        return bool(of)

    def complete(self, other: ProducerState) -> None:
        """Take over the producers of which `other` knows a later batch, or any."""
        for producer_id, producer in other.producers.items():
            known = self.producers.get(producer_id)
            if known is None and len(self.producers) >= PRODUCERS_MAX:
                self._forget_some(list(self.producers))
            if known is None or known.last_offset < producer.last_offset:
                self.producers[producer_id] = producer

    def replay(self, header: BatchHeader, last_offset: int, seen_ms: int = -1, asker: Asker | None = None) -> None:
        """Learn from a batch in the log that ends at `last_offset`. Markers and plain batches carry no sequence.

        `seen_ms`, `asker`: as `update`.
        """
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        delta = header.last_offset_delta
        last_sequence = (header.base_sequence + delta) & _SEQUENCE_MASK
        batch = ProducerBatch(header.base_sequence, last_sequence, last_offset, delta, header.max_timestamp)
        self.update(header.producer_id, header.producer_epoch, batch, seen_ms, asker)

    def expire(self, now_ms: int, silent_ms: int) -> int:
        """Forget producers that sent nothing for `silent_ms`. Returns how many.

        That is told by the time of day of their appends. Who was learned from files is seen now, at the first look,
        and so is whoever was seen at a time that is still to come: a clock was set back. Apache Kafka goes by the
        clients' own timestamps (`ProducerStateManager.isProducerExpired`): who fills in records of last year is
        forgotten at its next look, and a retry is written twice.
        """
        gone = []
        for producer_id, producer in self.producers.items():
            if not 0 <= producer.seen_ms <= now_ms:
                producer.seen_ms = now_ms
            if now_ms - producer.seen_ms >= silent_ms and producer.txn_first_offset < 0:
                gone.append(producer_id)
        self._forget(gone)
        return len(gone)

    def last_offsets(self) -> frozenset[int]:
        """The offset of each producer's last record: compaction keeps the batches that end there."""
        return frozenset(p.batches[-1].last_offset for p in self.producers.values() if p.batches)

    def snapshot(self) -> bytes:
        """The snapshot file of this state."""
        body = bytearray(struct.pack(">i", len(self.producers)))
        for producer_id, producer in self.producers.items():
            last = producer.batches[-1] if producer.batches else ProducerBatch(-1, -1, -1, 0, producer.timestamp)
            body += _ENTRY.pack(
                producer_id,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                last.timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
        return struct.pack(">hI", _VERSION, _snapshot_crc(body)) + bytes(body)

    @classmethod
    def from_snapshot(cls, data: bytes) -> ProducerState:
        """Read a snapshot file.

        Raises:
            ValueError: wrong version, wrong CRC, or cut short.
        """
        state = cls()
        for producer_id, producer in _read(data):
            state.producers[producer_id] = producer
        return state


def _limits(connection: int, places: int) -> Limits:
    return Limits(connection, places // 2, places * 9 // 10)


def _snapshot_crc(body: bytes | bytearray) -> int:
    """CRC-32C of everything behind the version and CRC fields."""
    return crc32c(body)


def _read(data: bytes) -> Iterator[tuple[int, Producer]]:
    if len(data) < _HEAD.size:
        raise ValueError("a producer snapshot is cut short")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"version {version} of a producer snapshot is not {_VERSION}")
    if crc != _snapshot_crc(data[6:]) or len(data) != _HEAD.size + count * _ENTRY.size:
        raise ValueError("a producer snapshot is corrupt")
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
        producer = Producer(epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.txn_first_offset = txn_first_offset
        producer.timestamp = timestamp
        if offset >= 0:
            first = (sequence - delta) & _SEQUENCE_MASK if sequence >= 0 else -1
            producer.batches.append(ProducerBatch(first, sequence, offset, delta, timestamp))
        yield producer_id, producer
