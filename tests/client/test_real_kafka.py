"""The bundled client against a real Apache Kafka: nothing but the bootstrap servers changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import Admin, Consumer, Producer
from tests.oracle.kafka import Kafka, KafkaUnavailable


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with Kafka(tmp_path_factory.mktemp("kafka"), quick=True) as running:
            yield f"127.0.0.1:{running.port}"
    except KafkaUnavailable as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(servers: str, codec: Any) -> None:
    topic = f"orders-{codec}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=2)
    with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=5) as producer:
        sent = [producer.send(topic, b"%d" % number, key=b"k%d" % (number % 7)) for number in range(500)]
        places = [one.result() for one in sent]
    assert sorted({place.partition for place in places}) == [0, 1]
    expected = {(place.partition, place.offset): b"%d" % number for number, place in enumerate(places)}
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        found: dict[tuple[int, int], bytes] = {}
        while len(found) < 500:
            records = consumer.poll(20)
            assert records, "nothing came"
            found |= {(one.partition, one.offset): one.value for one in records}
        assert found == expected
