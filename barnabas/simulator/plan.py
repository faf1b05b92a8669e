"""What a seed is: settings of brokers and of their clients, and the faults that they meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.faults import (
    RESTARTS,
    Fault,
    draw_apart,
    draw_faults,
    draw_member_faults,
    draw_quorum_faults,
    draw_story,
    draw_unclean,
)
from barnabas.simulator.world import World

TOPIC: Final = "t"
SEVERAL: Final = 3
"""Brokers of a cluster."""
LOOSE: Final = "loose"
"""A topic that lets a replica lead that was not in sync."""
LOOSE_HOMES: Final = (2, 3)
"""The brokers that have it."""
CONTROLLER: Final = 1
"""The one that is its controller, where it has only one."""


@dataclass
class Plan:
    """What a seed is: drawn from it alone.

    Attributes:
        synced: every acknowledgement waits for its sync, and power may fail.
        broker: settings of each broker, by Kafka's names.
        producers: settings of each producer.
        consumers: settings of each consumer.
        members: settings of each member of a consumer group; none where there is no group.
        moves: whether somebody moves partitions between brokers.
        controllers: how many of the brokers are controllers, too, the first ones.
        remakes: whether somebody deletes a topic of its own and has it made anew.
        unclean: whether there is a topic whose leader may be one that was not in sync, and it comes to that.
        heavy: whether some records are more than a broker packs anew while others wait.
    """

    seed: str
    duration_ms: int
    synced: bool
    partitions: int
    broker: dict[str, str]
    producers: list[dict[str, Any]]
    consumers: list[dict[str, Any]]
    faults: list[Fault]
    brokers: int = 1
    members: list[dict[str, Any]] = field(default_factory=list)
    moves: bool = False
    controllers: int = 1
    heavy: bool = False
    remakes: bool = False
    unclean: bool = False

    @property
    def partitions_told(self) -> list[TopicPartition]:
        """All partitions of the topic."""
        return [TopicPartition(TOPIC, number) for number in range(self.partitions)]

    def promises_once(self, producer: dict[str, Any]) -> bool:
        """Whether a producer's records are there once and in order, whatever happens.

        After a start a broker knows the last batch of each producer, as Apache Kafka does: of several that were written
        and not acknowledged the first is refused then, and comes again under a new epoch.
        """
        one_at_a_time = producer.get("max_in_flight_requests_per_connection", 5) == 1
        restarts = any(fault.kind in RESTARTS for fault in self.faults)
        return bool(producer.get("enable_idempotence", True)) and (one_at_a_time or not restarts)


def host_of(node_id: int) -> str:
    """The address of a broker's machine."""
    return f"10.0.0.{node_id}"


def draw(seed: str, duration_ms: int = 60_000, brokers: int = SEVERAL, controllers: int = 0) -> Plan:
    """The plan of a seed. One in ten keeps the defaults of brokers and clients, and lasts five times as long.

    `brokers`: how many; 1 stands alone. `controllers`: how many of several brokers are controllers; 0 leaves that to
    the seed: two in seven have one, the others a quorum of all.
    """
    chance = World(seed).chance("plan")
    synced = chance.randrange(3) > 0
    defaults = chance.randrange(10) == 0
    broker = {
        "log.message.timestamp.after.max.ms": str(2**63 - 1),  # clocks are hours apart
    }
    broker["offsets.topic.num.partitions"] = "2"  # few, for all that is looked at is looked at after each turn
    broker |= {"barnabas.topics": f"{TOPIC}:2"} if brokers == 1 else _CLUSTER
    if synced:
        broker["log.flush.interval.messages"] = "1"
    if defaults:
        duration_ms *= 5
    else:
        broker |= {
            "log.initial.task.delay.ms": "2000",  # a minute is to see the upkeep of logs
            "log.retention.check.interval.ms": "5000",
            "log.roll.ms": str(chance.choice((2000, 10_000, 3_600_000))),
            "log.flush.offset.checkpoint.interval.ms": str(chance.choice((500, 5000, 60_000))),
            "replica.high.watermark.checkpoint.interval.ms": str(chance.choice((500, 5000))),
            "connections.max.idle.ms": str(chance.choice((8000, 600_000))),
            "log.index.interval.bytes": str(chance.choice((0, 100, 4096))),
        }
        if brokers > 1:
            broker |= _cluster(chance)
            if World(seed).chance("rolls").randrange(4) == 0:
                broker["log.roll.ms"] = "100"  # power then fails while files are new, and their names can be lost
    producers = [_producer(chance, defaults, idempotent=number < 2) for number in range(3)]
    consumers = [_consumer(chance, defaults) for _ in range(2)]
    faults = draw_faults(chance, duration_ms, brokers, synced=synced)
    plan = Plan(seed, duration_ms, synced, 2, broker, producers, consumers, faults, brokers)
    chance = World(seed).chance("groups")
    if chance.randrange(2) == 0:
        _with_group(plan, chance, defaults)
    apart = not (brokers == 1 or controllers or synced or defaults) and World(seed).chance("apart").randrange(3) == 0
    plan.controllers = 1 if brokers == 1 or apart else controllers or _controllers(seed)
    if plan.controllers > 1:
        _with_quorum(plan, World(seed).chance("quorum"), defaults)
    chance = World(seed).chance("stories")
    if brokers > 1 and chance.randrange(3) == 0:
        story = draw_story(chance, duration_ms, brokers)
        plan.faults = story.told(plan.faults, duration_ms)
        if not defaults:
            plan.broker |= story.settings
            if chance.randrange(2):
                plan.broker["leader.imbalance.check.interval.seconds"] = "3"
    plan.moves = brokers > 1 and World(seed).chance("moves").randrange(4) == 0
    plan.remakes = brokers > 1 and not controllers and World(seed).chance("remakes").randrange(5) == 0
    if apart:
        _with_batches_apart(plan, World(seed).chance("story of batches apart"))
    can_be_unclean = brokers > 2 and synced and not (controllers or apart or plan.remakes)
    if can_be_unclean and World(seed).chance("unclean").randrange(8) == 0:
        plan.unclean = True
        story = draw_unclean(World(seed).chance("story of an unclean leader"), duration_ms, LOOSE_HOMES)
        plan.faults = story.told(plan.faults, duration_ms)
    return plan


