"""Settings: Kafka's names and defaults, nearest names for unknown ones, conflicts."""

import inspect
import re
from dataclasses import fields

import pytest

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.produce.config import ProducerConfig
from barnabas.net.config import ClientConfig, parse_server
from barnabas.net.errors import ConfigError
from barnabas.net.foreign import ELSEWHERE, INSTEAD, SENTENCES

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
        ({"bootstrap.servers": "host:65536"}, "'host:65536': 65536 is no port; ports go from 1 to 65535"),
        ({"bootstrap.servers": "[::1]:0"}, "0 is no port; ports go from 1 to 65535"),
        ({"bootstrap.servers": "h:" + "9" * 5000}, "9{20} is no port; ports go from 1 to 65535"),
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


NOT_YET = "not supported yet"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "plaintext", None])
def test_plain_text_is_taken_by_name(protocol):
    assert ClientConfig.of({"security.protocol": protocol}).security_protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security.protocol": "SSL"}, r"security\.protocol: 'SSL': TLS is not supported yet: connect to a PLAINTEXT"),
        ({"security.protocol": "sasl_plaintext"}, r"security\.protocol: 'sasl_plaintext': SASL is not supported yet"),
        ({"security.protocol": "SASL_SSL"}, r"security\.protocol: 'SASL_SSL': TLS and SASL are not supported yet"),
        ({"security.protocol": "TCP"}, r"security\.protocol: 'TCP': it is none of Kafka's: write PLAINTEXT"),
        ({"ssl.ca.location": "x"}, r"ssl\.ca\.location: TLS is not supported yet"),
        ({"ssl_cafile": "x"}, "ssl_cafile: TLS is not supported yet"),
        ({"sasl.mechanism": "PLAIN"}, r"sasl\.mechanism: SASL is not supported yet"),
        ({"sasl_plain_username": "x"}, "sasl_plain_username: SASL is not supported yet"),
        ({"transactional.id": "x"}, r"transactional\.id: transactions are not supported yet"),
        ({"bootstrap.servers": "SSL://h:1"}, r"bootstrap\.servers: 'SSL://h:1': 'SSL': TLS is not supported yet"),
        ({"bootstrap.servers": "h:1,http://h:2"}, r"bootstrap\.servers: 'http://h:2': 'http': it is none of Kafka's"),
        ({"bootstrap.servers": "PLAINTEXT://"}, r"bootstrap\.servers: 'PLAINTEXT://' is not host:port"),
    ],
)
def test_what_is_not_there_yet_is_said_by_name(settings, message):
    for config in (ProducerConfig, ConsumerConfig, ClientConfig):
        with pytest.raises(ConfigError, match=message):
            config.of(settings)


KAFKAS_OF_GROUPS = {
    "group.id": "",
    "group.instance.id": "",
    "group.protocol": "classic",
    "session.timeout.ms": 45000,
    "heartbeat.interval.ms": 3000,
    "max.poll.interval.ms": 300000,
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 5000,
    "partition.assignment.strategy": ("range", "cooperative-sticky"),
    "exclude.internal.topics": True,
}


@pytest.mark.parametrize("key", KAFKAS_OF_GROUPS)
def test_default_of_a_group_member(key):
    expected = "g" if key == "group.id" else KAFKAS_OF_GROUPS[key]
    assert getattr(ConsumerConfig.of({"group.id": "g"}), key.replace(".", "_")) == expected


