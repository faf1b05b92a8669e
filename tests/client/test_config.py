"""Settings: Kafka's names and defaults, nearest names for unknown ones, conflicts."""

import pytest

from barnabas.client.produce.config import ProducerConfig
from barnabas.net.config import ClientConfig, parse_server
from barnabas.net.errors import ConfigError

DEFAULTS = {
    "acks": -1,
    "enable.idempotence": True,
    "batch.size": 16384,
    "linger.ms": 5,
    "buffer.memory": 33554432,
    "max.block.ms": 60000,
    "max.request.size": 1048576,
    "max.in.flight.requests.per.connection": 5,
    "retries": 2147483647,
    "delivery.timeout.ms": 120000,
    "request.timeout.ms": 30000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
    "metadata.max.age.ms": 300000,
    "metadata.max.idle.ms": 300000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "compression.type": "none",
    "compression.gzip.level": -1,
    "compression.lz4.level": 9,
    "compression.zstd.level": 3,
    "connections.max.idle.ms": 540000,
    "transaction.timeout.ms": 60000,
    "metadata.recovery.strategy": "rebootstrap",
    "partitioner.adaptive.partitioning.enable": True,
    "partitioner.availability.timeout.ms": 0,
    "partitioner.ignore.keys": False,
    "client.dns.lookup": "use_all_dns_ips",
    "socket.connection.setup.timeout.ms": 10000,
    "socket.connection.setup.timeout.max.ms": 30000,
}


@pytest.mark.parametrize("key", DEFAULTS)
def test_default(key):
    assert getattr(ProducerConfig.of(), key.replace(".", "_")) == DEFAULTS[key]


def test_dotted_keys_and_keyword_arguments_mean_the_same():
    dotted = ProducerConfig.of({"linger.ms": "7", "acks": "all", "bootstrap.servers": "a:1, b:2"})
    named = ProducerConfig.of(linger_ms=7, acks=-1, bootstrap_servers=["a:1", "b:2"])
    assert dotted == named


def test_a_string_alone_is_the_bootstrap_servers():
    assert ProducerConfig.of("host:1,other:2").bootstrap_servers == ("host:1", "other:2")


def test_an_unknown_key_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"unknown setting 'linger\.msec'; did you mean 'linger\.ms'"):
        ProducerConfig.of({"linger.msec": 5})


def test_a_key_given_twice_is_refused():
    with pytest.raises(ConfigError, match=r"linger\.ms is given twice"):
        ProducerConfig.of({"linger.ms": 5}, linger_ms=6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"acks": "2"}, "acks: '2' is none of"),
        ({"linger.ms": "soon"}, "is no int"),
        ({"linger.ms": -1}, "below its minimum 0"),
        ({"linger.ms": 1.5}, "is no int"),
        ({"compression.type": "brotli"}, "is none of none, gzip, snappy, lz4, zstd"),
        ({"compression.gzip.level": 0}, r"compression.gzip.level: 0 must be between 1 and 9 or equal to -1"),
        ({"compression.gzip.level": 10}, "must be between 1 and 9"),
        ({"compression.lz4.level": 0}, "must be between 1 and 17"),
        ({"compression.lz4.level": 18}, "must be between 1 and 17"),
        ({"compression.zstd.level": 23}, "must be between -131072 and 22"),
        ({"enable.idempotence": "perhaps"}, "is no bool"),
        ({"bootstrap.servers": ""}, "is empty"),
        ({"bootstrap.servers": "host:port"}, "is not host:port"),
        ({"dialect": "morse"}, "is none of kafka, native"),
    ],
)
def test_bad_values(settings, message):
    with pytest.raises(ConfigError, match=message):
        ProducerConfig.of(settings)


@pytest.mark.parametrize(
    ("codec", "level", "used"),
    [("none", 1, None), ("snappy", 1, None), ("gzip", -1, None), ("gzip", 1, 1), ("gzip", 9, 9)]
    + [("lz4", level, level) for level in (1, 17)]
    + [("zstd", level, level) for level in (-131_072, 22)],
)
def test_the_level_is_the_one_of_the_codec_that_is_used(codec, level, used):
    name = codec if codec in ("gzip", "lz4", "zstd") else "gzip"
    config = ProducerConfig.of({"compression.type": codec, f"compression.{name}.level": level})
    assert config.compression_level == used


@pytest.mark.parametrize("conflict", [{"acks": 1}, {"retries": 0}, {"max.in.flight.requests.per.connection": 6}])
def test_idempotence_conflicts(conflict):
    with pytest.raises(ConfigError, match=r"enable\.idempotence needs"):
        ProducerConfig.of({"enable.idempotence": True, **conflict})
    assert ProducerConfig.of(conflict).enable_idempotence is False  # not asked for by name: given up quietly
    assert ProducerConfig.of({"enable.idempotence": False, **conflict}).enable_idempotence is False


def test_delivery_timeout_covers_linger_and_one_request():
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms \(100\) must be at least"):
        ProducerConfig.of({"delivery.timeout.ms": 100})
    raised = ProducerConfig.of({"request.timeout.ms": 200000, "linger.ms": 10})
    assert raised.delivery_timeout_ms == 200010
    assert ProducerConfig.of(delivery_timeout_ms=30005).delivery_timeout_ms == 30005


@pytest.mark.parametrize(
    ("text", "where"),
    [("h:1", ("h", 1)), ("h", ("h", 9092)), ("[::1]:7", ("::1", 7)), ("[::1]", ("::1", 9092)), ("::1", ("::1", 9092))],
)
def test_parse_server(text, where):
    assert parse_server(text) == where


def test_a_producer_setting_is_unknown_to_a_plain_client():
    with pytest.raises(ConfigError, match=r"unknown setting 'linger\.ms'"):
        ClientConfig.of({"linger.ms": 5})
