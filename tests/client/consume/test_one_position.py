"""One position: whatever is mixed, no record is skipped, comes twice, out of order, or from a paused partition."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.core import ConsumerCore
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.consume.taken import decode_taken
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest
from tests.client.consume.test_fetcher import P0, P1, World, answer, batch, data, offsets_answer

END = 60
SIZES = (1, 4, 7)


class Mixed(World):
    """A consumer of two partitions of `END` records each, and what the application knows of its positions."""

    def __init__(self, seed: int, columns: bool) -> None:
        super().__init__(**{"max.poll.records": 9})
        self.core = ConsumerCore(
            ConsumerConfig.of({"bootstrap.servers": "h:1"}),
            self.wire,  # type: ignore[arg-type]
            random.random,
            lambda: None,
        )
        self.fetcher = self.core.fetcher
        self.chance = random.Random(seed)
        self.columns = columns
        self.ahead: deque[ConsumerRecord] = deque()
        self.core.assign([P0, P1], 0)
        self.next = {P0: 0, P1: 0}
        for where in (P0, P1):
            self.core.seek(where, 0)

    def handed_out(self, where: TopicPartition, offset: int) -> None:
        assert where not in self.core.paused(), "a record of a paused partition"
        assert offset == self.next[where], f"{where}: {offset} came where {self.next[where]} was due"
        self.next[where] = offset + 1

    def answers(self) -> None:
        """The brokers answer all that was asked: a few batches each."""
        for sent in self.drive(now_ms=self.chance.randrange(10**9)):
            if isinstance(sent.request, FetchRequest):
                parts = [each for topic in sent.request.topics for each in topic.partitions]
                # A session that was never opened: every request names all it wants.
                sent.answer(answer(*(data(p.partition, self.log(p.fetch_offset)) for p in parts), session=0))
            else:
                sent.answer(offsets_answer((0, 0), (1, 0)))

    def log(self, offset: int) -> bytes:
        raw = b""
        for size in self.chance.choices(SIZES, k=3):
            size = min(size, END - offset)
            if size > 0:
                raw += batch(offset, size)
                offset += size
        return raw

    # ---- what an application does, as the shells do it --------------------------------------------------------------

    def return_ahead(self) -> None:
        self.core.give_records_back(tuple(self.ahead))
        self.ahead.clear()

    def iterate(self) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            if not self.ahead:
                self.ahead.extend(self.core.records_now())
            if self.ahead:
                record = self.ahead.popleft()
                self.handed_out(TopicPartition(record.topic, record.partition), record.offset)

    def poll(self) -> None:
        self.return_ahead()
        for record in self.core.records_now(self.chance.choice((1, 3, 500))):
            self.handed_out(TopicPartition(record.topic, record.partition), record.offset)

    def poll_columns(self) -> None:
        if not self.columns:
            return
        self.return_ahead()
        columns, left, error = decode_taken(self.core.parts_now())
        assert error is None
        assert not left
        for each in columns:
            for offset in each.offset.to_pylist():
                self.handed_out(TopicPartition(each.topic, each.partition), offset)

    def take_and_give_back(self) -> None:
        """A poll that was interrupted."""
        self.return_ahead()
        if self.columns and self.chance.random() < 0.5:
            self.core.give_back(self.core.parts_now())
        else:
            self.core.give_records_back(self.core.records_now(self.chance.choice((1, 3, 500))))

    def pause(self) -> None:
        self.return_ahead()
        self.core.pause([self.chance.choice((P0, P1))], True)

    def resume(self) -> None:
        self.core.pause([P0, P1], False)

    def seek(self) -> None:
        self.return_ahead()
        where = self.chance.choice(list(self.next))
        if where in self.core.assignment():
            self.next[where] = self.chance.randrange(END)
            self.core.seek(where, self.next[where])

    def seek_to_beginning(self) -> None:
        self.return_ahead()
        if self.chance.random() < 0.3:
            self.core.seek_to([P1] if P1 in self.core.assignment() else [P0], EARLIEST_TIMESTAMP)
            self.next[P1 if P1 in self.core.assignment() else P0] = 0

    def assign(self) -> None:
        """P1 goes and comes back, where it begins anew; P0 stays and keeps its position."""
        self.return_ahead()
        self.core.assign([P0], 0)
        self.core.assign([P0, P1], 0)
        self.core.seek(P1, self.next[P1])

    def look(self) -> None:
        self.return_ahead()
        for where in (P0, P1):
            position = self.core.position(where)
            assert position in (None, self.next[where])

    def finish(self) -> None:
        self.return_ahead()
        self.resume()
        for _ in range(200):
            self.answers()
            self.poll()
            if all(offset == END for offset in self.next.values()):
                return
        raise AssertionError(f"what is left never comes: {self.next}")


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_mixed_each_record_comes_once_and_in_order(seed: int, columns: bool) -> None:
    if columns:
        pytest.importorskip("pyarrow")
    world = Mixed(seed, columns)
    often: list[Any] = [world.answers, world.iterate, world.poll, world.poll_columns]
    seldom = [world.pause, world.resume, world.seek, world.seek_to_beginning, world.assign, world.look]
    for _ in range(150):
        world.chance.choice([*often, *often, *seldom, world.take_and_give_back])()
    world.finish()
