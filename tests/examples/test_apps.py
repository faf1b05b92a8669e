"""The apps in examples/: each is started as its framework starts it, on a fresh broker, and used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from barnabas.aio import Broker, Consumer
from tests.examples.loading import example


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """Loads the module of an example, told which Kafka to use."""

    def loaded(name: str, servers: str) -> Any:
        monkeypatch.setenv("KAFKA", servers)
        return example(name)

    return loaded


async def test_fastapi_publishes_and_reads(load: Callable[[str, str], Any]) -> None:
    async with Broker() as broker:
        app = load("fastapi_orders", broker.bootstrap_servers).app
        web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app")
        async with app.router.lifespan_context(app), web:
            assert (await web.post("/orders/ada/30")).json() == {"offset": 0}
            assert (await web.post("/orders/ada/12")).json() == {"offset": 1}
            assert (await web.get("/orders/ada", params={"at_least": 42})).json() == {"ordered": 42}
            assert (await web.get("/orders/ben")).json() == {"ordered": 0}


async def test_faststream_turns_baskets_into_invoices(load: Callable[[str, str], Any]) -> None:
    async with Broker() as broker:
        servers = broker.bootstrap_servers
        worker = load("faststream_invoices", servers)
        settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "value.deserializer": "json"}
        async with worker.broker:
            await worker.app.start()
            await worker.broker.publish({"customer": "ada", "pieces": 2}, "baskets")
            await worker.broker.publish({"customer": "ben", "pieces": 1}, "baskets")
            async with Consumer("invoices", config=settings) as consumer:
                records = aiter(consumer)
                invoices = [(await anext(records)).value for _ in range(2)]
            await worker.app.stop()
        assert invoices == [{"customer": "ada", "pence": 500}, {"customer": "ben", "pence": 250}]
