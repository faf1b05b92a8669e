from __future__ import annotations

import pytest

from barnabas.broker.host.http import HEAD_BYTES_MAX, TEXT, answer
from barnabas.broker.host.prometheus import render
from barnabas.broker.metrics import MetricsRegistry

PAGES = {"/a": lambda: (200, TEXT, "grüße\n")}


def test_a_page_is_answered_with_its_length_in_bytes() -> None:
    assert answer(b"GET /a?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", PAGES) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 8\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\n\r\n" + "grüße\n".encode()
    )


def test_head_has_no_body() -> None:
    got = answer(b"HEAD /a HTTP/1.1\r\n\r\n", PAGES)
    assert got is not None
    assert got.endswith(b"Connection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /a HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /b HTTP/1.1\r\n\r\n", b"404"),
        (b"GET\r\n\r\n", b"400"),
        (b"GET /a FTP\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"GET " + b"x" * HEAD_BYTES_MAX, b"431"),
    ],
)
def test_what_is_not_served_is_told_so(head: bytes, status: bytes) -> None:
    got = answer(head, PAGES)
    assert got is not None
    assert got.split()[1] == status


def test_an_unfinished_head_waits() -> None:
    assert answer(b"GET /a HTTP/1.1\r\nHost:", PAGES) is None


def test_metrics_carry_the_names_that_dashboards_for_kafka_ask_for() -> None:
    registry = MetricsRegistry()
    registry.gauge("ReplicaManager", "PartitionCount", None, lambda: 12)
    registry.meter("BrokerTopicMetrics", "MessagesInPerSec", {"topic": 'a"b'}).mark(7)
    registry.meter("BrokerTopicMetrics", "MessagesInPerSec").mark(9)
    registry.histogram("kafka.network:RequestMetrics", "TotalTimeMs", {"request": "Produce"}).update(3)
    assert render(registry.collect(0)).splitlines() == [
        "# TYPE kafka_server_replicamanager_partitioncount gauge",
        "kafka_server_replicamanager_partitioncount 12",
        "# TYPE kafka_server_brokertopicmetrics_messagesin_total counter",
        'kafka_server_brokertopicmetrics_messagesin_total{topic="a\\"b"} 7',
        "kafka_server_brokertopicmetrics_messagesin_total 9",
        "# TYPE kafka_network_requestmetrics_totaltimems summary",
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.5"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.75"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.95"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.999"} 3',
        'kafka_network_requestmetrics_totaltimems_sum{request="Produce"} 3',
        'kafka_network_requestmetrics_totaltimems_count{request="Produce"} 1',
    ]