def test_without_a_group_nothing_is_committed():
    assert not ConsumerConfig.of().enable_auto_commit


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enable.auto.commit": True}, r"enable\.auto\.commit needs a consumer group: set group\.id"),
        ({"group.instance.id": "i"}, r"group\.instance\.id needs a consumer group: set group\.id"),
        (
            {"group.protocol": "consumer", "heartbeat.interval.ms": 5},
            r"heartbeat\.interval\.ms has no meaning with group\.protocol=consumer: leave it out",
        ),
        ({"group.remote.assignor": "range"}, r"group\.remote\.assignor has no meaning with group\.protocol=classic"),
        ({"group.protocol": "new"}, r"group\.protocol: 'new' is none of classic, consumer"),
        ({"session.timeout.ms": 3000}, r"heartbeat\.interval\.ms: 3000 must be below session\.timeout\.ms \(3000\)"),
        ({"partition.assignment.strategy": "fair"}, r"partition\.assignment\.strategy: 'fair' is none of range"),
        ({"partition.assignment.strategy": ""}, "name each way once"),
        ({"rebalance.timeout.ms": 5}, r"Kafka's name for it is max\.poll\.interval\.ms"),
        ({"enable.auto.offset.store": False}, "offsets are stored by the group alone"),
        ({"rebalance_cb": print}, r"subscribe\(\.\.\., on_revoked=\.\.\.\)"),
    ],
)
def test_what_a_group_member_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ConsumerConfig.of(settings)


KAFKAS_NAMES = {each.name.replace("_", ".") for config in (ProducerConfig, ConsumerConfig) for each in fields(config)}


@pytest.mark.parametrize("name", INSTEAD)
def test_another_clients_name_is_answered_with_kafkas(name):
    kafkas = INSTEAD[name].split()[0]
    assert kafkas in KAFKAS_NAMES
    config = ProducerConfig if kafkas.replace(".", "_") in ProducerConfig.__slots__ + ClientConfig.__slots__ else None
    with pytest.raises(ConfigError, match=rf"unknown setting '{name}': Kafka's name for it is {re.escape(kafkas)}"):
        (config or ConsumerConfig).of({name: 1})
    with pytest.raises(ConfigError, match=rf"Kafka's name for it is {re.escape(kafkas)}"):
        (config or ConsumerConfig).of({name.replace(".", "_"): 1})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("queue.buffering.max.messages", r"buffer\.memory \(bytes, not records\)$"),
        ("queue.buffering.max.ms", r"linger\.ms$"),
        ("batch.num.messages", r"batch\.size \(bytes, not records\)$"),
        ("message.timeout.ms", r"delivery\.timeout\.ms$"),
        ("socket.timeout.ms", r"request\.timeout\.ms$"),
        ("max_batch_size", r"batch\.size$"),
        ("fetch.wait.max.ms", r"fetch\.max\.wait\.ms, which this client does not take$"),
        ("api_version", "versions are agreed upon with each broker: leave it out$"),
        ("enable.partition.eof", "ends are not reported: compare"),
        ("socket.keepalive.enable", "nothing here corresponds to it: leave it out$"),
    ],
)
def test_what_is_said_of_others_settings(name, says):
    with pytest.raises(ConfigError, match=says):
        ProducerConfig.of({name: 1})


def test_no_name_of_others_is_one_of_ours():
    assert not KAFKAS_NAMES & (set(INSTEAD) | set(SENTENCES))
    assert not set(INSTEAD) & set(SENTENCES)


def test_a_guess_is_a_near_miss_or_none():
    for name in (
        "ssl",
        "foo.bar",
        "message.max",
        "queue.depth",
        "topic.ids",
        "session.ms",
        "max.wait.ms",
        "client.name",
    ):
        with pytest.raises(ConfigError) as refused:
            ProducerConfig.of({name: 1})
        assert "did you mean" not in str(refused.value), str(refused.value)
    for name, meant in (("linger", "linger.ms"), ("bootstrap.server", "bootstrap.servers"), ("ack", "acks")):
        with pytest.raises(ConfigError, match=f"did you mean '{re.escape(meant)}'"):
            ProducerConfig.of({name: 1})


@pytest.mark.parametrize("client", ["AIOKafkaProducer", "AIOKafkaConsumer"])
def test_every_argument_of_aiokafka_is_known_or_explained(client):
    aiokafka = pytest.importorskip("aiokafka")
    config = ProducerConfig if client.endswith("Producer") else ConsumerConfig
    for name, parameter in inspect.signature(getattr(aiokafka, client)).parameters.items():
        if parameter.kind is not parameter.VAR_POSITIONAL and name.replace("_", ".") not in KAFKAS_NAMES:
            with pytest.raises(ConfigError) as refused:
                config.of({name: 1})
            assert not str(refused.value).startswith(f"unknown setting {name!r};"), name
            assert str(refused.value) != f"unknown setting {name!r}", name


