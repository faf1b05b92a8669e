"""aiokafka: two workers of a group share the partitions of a topic; when one leaves, the other takes them over.

    python examples/aiokafka_group.py [bootstrap servers of any Kafka]

Prints:
    the jobs are done by ada and ben
    the jobs are done by ada
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from barnabas.aio import Admin, Broker

PARTITIONS = 4


async def work(name: str, servers: str, done: asyncio.Queue[str]) -> None:
    """Do jobs until cancelled. How far it came is committed as it goes, and once more when it leaves."""
    settings = {"group_id": "workers", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 500}
    async with AIOKafkaConsumer("jobs", bootstrap_servers=servers, **settings) as consumer:
        async for _job in consumer:
            done.put_nowait(name)


async def main(servers: str) -> None:
    """Send jobs until both workers had some, and then until one has all."""
    done: asyncio.Queue[str] = asyncio.Queue()
    ada, ben = (asyncio.create_task(work(name, servers, done)) for name in ("ada", "ben"))
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for wanted in (["ada", "ben"], ["ada"]):
            by: set[str] = set()
            while sorted(by) != wanted:
                for partition in range(PARTITIONS):
                    await producer.send_and_wait("jobs", b"a job", partition=partition)
                by = {await done.get() for _ in range(PARTITIONS)}
            print(f"the jobs are done by {' and '.join(wanted)}")
            ben.cancel()
            await asyncio.wait([ben])
    ada.cancel()
    await asyncio.wait([ada])


async def start(servers: str | None) -> None:
    """A broker if none is named, and the topic."""
    async with contextlib.AsyncExitStack() as stack:
        servers = servers or (await stack.enter_async_context(Broker())).bootstrap_servers
        admin = await stack.enter_async_context(Admin(bootstrap_servers=servers))
        await admin.create_topic("jobs", partitions=PARTITIONS)
        await main(servers)


if __name__ == "__main__":
    asyncio.run(start(sys.argv[1] if len(sys.argv) > 1 else None))
