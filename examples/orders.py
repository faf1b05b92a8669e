"""Produce and consume: a broker in this process, a thousand orders, and what each customer ordered.

    python examples/orders.py [bootstrap servers of any Kafka]

Prints:
    1000 orders, the last at orders-0 offset 999
    customer-0 ordered 143 times
    customer-1 ordered 143 times
    customer-6 ordered 142 times
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter

from barnabas import Broker, Consumer, Producer

ORDERS = 1000


def main(servers: str) -> None:
    """Write the orders and read them back."""
    with Producer(bootstrap_servers=servers, key_serializer="string", value_serializer="json") as producer:
        sent = [producer.send("orders", {"number": n}, key=f"customer-{n % 7}") for n in range(ORDERS)]
        last = sent[-1].result()
    print(f"{ORDERS} orders, the last at {last.topic}-{last.partition} offset {last.offset}")

    ordered: Counter[str] = Counter()
    with Consumer(
        "orders", bootstrap_servers=servers, auto_offset_reset="earliest", key_deserializer="string"
    ) as consumer:
        while ordered.total() < ORDERS:
            ordered.update(record.key for record in consumer.poll(1))
    for customer in ("customer-0", "customer-1", "customer-6"):
        print(f"{customer} ordered {ordered[customer]} times")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(Broker()).bootstrap_servers)
