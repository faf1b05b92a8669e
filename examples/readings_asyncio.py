"""The asyncio forms: one task writes readings of two sensors, another waits for them and warns.

    python examples/readings_asyncio.py [bootstrap servers of any Kafka]

Prints:
    cellar is at 31 degrees
    attic is at 35 degrees
    cellar is at 33 degrees
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from barnabas.aio import Admin, Broker, Consumer, Producer

READINGS = (("cellar", 20), ("attic", 28), ("cellar", 31), ("attic", 35), ("cellar", 33), ("attic", 24))


async def write(servers: str) -> None:
    """Send every reading and wait until the broker has it."""
    async with Producer(bootstrap_servers=servers, key_serializer="string", value_serializer="json") as producer:
        for sensor, degrees in READINGS:
            await producer.send_and_wait("readings", degrees, key=sensor)


async def warn(servers: str) -> None:
    """Print what is too warm, as it comes."""
    settings = {"auto.offset.reset": "earliest", "key.deserializer": "string", "value.deserializer": "json"}
    async with Consumer("readings", config=settings, bootstrap_servers=servers) as consumer:
        seen = 0
        async for record in consumer:
            if record.value > 30:
                print(f"{record.key} is at {record.value} degrees")
            seen += 1
            if seen == len(READINGS):
                return


async def main(servers: str | None) -> None:
    """Both at once."""
    async with contextlib.AsyncExitStack() as stack:
        servers = servers or (await stack.enter_async_context(Broker())).bootstrap_servers
        admin = await stack.enter_async_context(Admin(bootstrap_servers=servers))
        await admin.create_topic("readings", partitions=1)
        await asyncio.gather(warn(servers), write(servers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
