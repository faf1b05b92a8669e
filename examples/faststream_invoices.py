"""FastStream: a worker that turns baskets into invoices, from topic to topic.

    KAFKA=localhost:9092 faststream run --app-dir examples faststream_invoices:app

`{"customer": "ada", "pieces": 2}` in the topic `baskets` becomes `{"customer": "ada", "pence": 500}` in `invoices`.
"""

from __future__ import annotations

import os

from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel

PENCE = 250

broker = KafkaBroker(os.environ["KAFKA"])
app = FastStream(broker)


class Basket(BaseModel):
    """What a customer wants."""

    customer: str
    pieces: int


class Invoice(BaseModel):
    """What it costs."""

    customer: str
    pence: int


@broker.subscriber("baskets", group_id="invoices", auto_offset_reset="earliest")
@broker.publisher("invoices")
async def invoice(basket: Basket) -> Invoice:
    """One basket, one invoice; a record that is no basket is refused and told in the log."""
    return Invoice(customer=basket.customer, pence=PENCE * basket.pieces)
