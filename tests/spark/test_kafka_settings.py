"""The options `kafka.*`: every name of Kafka's clients is taken, warned of or refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.kafka_settings import Side, client_options
from barnabas.spark_bridge.options import read_options

pytestmark = pytest.mark.spark

SERVERS = {"kafka.bootstrap.servers": "h:1"}
REFUSED: dict[Side, set[str]] = {
    "source": {
        "auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"
    },
    "sink": {"key.serializer", "value.serializer", "interceptor.classes", "partitioner.class", "transactional.id"},
}  # fmt: skip


def names_of_kafka(side: Side) -> list[str]:
    """The settings of Kafka 4.3's consumer or producer, as its own classes list them."""
    kept = Path(__file__).with_name("kafka_settings.txt").read_text().splitlines()
    return [line.split()[1] for line in kept if line.startswith(side)]


def taken(name: str, side: Side, caplog: pytest.LogCaptureFixture) -> str:
    """What becomes of a setting."""
    caplog.clear()
    try:
        settings = client_options({**SERVERS, f"kafka.{name}": "PLAINTEXT"}, side)
    except OptionError:
        return "refused"
    if name in settings or name in ("security.protocol", "bootstrap.servers"):
        return "taken"
    return "warned" if f"kafka.{name} has no effect: " in caplog.text else "dropped"


@pytest.mark.parametrize("side", ["source", "sink"])
def test_every_setting_of_kafka_s_clients_is_taken_warned_of_or_refused(
    side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    both = set(names_of_kafka("source")) | set(names_of_kafka("sink"))
    assert len(both) > 120
    found = {name: taken(name, side, caplog) for name in sorted(both)}
    assert {name for name in found if found[name] == "refused"} == REFUSED[side] & both - {"transactional.id"}
    assert not [name for name in found if found[name] == "dropped"]
    own = {name for name in names_of_kafka(side) if found[name] == "warned"}
    assert all(name.startswith(("ssl.", "sasl.")) or name in KNOWN_WITHOUT_EFFECT for name in own), own


KNOWN_WITHOUT_EFFECT = {
    # told by Kafka's own clients alone
    "client.dns.lookup", "config.providers", "enable.metrics.push",
    "internal.throw.on.fetch.stable.offset.unsupported", "metric.reporters", "metrics.num.samples",
    "metrics.recording.level", "metrics.sample.window.ms", "security.providers", "share.acknowledgement.mode",
    "share.acquire.mode",
    # of a group's member
    "auto.commit.interval.ms", "exclude.internal.topics", "group.id", "group.instance.id", "group.protocol",
    "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms", "partition.assignment.strategy",
    "session.timeout.ms",
}  # fmt: skip


def test_what_reaches_the_client_is_what_was_given(caplog: pytest.LogCaptureFixture) -> None:
    """A job that shares its settings between source and sink runs; each side takes its own."""
    shared = {
        **SERVERS, "kafka.isolation.level": "read_committed", "kafka.acks": "all", "kafka.linger.ms": "20",
        "kafka.fetch.max.bytes": "100", "kafka.security.protocol": "plaintext", "kafka.ssl.truststore.location": "x",
    }  # fmt: skip
    assert client_options(shared, "source") == {
        "bootstrap.servers": "h:1", "isolation.level": "read_committed", "fetch.max.bytes": "100"
    }  # fmt: skip
    assert "kafka.acks has no effect: it is a setting of the producer" in caplog.text
    assert "kafka.ssl.truststore.location has no effect: the protocol is PLAINTEXT" in caplog.text
    assert client_options(shared, "sink") == {"bootstrap.servers": "h:1", "acks": "all", "linger.ms": "20"}
    assert "kafka.isolation.level has no effect: it is a setting of the consumer" in caplog.text


@pytest.mark.parametrize(
    ("side", "options", "message"),
    [
        ("source", {}, "the option kafka.bootstrap.servers is required"),
        ("sink", {"kafka.bootstrap.servers": " "}, "the option kafka.bootstrap.servers is required"),
        ("sink", {"kafka.key.serializer": "x"}, "kafka.key.serializer is not supported: values and keys pass as bytes"),
        ("sink", {"kafka.partitioner.class": "x"}, "a Java class cannot run here; give the rows a column partition"),
        ("source", {"kafka.security.protocol": "SSL"}, "kafka.security.protocol: TLS and SASL are not supported yet"),
    ],
)
def test_what_would_break_it_is_refused(side: Side, options: dict[str, str], message: str) -> None:
    given = options if not options or "kafka.bootstrap.servers" in options else {**SERVERS, **options}
    with pytest.raises(OptionError, match=message):
        client_options(given, side)


def test_an_option_of_the_sink_on_a_source_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert read_options({**SERVERS, "subscribe": "a", "topic": "b"}, "stream").topics == ("a",)
    assert "topic has no effect on a source: it is an option of the sink" in caplog.text


def test_a_name_nobody_knows_is_refused_by_both() -> None:
    from pyspark.sql.types import BinaryType, StructType

    from barnabas.spark_bridge.brokers import client_settings
    from barnabas.spark_bridge.sink_options import read_sink_options

    given: dict[str, Any] = {**SERVERS, "kafka.linger.m": "1"}
    with pytest.raises(OptionError, match=r"in the options kafka.*unknown setting 'linger\.m'"):
        client_settings(read_options({**given, "subscribe": "a"}, "batch"))
    with pytest.raises(OptionError, match=r"did you mean 'linger\.ms'"):
        read_sink_options({**given, "topic": "a"}, StructType().add("value", BinaryType()), overwrite=False)