@pytest.mark.parametrize("conflict", [{"acks": 1}, {"retries": 0}, {"max.in.flight.requests.per.connection": 6}])
def test_idempotence_conflicts(conflict):
    with pytest.raises(ConfigError, match=r"enable\.idempotence needs"):
        ProducerConfig.of({"enable.idempotence": True, **conflict})
    assert ProducerConfig.of(conflict).enable_idempotence is False  # not asked for by name: given up quietly
    assert ProducerConfig.of({"enable.idempotence": False, **conflict}).enable_idempotence is False


def test_the_memory_holds_a_batch():
    with pytest.raises(ConfigError, match=r"buffer\.memory \(1000\) must hold a batch at least, batch\.size is 16384"):
        ProducerConfig.of({"buffer.memory": 1000})
    assert ProducerConfig.of({"buffer.memory": 1000, "batch.size": 1000}).buffer_memory == 1000


def test_delivery_timeout_covers_linger_and_one_request():
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms \(100\) must be at least"):
        ProducerConfig.of({"delivery.timeout.ms": 100})
    raised = ProducerConfig.of({"request.timeout.ms": 200000, "linger.ms": 10})
    assert raised.delivery_timeout_ms == 200010
    assert ProducerConfig.of(delivery_timeout_ms=30005).delivery_timeout_ms == 30005


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("PLAINTEXT://h:1", ("h", 1)),
        ("plaintext://[::1]:7", ("::1", 7)),
        ("PLAINTEXT://h", ("h", 9092)),
        ("h:1", ("h", 1)),
        ("h", ("h", 9092)),
        ("[::1]:7", ("::1", 7)),
        ("[::1]", ("::1", 9092)),
        ("::1", ("::1", 9092)),
        ("::1:7", ("::1", 7)),
        ("fe80::1%eth0:7", ("fe80::1%eth0", 7)),
        ("2001:db8::abc", ("2001:db8::abc", 9092)),
        ("2001:db8:0:0:0:0:0:1", ("2001:db8:0:0:0:0:0:1", 9092)),
    ],
)
def test_parse_server(text, where):
    assert parse_server(text) == where


def test_a_producer_setting_is_unknown_to_a_plain_client():
    for config in (ClientConfig, ConsumerConfig):
        with pytest.raises(ConfigError, match=r"^linger\.ms is a setting of the producer: leave it out here$"):
            config.of({"linger.ms": 5})
    with pytest.raises(ConfigError, match=r"^auto_offset_reset is a setting of the consumer: leave it out here$"):
        ProducerConfig.of(auto_offset_reset="earliest")
    with pytest.raises(ConfigError, match=r"is a setting of the producer; did you mean 'value\.deserializer'\?$"):
        ConsumerConfig.of(value_serializer="json")


def test_whose_setting_it_is_follows_from_the_tables():
    everyones, producers, consumers = (
        {each.name.replace("_", ".") for each in fields(config)}
        for config in (ClientConfig, ProducerConfig, ConsumerConfig)
    )
    assert {name for name, whose in ELSEWHERE.items() if "producer" in whose} == producers - consumers - everyones
    assert {name for name, whose in ELSEWHERE.items() if "consumer" in whose} == consumers - producers - everyones


