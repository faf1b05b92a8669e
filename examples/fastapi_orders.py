"""FastAPI: one path publishes orders, another tells what a customer ordered for, as the app has read it.

    KAFKA=localhost:9092 uvicorn --app-dir examples fastapi_orders:app

Then `curl -X POST localhost:8000/orders/ada/30` and `curl "localhost:8000/orders/ada?at_least=30"`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator

from fastapi import FastAPI

from barnabas.aio import Consumer, Producer

ordered: Counter[str] = Counter()
changed = asyncio.Condition()


async def add_up(consumer: Consumer) -> None:
    """Read orders for as long as the app runs."""
    async for record in consumer:
        async with changed:
            ordered[record.key] += record.value
            changed.notify_all()


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Producer and consumer live as long as the app."""
    servers = os.environ["KAFKA"]
    reads = {"bootstrap.servers": servers, "key.deserializer": "string", "value.deserializer": "json"}
    async with (
        Producer(servers, key_serializer="string", value_serializer="json") as app.state.producer,
        Consumer("orders", config=reads, group_id="totals", auto_offset_reset="earliest") as consumer,
    ):
        reading = asyncio.create_task(add_up(consumer))
        yield
        reading.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{customer}/{amount}")
async def order(customer: str, amount: int) -> dict[str, int]:
    """Publish an order; the answer says where it is."""
    return {"offset": (await app.state.producer.send_and_wait("orders", amount, key=customer)).offset}


@app.get("/orders/{customer}")
async def total(customer: str, at_least: int = 0) -> dict[str, int]:
    """What a customer ordered for, once it is so much: who has ordered need not ask again and again."""
    async with asyncio.timeout(10), changed:
        await changed.wait_for(lambda: ordered[customer] >= at_least)
    return {"ordered": ordered[customer]}
