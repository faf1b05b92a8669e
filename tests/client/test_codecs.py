"""What is produced with any codec is consumed, in three settings: this broker in both dialects, and Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import Consumer, Producer
from tests.client.served import Served


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(served: Served, codec: Any) -> None:
    topic = served.topic(2)
    with Producer(**served.settings, compression_type=codec, linger_ms=5) as producer:
        sent = [producer.send(topic, b"%d" % number, key=b"k%d" % (number % 7)) for number in range(500)]
        places = [one.result() for one in sent]
    assert sorted({place.partition for place in places}) == [0, 1]
    expected = {(place.partition, place.offset): b"%d" % number for number, place in enumerate(places)}
    with Consumer(topic, **served.settings, auto_offset_reset="earliest") as consumer:
        found: dict[tuple[int, int], bytes] = {}
        while len(found) < 500:
            records = consumer.poll(20)
            assert records, "nothing came"
            found |= {(one.partition, one.offset): one.value for one in records}
        assert found == expected