_CLUSTER: Final = {
    "num.partitions": "2",  # the topic is made when a client asks for it and three brokers are there
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}


def _controllers(seed: str) -> int:
    return SEVERAL if World(seed).chance("controllers").randrange(5) else 1


def _with_quorum(plan: Plan, chance: Random, defaults: bool) -> None:
    plan.faults = sorted([*plan.faults, *draw_quorum_faults(chance, plan.duration_ms, synced=plan.synced)])
    if defaults:
        return
    plan.broker |= {
        "controller.quorum.election.timeout.ms": str(chance.choice((200, 500, 1000))),
        "controller.quorum.fetch.timeout.ms": str(chance.choice((1500, 2000, 4000))),
        "controller.quorum.election.backoff.max.ms": str(chance.choice((100, 1000))),
        "controller.quorum.request.timeout.ms": str(chance.choice((500, 2000))),
        "metadata.log.max.record.bytes.between.snapshots": str(chance.choice((300, 1000, 20_000_000))),
    }


def _cluster(chance: Random) -> dict[str, str]:
    lag_ms, answer_ms = chance.choice((800, 3000, 10_000, 30_000)), chance.choice((1000, 3000, 30_000))
    return {
        "broker.session.timeout.ms": str(chance.choice((1000, 3000, 9000))),
        "broker.heartbeat.interval.ms": str(chance.choice((200, 500))),
        "replica.lag.time.max.ms": str(lag_ms),
        "replica.socket.timeout.ms": str(answer_ms),
        "replica.fetch.wait.max.ms": "500" if min(lag_ms, answer_ms) < 3000 else "2000",
    }


def _with_batches_apart(plan: Plan, chance: Random) -> None:
    story = draw_apart(chance, plan.duration_ms, plan.brokers)
    plan.heavy, plan.partitions = True, 2 * plan.brokers  # so that a request has batches for several
    plan.faults = story.told(plan.faults, plan.duration_ms)
    plan.broker |= {**story.settings, "num.partitions": str(plan.partitions)}
    for settings in plan.producers:
        settings |= {"compression_type": "lz4", "linger_ms": 50}  # the batches of a moment go in one request


def _with_group(plan: Plan, chance: Random, defaults: bool) -> None:
    """Three members of a group, all of one protocol or of both."""
    protocols = chance.choice((("classic",), ("consumer",), ("classic", "consumer")))
    del plan.consumers[1:]  # its members read, too
    plan.members = [{"group_protocol": chance.choice(protocols), **_member(chance, defaults)} for _ in range(3)]
    plan.faults = sorted([*plan.faults, *draw_member_faults(chance, plan.duration_ms, len(plan.members))])
    if defaults:
        return
    heartbeat_ms, session_ms = chance.choice((500, 900)), chance.choice((2000, 6000))
    plan.broker |= {
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": str(chance.choice((0, 500, 3000))),
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": str(session_ms),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": str(heartbeat_ms),
        "offsets.commit.timeout.ms": str(chance.choice((500, 5000))),
    }
    for settings in plan.members:
        if settings["group_protocol"] == "classic":
            settings |= {"session_timeout_ms": session_ms, "heartbeat_interval_ms": heartbeat_ms}


def _member(chance: Random, defaults: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"enable_auto_commit": chance.randrange(2) == 0}
    if not defaults:
        settings |= {
            "auto_commit_interval_ms": chance.choice((500, 2000)),
            "max_poll_interval_ms": chance.choice((2000, 300_000)),
            "max_poll_records": chance.choice((3, 500)),
            "request_timeout_ms": chance.choice((1000, 10_000)),
        }
    return settings


def _producer(chance: Random, defaults: bool, *, idempotent: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {} if idempotent else {"enable_idempotence": False, "acks": "all"}
    if not defaults:
        request_ms = chance.choice((500, 2000, 10_000))
        settings |= {
            "linger_ms": chance.choice((0, 5, 50)),
            "batch_size": chance.choice((200, 1000, 16_384)),
            "request_timeout_ms": request_ms,
            "delivery_timeout_ms": request_ms + chance.choice((100, 5000, 60_000)),
            "max_block_ms": chance.choice((1000, 60_000)),
            "retry_backoff_ms": chance.choice((10, 100)),
            "max_in_flight_requests_per_connection": chance.choice((1, 2, 5)),
            "compression_type": chance.choice(("none", "none", "lz4", "zstd")),
        }
    return settings


def _consumer(chance: Random, defaults: bool) -> dict[str, Any]:
    if defaults:
        return {}
    return {
        "fetch_max_wait_ms": chance.choice((500, 2000)),
        "fetch_min_bytes": chance.choice((1, 400)),  # one partition may give no more than 500
        "fetch_max_bytes": chance.choice((1000, 50 * 1024 * 1024)),
        "max_partition_fetch_bytes": chance.choice((500, 1024 * 1024)),
        "max_poll_records": chance.choice((1, 7, 500)),
        "request_timeout_ms": chance.choice((3000, 30_000)),
    }
