"""FastStream: a worker that turns orders into invoices, from topic to topic.

KAFKA=localhost:9092 faststream run --app-dir examples faststream_invoices:app
"""

from __future__ import annotations

import os

from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel

PENCE = 250

broker = KafkaBroker(os.environ["KAFKA"])
app = FastStream(broker)


class Order(BaseModel):
    """What a customer wants."""

    customer: str
    pieces: int


class Invoice(BaseModel):
    """What it costs."""

    customer: str
    pence: int


@broker.subscriber("orders", group_id="invoices", auto_offset_reset="earliest")
@broker.publisher("invoices")
async def invoice(order: Order) -> Invoice:
    """One order, one invoice; a record that is no order is refused and told in the log."""
    return Invoice(customer=order.customer, pence=PENCE * order.pieces)
