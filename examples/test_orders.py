"""pytest: each test that asks for `barnabas_broker` has a fresh broker in memory, there in some milliseconds.

    pytest examples/test_orders.py

In a project of your own the first line stands in `conftest.py`, at the top of the tests.
"""

from __future__ import annotations

from barnabas import Admin, Broker, Consumer, Producer

pytest_plugins = ["barnabas.testing"]


def place_order(servers: str, customer: str, amount: int) -> None:
    """What is to be tested: an order becomes a record, keyed by its customer."""
    with Producer(servers, key_serializer="string", value_serializer="json") as producer:
        producer.send("orders", {"amount": amount}, key=customer).result()


def test_an_order_becomes_a_record(barnabas_broker: Broker) -> None:
    """The key is the customer, the value the order."""
    place_order(barnabas_broker.bootstrap_servers, "ada", 30)
    settings = {"auto.offset.reset": "earliest", "key.deserializer": "string", "value.deserializer": "json"}
    with Consumer("orders", config=settings, bootstrap_servers=barnabas_broker.bootstrap_servers) as consumer:
        (record,) = consumer.poll(10)
    assert (record.key, record.value) == ("ada", {"amount": 30})


def test_the_next_test_starts_with_nothing(barnabas_broker: Broker) -> None:
    """Another test, another broker."""
    with Admin(barnabas_broker.bootstrap_servers) as admin:
        assert admin.list_topics() == []
