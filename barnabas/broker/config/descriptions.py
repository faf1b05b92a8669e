"""What each setting does here, in a sentence: DescribeConfigs tells it to who asks for documentation.

A broker's setting that topics or groups take their default from has their sentence. Loaded when first asked for.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.config.group_config import UNUSED_GROUP_KEYS, GroupConfig, synonym_of
from barnabas.broker.config.keys import keys_of
from barnabas.broker.config.sources import WITHOUT_EFFECT
from barnabas.broker.config.topic_config import SYNONYMS, UNUSED_TOPIC_KEYS

NO_EFFECT: Final = "Accepted, kept and told, and without effect on this broker."
_DEFAULT_OF_TOPICS: Final = "For topics that do not set it themselves: "
_DEFAULT_OF_GROUPS: Final = "For groups that do not set it themselves: "

_TOPIC: Final = {
    "cleanup.policy": "delete ends segments by time and size; compact keeps the last record of each key; or both.",
    "compression.gzip.level": "Level of gzip where the broker compresses itself: 1 to 9, or -1 for the library's own.",
    "compression.lz4.level": "Level of lz4 where the broker compresses itself: 1 to 17.",
    "compression.type": "producer keeps batches as they were sent; any other codec has the broker compress them anew.",
    "compression.zstd.level": "Level of zstd where the broker compresses itself: up to 22.",
    "delete.retention.ms": "How long (ms) a tombstone outlives its compaction, for readers that are slow.",
    "file.delete.delay.ms": "How long (ms) the files of a deleted segment stay on the disk.",
    "flush.messages": "Force the log to the disk after so many records; the greatest value leaves it to the system.",
    "flush.ms": "Force the log to the disk after so long (ms); the greatest value leaves it to the system.",
    "index.interval.bytes": "An entry of the offset index for each so many bytes of the log.",
    "max.compaction.lag.ms": "After so long (ms) a record is compacted, however little there is to clean.",
    "max.message.bytes": "The largest batch of records that is accepted (bytes, as it was sent).",
    "message.timestamp.after.max.ms": "How far (ms) a record's timestamp may lie after the broker's clock.",
    "message.timestamp.before.max.ms": "How far (ms) a record's timestamp may lie before the broker's clock.",
    "message.timestamp.type": "CreateTime is the producer's; LogAppendTime the broker's, at the append.",
    "min.cleanable.dirty.ratio": "The share of a compacted log that must be new before it is cleaned: 0 to 1.",
    "min.compaction.lag.ms": "For so long (ms) at least a record is not compacted.",
    "min.insync.replicas": "With fewer replicas in sync than this a produce request with acks=all is refused.",
    "retention.bytes": "The size (bytes) of a partition above which its oldest segments are deleted; -1 for no limit.",
    "retention.ms": "How long (ms) records are kept, by their timestamps and whole segments; -1 for ever.",
    "segment.bytes": "The size (bytes) at which a new segment begins; records are deleted and compacted by segments.",
    "segment.index.bytes": "The size (bytes) of a segment's offset index at which a new segment begins.",
    "segment.jitter.ms": "Up to so long (ms), by chance, is taken off segment.ms, so that not all logs roll at once.",
    "segment.ms": "After so long (ms) a new segment begins, however small the last one is.",
    "unclean.leader.election.enable": "Whether a replica that was not in sync may lead where no other can.",
}
TOPIC: Final = (
    _TOPIC
    | dict.fromkeys(UNUSED_TOPIC_KEYS, NO_EFFECT)
    | {
        "follower.replication.throttled.replicas": "Replicas, as partition:broker or *, held to the follower's rate.",
        "leader.replication.throttled.replicas": "Replicas, as partition:leader or *, held to the leader's rate.",
    }
    | {name: NO_EFFECT for name, whose in SYNONYMS.items() if whose in WITHOUT_EFFECT}
)

GROUP: Final = {
    "consumer.assignment.interval.ms": "At least so long (ms) lies between two assignments of the broker (KIP-848).",
    "consumer.heartbeat.interval.ms": "How often (ms) members of the consumer protocol are to send a heartbeat.",
    "consumer.session.timeout.ms": "A member of the consumer protocol that is silent for so long (ms) is put out.",
} | dict.fromkeys(UNUSED_GROUP_KEYS, NO_EFFECT)

_BROKER: Final = {
    "node.id": "The number by which clients and other brokers know this broker.",
    "broker.rack": "Where this broker stands, as clients are told; replicas of new partitions spread over racks.",
    "listeners": "Where the broker listens: NAME://host:port, with commas between them; port 0 takes a free one.",
    "advertised.listeners": "The addresses that clients are told, where they are not those of listeners.",
    "controller.listener.names": "Those of listeners that are for controllers, and are not opened.",
    "listener.security.protocol.map": "The security protocol of each listener, by its name; PLAINTEXT is served.",
    "log.dir": "The data directory, where log.dirs names none.",
    "log.dirs": "The data directory.",
    "connections.max.idle.ms": "A connection that is silent for so long (ms) is closed.",
    "max.connection.creation.rate": "So many new connections a second are accepted.",
    "max.connections": "So many connections may be open.",
    "max.connections.per.ip": "So many connections of one address may be open.",
    "queued.max.request.bytes": "So much (bytes) is held in memory for all clients before the broker reads no further.",
    "socket.listen.backlog.size": "So many connections may wait to be accepted.",
    "socket.receive.buffer.bytes": "The receive buffer of a socket (bytes); -1 leaves it to the system.",
    "socket.request.max.bytes": "The largest request that is accepted (bytes).",
    "socket.send.buffer.bytes": "The send buffer of a socket (bytes); -1 leaves it to the system.",
    "auto.create.topics.enable": "Whether a topic that a client asks for, and allows to be made, is made.",
    "default.replication.factor": "The replicas of a topic that is made without saying how many.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "num.partitions": "The partitions of a topic that is made without saying how many.",
    "fetch.max.bytes": "The most (bytes) that one fetch is answered, beyond its first batch.",
    "max.incremental.fetch.session.cache.slots": "So many fetch sessions are kept (KIP-227).",
    "delete.records.purgatory.purge.interval.requests": "After so many waits of DeleteRecords their lists are swept.",
    "fetch.purgatory.purge.interval.requests": "After so many waits of Fetch their lists are swept.",
    "producer.purgatory.purge.interval.requests": "After so many waits of Produce their lists are swept.",
    "group.consumer.assignors": "The assignors that consumer groups may choose; the first is the default (KIP-848).",
    "group.consumer.max.assignment.interval.ms": "The most that a group's consumer.assignment.interval.ms may be.",
    "group.consumer.max.heartbeat.interval.ms": "The most that a group's consumer.heartbeat.interval.ms may be.",
    "group.consumer.max.session.timeout.ms": "The most that a group's consumer.session.timeout.ms may be.",
    "group.consumer.max.size": "So many members may be in a group of the consumer protocol.",
    "group.consumer.migration.policy": "Which way a group may change its protocol while it runs.",
    "group.consumer.min.assignment.interval.ms": "The least that a group's consumer.assignment.interval.ms may be.",
    "group.consumer.min.heartbeat.interval.ms": "The least that a group's consumer.heartbeat.interval.ms may be.",
    "group.consumer.min.session.timeout.ms": "The least that a group's consumer.session.timeout.ms may be.",
    "group.consumer.regex.refresh.interval.ms": "How often (ms) subscriptions by pattern are looked up anew.",
    "group.coordinator.rebalance.protocols": "The protocols that groups may use: classic, consumer.",
    "group.initial.rebalance.delay.ms": "How long (ms) the first generation of a classic group waits for more members.",
    "group.max.session.timeout.ms": "The longest session (ms) that a member of a classic group may ask for.",
    "group.max.size": "So many members may be in a classic group.",
    "group.min.session.timeout.ms": "The shortest session (ms) that a member of a classic group may ask for.",
    "offset.metadata.max.bytes": "The largest text that may be committed with an offset.",
    "offsets.commit.timeout.ms": "A commit that is not replicated after so long (ms) is answered with an error.",
    "offsets.retention.check.interval.ms": "How often (ms) the broker looks for offsets that have expired.",
    "offsets.retention.minutes": "For so long (minutes) the offsets of a group without members are kept.",
    "offsets.topic.compression.codec": "The codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "The partitions of the offsets topic when it is made.",
    "offsets.topic.replication.factor": "The replicas of the offsets topic, which waits for as many brokers; one where "
    "a broker stands alone.",
    "offsets.topic.segment.bytes": "segment.bytes of the offsets topic when it is made.",
    "auto.leader.rebalance.enable": "Whether partitions are given back to their preferred leader, the first replica.",
    "broker.heartbeat.interval.ms": "How often (ms) a broker of a cluster tells the controller that it is there.",
    "broker.session.timeout.ms": "A broker of a cluster that is silent for so long (ms) leads nothing any more.",
    "controller.quorum.bootstrap.servers": "A broker that is no controller, and is not told of them by "
    "controller.quorum.voters, asks other nodes at these addresses who they are.",
    "controller.quorum.election.backoff.max.ms": "A candidate that was not elected waits up to so long "
    "(ms), by chance.",
    "controller.quorum.election.timeout.ms": "An election among several controllers takes up to so long "
    "(ms), or twice.",
    "controller.quorum.fetch.timeout.ms": "So long (ms) without a fetch that succeeds ends a controller's trust in the "
    "active one; half as long again without any majority ends its lead.",
    "controller.quorum.request.timeout.ms": "One controller waits so long (ms) for an answer of another.",
    "process.roles": "In a cluster: broker,controller of its controllers, broker of all others.",
    "controller.quorum.voters": "The controller of the cluster, or several: its id, and its listener for brokers "
    "(1@host:9093).",
    "leader.imbalance.check.interval.seconds": "How often (s) the controller looks for partitions to be given back.",
    "replica.fetch.wait.max.ms": "How long (ms) a leader that has no records keeps this follower's request.",
    "replica.high.watermark.checkpoint.interval.ms": "How often (ms) high watermarks are written to the disk.",
    "follower.replication.throttled.rate": "So many bytes a second this broker fetches of listed replicas out of sync.",
    "leader.replication.throttled.rate": "So many bytes a second this broker sends to listed replicas out of sync.",
    "replica.lag.time.max.ms": "A follower that has not caught up for so long (ms) is no longer in sync.",
    "replica.selector.class": "Whether consumers with a client.rack read from a replica in sync there "
    "(RackAwareReplicaSelector); all read from the leader without.",
    "replica.socket.timeout.ms": "How long (ms) another broker may take for an answer; the controller, at most half "
    "of broker.session.timeout.ms.",
    "unclean.leader.election.interval.ms": "How often (ms) partitions without a leader get one that was not in sync.",
    "log.cleaner.backoff.ms": "How long (ms) the cleaner rests when no log needs it.",
    "log.cleaner.dedupe.buffer.size": "The memory (bytes) for the keys of one cleaning.",
    "log.cleaner.enable": "Whether logs are compacted.",
    "log.flush.offset.checkpoint.interval.ms": "How often (ms) it is written down up to where logs are on the disk.",
    "log.flush.scheduler.interval.ms": "flush.ms of topics where log.flush.interval.ms does not say.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often (ms) the first offsets of logs are written down.",
    "log.initial.task.delay.ms": "How long (ms) after the start the upkeep of logs begins.",
    "log.retention.check.interval.ms": "How often (ms) the broker looks for segments that are to be deleted.",
    "log.retention.hours": "retention.ms of topics in hours, where neither minutes nor ms say.",
    "log.retention.minutes": "retention.ms of topics in minutes, where log.retention.ms does not say.",
    "log.roll.hours": "segment.ms of topics in hours, where log.roll.ms does not say.",
    "inter.broker.listener.name": "The listener that the brokers of a cluster speak over, and nobody else.",
    "log.roll.jitter.hours": "segment.jitter.ms of topics in hours, where log.roll.jitter.ms does not say.",
    "metadata.log.max.record.bytes.between.snapshots": "After so many bytes of new metadata a snapshot is written.",
    "producer.id.expiration.check.interval.ms": "How often (ms) the broker looks for producers to forget.",
    "producer.id.expiration.ms": "A producer that has sent nothing for so long (ms) is forgotten.",
    "barnabas.batch.bytes.max": "The most (bytes) that a batch may unpack to where its records are looked at.",
    "barnabas.batch.records.max": "The most records that a batch may have.",
    "barnabas.busy.poll.us": "How long (µs) the loop stays awake after an event, where that pays; 0 never.",
    "barnabas.cluster.id": "The cluster that this broker is to be of; a data directory of another one is refused.",
    "barnabas.cluster.secret.file": "The file with the secret that the brokers of a cluster share; mode 0600.",
    "barnabas.connection.progress.bytes.per.second": "So much (bytes a second) whoever has begun something must move.",
    "barnabas.connection.progress.ms": "In so long (ms) whoever has begun something must have moved what it has to.",
    "barnabas.controller.mutation.burst": "So many partitions an address may make or delete at once (KIP-599).",
    "barnabas.controller.mutation.rate": "So many partitions a second an address may make or delete after that.",
    "barnabas.fetch.max.wait.ms": "A fetch waits for so long (ms) at most, whatever it asks for.",
    "barnabas.group.gather.ms": "Members that come to an empty group within so long (ms) begin it together.",
    "barnabas.http": "Where /health, /metrics and /state are served: docs/SECURITY.md has the choices.",
    "barnabas.http.hosts": "Names beside its own that the HTTP side answers to; * for any.",
    "barnabas.topics": "Topics that are made when the broker starts: name:partitions{setting=value}.",
    "barnabas.validate.records": "header trusts the header of a batch where it can; full looks at each record.",
}


def _broker() -> dict[str, str]:
    found = {whose: _DEFAULT_OF_TOPICS + TOPIC[name] for name, whose in SYNONYMS.items()}
    found |= {synonym_of(name): _DEFAULT_OF_GROUPS + GROUP[name] for name in keys_of(GroupConfig)}
    return found | _BROKER | dict.fromkeys(WITHOUT_EFFECT, NO_EFFECT)


BROKER: Final = _broker()
