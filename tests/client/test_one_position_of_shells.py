"""One position, as an application sees it: whatever is mixed, on threads or a loop, each record comes when it is due.

The rule itself stands in `consume/test_one_position.py`; here are the calls that must keep it.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import Broker, Consumer, Producer, TopicPartition, aio

END = 300
P0, P1 = TopicPartition("mixed", 0), TopicPartition("mixed", 1)
WAIT = 60


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(topics={"mixed": 2}) as broker, Producer(broker.bootstrap_servers, batch_size=400) as producer:
        for number in range(END):
            for where in (P0, P1):
                producer.send("mixed", b"%03d" % number, partition=where.partition)
        producer.flush(WAIT)
        yield broker.bootstrap_servers


async def of(told: Any) -> Any:
    """What a call of either form tells."""
    return await told if inspect.isawaitable(told) else told


class Application:
    """Calls its consumer at random, and knows which record is due."""

    def __init__(self, consumer: Any, seed: int) -> None:
        self.consumer = consumer
        self.chance = random.Random(seed)
        self.next = {P0: 0, P1: 0}
        self.away: set[TopicPartition] = set()  # not assigned, or paused
        self.paused: set[TopicPartition] = set()
        self.iteration = aiter(consumer) if hasattr(consumer, "__aiter__") else iter(consumer)

    def handed_out(self, record: Any) -> None:
        self.came(TopicPartition(record.topic, record.partition), record.offset)

    def came(self, where: TopicPartition, offset: int) -> None:
        assert where not in self.away | self.paused, f"{where} was taken away or paused"
        assert offset == self.next[where], f"{where}: {offset} came where {self.next[where]} was due"
        self.next[where] = offset + 1

    @property
    def something(self) -> bool:
        return any(self.next[where] < END for where in {P0, P1} - self.away - self.paused)

    async def iterate(self) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            if self.something:
                is_async = hasattr(self.iteration, "__anext__")
                self.handed_out(await anext(self.iteration) if is_async else next(self.iteration))

    async def poll(self) -> None:
        wait = WAIT if self.something else 0
        records = await of(self.consumer.poll(wait, max_records=self.chance.choice((1, 3, 50))))
        assert bool(records) == self.something
        for record in records:
            self.handed_out(record)

    async def poll_columns(self) -> None:
        columns = await of(self.consumer.poll_columns(WAIT if self.something else 0))
        assert bool(columns) == self.something
        for each in columns:
            for offset in each.offset.to_pylist():
                self.came(TopicPartition(each.topic, each.partition), offset)

    async def pause(self) -> None:
        where = self.chance.choice((P0, P1))
        if where not in self.away:
            self.consumer.pause(where)
            self.paused.add(where)
            await self.iterate()  # at once: nothing else that gives back what is ahead comes before

    async def resume(self) -> None:
        self.consumer.resume(*self.paused)
        self.paused.clear()

    async def seek(self) -> None:
        where = self.chance.choice((P0, P1))
        if where not in self.away:
            self.next[where] = self.chance.randrange(END)
            self.consumer.seek(where, self.next[where])

    async def seek_to_an_end(self) -> None:
        if self.chance.random() < 0.8:
            self.consumer.seek_to_beginning(P0)
            self.next[P0] = 0
        else:
            self.consumer.seek_to_end(P0)
            self.next[P0] = END

    async def assign(self) -> None:
        """P1 goes, or comes back where it was; P0 stays where it is."""
        if P1 in self.away:
            self.consumer.assign([P0, P1])
            self.consumer.seek(P1, self.next[P1])
        else:
            self.consumer.assign([P0])
        self.away ^= {P1}
        self.paused.discard(P1)

    async def look(self) -> None:
        for where in {P0, P1} - self.away:
            assert await of(self.consumer.position(where, WAIT)) == self.next[where]

    async def run(self, steps: int) -> None:
        self.consumer.assign([P0, P1])
        for where in (P0, P1):
            self.consumer.seek(where, 0)
        often: list[Callable[[], Any]] = [*[self.iterate] * 8, self.poll]
        seldom = [
            self.pause,
            self.resume,
            self.seek,
            self.seek,
            self.seek_to_an_end,
            self.assign,
            self.poll_columns,
            self.look,
        ]
        for _ in range(steps):
            await self.chance.choice([*often, *seldom])()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("form", [Consumer, aio.Consumer], ids=["threads", "loop"])
async def test_whatever_an_application_mixes_each_record_comes_when_it_is_due(
    servers: str, form: Any, seed: int
) -> None:
    pytest.importorskip("pyarrow")
    consumer = form(config=servers, fetch_max_wait_ms=5, max_poll_records=9, auto_offset_reset="earliest")
    if form is aio.Consumer:
        await consumer.start()
    try:
        await Application(consumer, seed).run(150)
    finally:
        await of(consumer.close())
