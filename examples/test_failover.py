"""pytest: `barnabas_cluster` is three brokers in this process, each of which a test stops, kills and starts.

    pytest examples/test_failover.py

In a project of your own the first line stands in `conftest.py`, at the top of the tests.
"""

from __future__ import annotations

from barnabas import Admin, Broker, Consumer, NewTopic, Producer

pytest_plugins = ["barnabas.testing"]


def test_orders_outlive_the_broker_that_took_them(barnabas_cluster: Broker) -> None:
    """A record is kept three times, and acknowledged (acks=all) once two have it."""
    servers = barnabas_cluster.bootstrap_servers
    with Admin(servers) as admin:
        admin.create_topics(NewTopic("orders", partitions=1))
        (before,) = admin.describe_topics("orders")["orders"].partitions
        leader = next(node_id for node_id in before.replicas if node_id != 1)  # 1 decides, and stays
        with Producer(servers, acks="all") as producer:
            producer.send("orders", b"one").result()
            barnabas_cluster.brokers[leader].kill()
            producer.send("orders", b"two").result()
            barnabas_cluster.brokers[leader].start()
            producer.send("orders", b"three").result()
    with Consumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        values: list[bytes] = []
        while len(values) < 3:
            values += [record.value for record in consumer.poll(10)]
    assert values == [b"one", b"two", b"three"]
