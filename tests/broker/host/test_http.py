"""The little HTTP: what is answered, to whom, and with which headers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.broker.host.http import HEAD_BYTES_MAX, TEXT, Answer, answer, is_known, names
from barnabas.broker.host.prometheus import render
from barnabas.broker.metrics import MetricsRegistry


def page(fields: Mapping[str, str]) -> Answer:
    return Answer(200, TEXT, "grüße" + "".join(f" {name}={value}" for name, value in fields.items()))


PAGES = {"/a": page, "/b": lambda fields: Answer(200, TEXT, iter(["one ", "", "two"]))}
HOSTS = frozenset({"broker.example"})


def got(head: bytes, hosts: frozenset[str] | None = HOSTS) -> bytes:
    pieces = answer(head, PAGES, hosts)
    assert pieces is not None
    return b"".join(pieces)


def test_a_page_is_answered_with_its_length_in_bytes_and_headers_that_keep_pages_out() -> None:
    assert got(b"GET /a?x=1&y HTTP/1.1\r\nHost: localhost:9092\r\n\r\n") == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 14\r\n"
        b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        b"Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n" + "grüße x=1 y=".encode()
    )
    assert b"Access-Control" not in got(b"GET /a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n")


def test_a_page_in_pieces_ends_with_the_connection() -> None:
    head, _, body = got(b"GET /b HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert b"Content-Length" not in head
    assert body == b"one two"


def test_head_has_no_body() -> None:
    assert got(b"HEAD /a HTTP/1.0\r\n\r\n").endswith(b"Connection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /a HTTP/1.0\r\n\r\n", b"405"),
        (b"GET /c HTTP/1.0\r\n\r\n", b"404"),
        (b"GET\r\n\r\n", b"400"),
        (b"GET /a FTP\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"GET " + b"x" * HEAD_BYTES_MAX, b"431"),
        (b"GET /a HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /a HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"GET /a HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"421"),
        (b"GET /a HTTP/1.0\r\nHost: evil.example:9092\r\n\r\n", b"421"),
        (b"GET /a HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", b"421"),
        (b"GET /a HTTP/1.1\nhost : broker.example\norigin: https://evil.example\n\n", b"403"),
        (b"GET /a HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", b"403"),
        (b"GET /a HTTP/1.1\r\nHost: BROKER.example.:9092\r\n\r\n", b"200"),
        (b"GET /a HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_who_is_answered_and_what_the_others_are_told(head: bytes, status: bytes) -> None:
    assert got(head).split()[1] == status


@pytest.mark.parametrize(
    "authority", ["127.0.0.1", "10.1.2.3:9092", "[::1]:9092", "[fe80::1]", "localhost", "a.localhost:1"]
)
def test_addresses_and_loopback_names_are_always_known(authority: str) -> None:
    """A page's own name cannot be one of them, so that no page asks with one."""
    assert is_known(authority, ())


@pytest.mark.parametrize(
    "authority",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "[evil.example]",
        "2130706433",
        "[::1",
        "mylocalhost",
        "localhost.x",
    ],
)
def test_other_names_are_strangers_unless_the_setting_says_otherwise(authority: str) -> None:
    assert is_known(authority, ()) == (authority == "[::1")
    assert is_known(authority, ("*",))


def test_names_are_compared_without_port_case_and_last_dot_and_addresses_make_none() -> None:
    found = names(
        ["Broker.Example:9092", "broker-1.stack_default.", "", "::1", "[::1]:9092", "/data/barnabas.socket", "*"]
    )
    assert found == {"broker.example", "broker-1.stack_default", "::1", "/data/barnabas.socket", "*"}
    assert is_known("broker-1.stack_default:9092", found)
    assert not is_known("", names([""])), "a listener on every address has no name"


def test_over_the_local_socket_every_name_passes() -> None:
    assert got(b"GET /a HTTP/1.1\r\nHost: anything\r\n\r\n", None).split()[1] == b"200"


def test_an_unfinished_head_waits() -> None:
    assert answer(b"GET /a HTTP/1.1\r\nHost:", PAGES) is None


def test_metrics_carry_the_names_that_dashboards_for_kafka_ask_for() -> None:
    registry = MetricsRegistry()
    registry.gauge("ReplicaManager", "PartitionCount", None, lambda: 12)
    registry.meter("BrokerTopicMetrics", "MessagesInPerSec", {"topic": 'a"b'}).mark(7)
    registry.meter("BrokerTopicMetrics", "MessagesInPerSec").mark(9)
    registry.histogram("kafka.network:RequestMetrics", "TotalTimeMs", {"request": "Produce"}).update(3)
    lines = render(registry.collect(0)).splitlines()
    assert lines[0] == (
        "# HELP kafka_server_replicamanager_partitioncount Partitions that this broker has "
        "(kafka.server:type=ReplicaManager,name=PartitionCount)"
    )
    assert [line for line in lines if not line.startswith("# HELP")] == [
        "# TYPE kafka_server_replicamanager_partitioncount gauge",
        "kafka_server_replicamanager_partitioncount 12",
        "# TYPE kafka_server_brokertopicmetrics_messagesin_total counter",
        'kafka_server_brokertopicmetrics_messagesin_total{topic="a\\"b"} 7',
        "# TYPE kafka_server_brokertopicmetrics_messagesin_alltopics_total counter",
        "kafka_server_brokertopicmetrics_messagesin_alltopics_total 9",
        "# TYPE kafka_network_requestmetrics_totaltimems summary",
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.5"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.75"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.95"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 3',
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.999"} 3',
        'kafka_network_requestmetrics_totaltimems_sum{request="Produce"} 3',
        'kafka_network_requestmetrics_totaltimems_count{request="Produce"} 1',
    ]