# Settings that people have in the files they bring, client by client.
LIBRDKAFKAS = """
    builtin.features client.id metadata.broker.list bootstrap.servers message.max.bytes message.copy.max.bytes
    receive.message.max.bytes max.in.flight.requests.per.connection max.in.flight topic.metadata.refresh.interval.ms
    metadata.max.age.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse topic.blacklist debug
    socket.timeout.ms socket.send.buffer.bytes socket.receive.buffer.bytes socket.keepalive.enable socket.nagle.disable
    socket.max.fails broker.address.ttl broker.address.family socket.connection.setup.timeout.ms
    connections.max.idle.ms reconnect.backoff.jitter.ms reconnect.backoff.ms reconnect.backoff.max.ms enabled_events
    throttle_cb log_cb log_level log.queue log.thread.name enable.random.seed log.connection.close opaque
    default_topic_conf internal.termination.signal api.version.request api.version.request.timeout.ms
    api.version.fallback.ms broker.version.fallback allow.auto.create.topics security.protocol ssl.cipher.suites
    ssl.key.location ssl.ca.location ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
    sasl.mechanisms sasl.mechanism sasl.username sasl.password sasl.oauthbearer.config
    enable.sasl.oauthbearer.unsecure.jwt plugin.library.paths group.id group.instance.id partition.assignment.strategy
    session.timeout.ms heartbeat.interval.ms group.protocol.type group.protocol group.remote.assignor
    coordinator.query.interval.ms max.poll.interval.ms enable.auto.commit auto.commit.interval.ms
    enable.auto.offset.store queued.min.messages queued.max.messages.kbytes fetch.wait.max.ms fetch.queue.backoff.ms
    fetch.message.max.bytes max.partition.fetch.bytes fetch.max.bytes fetch.min.bytes fetch.error.backoff.ms
    offset.store.method isolation.level consume_cb rebalance_cb offset_commit_cb enable.partition.eof check.crcs
    client.rack transactional.id transaction.timeout.ms enable.idempotence enable.gapless.guarantee
    queue.buffering.max.messages queue.buffering.max.kbytes queue.buffering.max.ms linger.ms message.send.max.retries
    retries retry.backoff.ms retry.backoff.max.ms queue.buffering.backpressure.threshold compression.codec
    compression.type batch.num.messages batch.size delivery.report.only.error dr_cb dr_msg_cb
    sticky.partitioning.linger.ms client.dns.lookup enable.metrics.push request.required.acks acks request.timeout.ms
    message.timeout.ms delivery.timeout.ms queuing.strategy produce.offset.report partitioner partitioner_cb
    msg_order_cmp compression.level auto.commit.enable auto.offset.reset offset.store.path
    offset.store.sync.interval.ms consume.callback.max.messages
"""
KAFKA_PYTHONS = """
    bootstrap_servers client_id key_serializer value_serializer enable_idempotence transactional_id
    transaction_timeout_ms delivery_timeout_ms acks compression_type retries batch_size linger_ms partitioner
    connections_max_idle_ms max_block_ms max_request_size metadata_max_age_ms retry_backoff_ms request_timeout_ms
    receive_buffer_bytes send_buffer_bytes socket_options sock_chunk_bytes sock_chunk_buffer_count reconnect_backoff_ms
    reconnect_backoff_max_ms max_in_flight_requests_per_connection security_protocol ssl_context ssl_check_hostname
    ssl_cafile ssl_certfile ssl_keyfile ssl_crlfile ssl_password ssl_ciphers api_version api_version_auto_timeout_ms
    metric_reporters metrics_enabled metrics_num_samples metrics_sample_window_ms selector sasl_mechanism
    sasl_plain_username sasl_plain_password sasl_kerberos_service_name sasl_oauth_token_provider socks5_proxy
    kafka_client group_id group_instance_id key_deserializer value_deserializer fetch_max_wait_ms fetch_min_bytes
    fetch_max_bytes max_partition_fetch_bytes auto_offset_reset enable_auto_commit auto_commit_interval_ms
    default_offset_commit_callback check_crcs isolation_level partition_assignment_strategy max_poll_records
    max_poll_interval_ms session_timeout_ms heartbeat_interval_ms consumer_timeout_ms exclude_internal_topics
    legacy_iterator metric_group_prefix buffer_memory allow_auto_create_topics enable_incremental_fetch_sessions
    bootstrap_topics_filter raise_upon_socket_err_during_wakeup
"""


@pytest.mark.parametrize("name", (LIBRDKAFKAS + KAFKA_PYTHONS).split())
def test_every_name_of_the_other_clients_is_known_or_explained(name):
    for config in (ProducerConfig, ConsumerConfig, ClientConfig):
        if name.replace(".", "_") in {each.name for each in fields(config)}:
            continue
        with pytest.raises(ConfigError) as refused:
            config.of({name: "x"})
        assert re.match(rf"{name}: |{name} is a setting of the |unknown setting '{name}': Kafka's", str(refused.value))
