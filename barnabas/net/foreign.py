"""Settings that people bring from other clients, and what to write here instead.

Names are those of librdkafka (confluent-kafka), kafka-python, aiokafka and Kafka's own clients for Java, with dots.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_TLS: Final = "TLS is not supported yet: connect to a PLAINTEXT listener"
_SASL: Final = "SASL is not supported yet: connect to a PLAINTEXT listener"
_TRANSACTIONS: Final = "transactions are not supported yet: leave it out (enable.idempotence is on unless set)"
_OFFSETS: Final = "offsets are stored by the group alone, and what was handed out is committed: leave it out"
_CALLBACKS: Final = "callbacks are given to the calls they belong to: subscribe(..., on_revoked=...), commit_async(...)"
_VERSIONS: Final = "versions are agreed upon with each broker: leave it out"
_LOGGING: Final = 'Python\'s logging tells it: logging.getLogger("barnabas"); leave it out'
_NOTHING: Final = "nothing here corresponds to it: leave it out"

INSTEAD: Final[dict[str, str]] = {
    # librdkafka
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.messages": "buffer.memory (bytes, not records)",
    "queue.buffering.max.kbytes": "buffer.memory (bytes)",
    "queue.buffering.max.ms": "linger.ms",
    "batch.num.messages": "batch.size (bytes, not records)",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.max.bytes": "max.request.size",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "compression.level": "compression.zstd.level (or .gzip., .lz4.)",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "enable.gapless.guarantee": "enable.idempotence",
    "partitioner": "partitioner.class",
    "partitioner.cb": "partitioner.class",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "reconnect.backoff.jitter.ms": "reconnect.backoff.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "metadata.request.timeout.ms": "request.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.error.backoff.ms": "retry.backoff.ms",
    "queued.max.messages.kbytes": "fetch.max.bytes (bytes)",
    # kafka-python and aiokafka
    "auto.commit.enable": "enable.auto.commit",
    "rebalance.timeout.ms": "max.poll.interval.ms",
    "max.batch.size": "batch.size",
    "interceptors": "interceptor.classes",
}
"""Another client's name, and Kafka's (with what differs)."""


def _each(names: str, sentence: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), sentence)


SENTENCES: Final[dict[str, str]] = {
    **_each("enable.ssl.certificate.verification https.ca.location https.ca.pem", _TLS),
    **_each("oauth.cb enable.sasl.oauthbearer.unsecure.jwt", _SASL),
    **_each("transactional.id transaction.two.phase.commit.enable", _TRANSACTIONS),
    **_each("enable.auto.offset.store offset.store.method offset.store.path offset.store.sync.interval.ms", _OFFSETS),
    **_each("default.offset.commit.callback on.commit offset.commit.cb rebalance.cb rebalance.listener", _CALLBACKS),
    **_each(
        "leave.group.on.close internal.leave.group.on.close",
        "close() leaves the group, unless group.instance.id is set: leave it out",
    ),
    **_each(
        "api.version api.version.auto.timeout.ms api.version.request api.version.request.timeout.ms "
        "api.version.fallback.ms broker.version.fallback",
        _VERSIONS,
    ),
    **_each("debug log.level logger log.cb log.queue log.thread.name log.connection.close", _LOGGING),
    **_each("enable.partition.eof", "ends are not reported: compare position() with end_offsets(); leave it out"),
    **_each("consumer.timeout.ms", "poll(timeout) is bounded in seconds: leave it out"),
    **_each(
        "on.delivery dr.cb dr.msg.cb delivery.report.only.error produce.offset.report",
        "delivery is told by send(..., on_delivery=...): leave it out",
    ),
    **_each(
        "metric.reporters metrics.recording.level metrics.enabled "
        "metric.group.prefix auto.include.jmx.reporter enable.metrics.push config.providers security.providers "
        "coordinator.query.interval.ms group.protocol.type share.acknowledgement.mode enable.controlled.shutdown "
        "socket.keepalive.enable socket.nagle.disable socket.max.fails socket.blocking.max.ms socket.options "
        "broker.address.ttl broker.address.family topic.metadata.refresh.fast.interval.ms "
        "topic.metadata.refresh.fast.cnt topic.metadata.refresh.sparse topic.metadata.propagation.max.ms "
        "topic.blacklist queued.min.messages queue.buffering.backpressure.threshold sticky.partitioning.linger.ms "
        "fetch.queue.backoff.ms message.copy.max.bytes max.in.flight.requests plugin.library.paths builtin.features "
        "internal.termination.signal open.cb socket.cb connect.cb closesocket.cb resolve.cb throttle.cb "
        "background.event.cb opaque default.topic.conf client.software.name client.software.version "
        "sock.chunk.bytes sock.chunk.buffer.count selector loop legacy.iterator kafka.client socks5.proxy proxy.url "
        "bootstrap.topics.filter raise.upon.socket.err.during.wakeup bootstrap.controllers key.deserializer.encoding "
        "consume.callback.max.messages test.mock.num.brokers receive.message.max.bytes enabled.events consume.cb "
        "enable.random.seed queuing.strategy msg.order.cmp enable.incremental.fetch.sessions partitioner.rack.aware",
        _NOTHING,
    ),
}
"""What has no name here, and why."""

ELSEWHERE: Final[dict[str, str]] = {
    **_each(
        "acks batch.size buffer.memory close.timeout.ms compression.gzip.level compression.lz4.level compression.type "
        "compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes key.serializer linger.ms "
        "max.block.ms max.request.size metadata.max.idle.ms partitioner.adaptive.partitioning.enable "
        "partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys retries transaction.timeout.ms "
        "value.serializer",
        "a setting of the producer",
    ),
    **_each(
        "allow.auto.create.topics auto.offset.reset check.crcs enable.auto.commit fetch.max.bytes fetch.max.wait.ms "
        "auto.commit.interval.ms exclude.internal.topics fetch.min.bytes group.id group.instance.id group.protocol "
        "group.remote.assignor heartbeat.interval.ms isolation.level key.deserializer max.partition.fetch.bytes "
        "max.poll.interval.ms max.poll.records partition.assignment.strategy session.timeout.ms value.deserializer",
        "a setting of the consumer",
    ),
}
"""Whose settings they are that only one client has."""

_NEAR: Final = 0.8
"""How alike two names are when one is surely a slip for the other (difflib's ratio): `linger` is so for `linger.ms`."""


def why_unknown(key: object, known: Iterable[str]) -> str:
    """What to say of a setting that is not among the `known` names (with dots)."""
    if not isinstance(key, str):
        return f"unknown setting {key!r}: names are strings"
    name = key.replace("_", ".").lower()
    if name.startswith("ssl."):
        return f"{key}: {_TLS}"
    if name.startswith("sasl."):
        return f"{key}: {_SASL}"
    if name in SENTENCES:
        return f"{key}: {SENTENCES[name]}"
    names = list(known)
    if name in ELSEWHERE:  # a serializer where a deserializer is meant, or something of no use here
        meant = difflib.get_close_matches(name, names, n=1, cutoff=0.9)
        return f"{key} is {ELSEWHERE[name]}" + (f"; did you mean {meant[0]!r}?" if meant else ": leave it out here")
    if name in INSTEAD:
        there = "" if INSTEAD[name].split()[0] in names else ", which this client does not take"
        return f"unknown setting {key!r}: Kafka's name for it is {INSTEAD[name]}{there}"
    near = difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)
    return f"unknown setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")


_PROTOCOLS: Final = {
    "SSL": _TLS,
    "SASL_PLAINTEXT": _SASL,
    "SASL_SSL": "TLS and SASL are not supported yet: connect to a PLAINTEXT listener",
}


def why_protocol(protocol: str) -> str:
    """What to say of a `security.protocol` that is not PLAINTEXT."""
    return _PROTOCOLS.get(protocol.upper(), "it is none of Kafka's: write PLAINTEXT, or leave it out")
