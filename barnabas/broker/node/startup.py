"""The way up, and the way down, of one broker: jobs that run while it serves already.

    NEW -> LOADING     the metadata log is replayed, or followed up to its end where another node is the controller, or
                       several are; requests wait, but for ApiVersions, and what controllers ask of each other
        -> RECOVERING  this broker is registered, fenced, and leads nothing: errors 6 and 5; new topics wait
        -> HOSTING     all logs are open; partitions come up
        -> READY       unfenced, leader of what it has in sync; topics of the configuration are there
        -> STOPPING    where another node is the controller, it has others lead first

A restart takes the leadership of every partition away and gives it back: its leader epoch rises by two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sized
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.cluster.features import as_triples, first_levels
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.judgement import DIRECTORY as METADATA_DIRECTORY
from barnabas.broker.cluster.leadership import fenced, nobody_has_all, step_down, step_up, unproven
from barnabas.broker.cluster.record_log import Commit
from barnabas.broker.cluster.records import (
    BrokerChange,
    Cluster,
    MetadataRecord,
    PartitionChange,
    ProducerIds,
    RegisterBroker,
)
from barnabas.broker.cluster.succession import one_minimum
from barnabas.broker.cluster.topic_rules import NewTopic, TopicResult
from barnabas.broker.config import parse_topics
from barnabas.broker.delayed.timer import CallbackTask
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.node import identity, proof, strays
from barnabas.broker.node.identity import Identity
from barnabas.broker.node.room import pause, until_room
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core
    from barnabas.broker.node.member import Member

logger = logging.getLogger(__name__)

LEAVE_MS_MAX: Final = 500
"""How long a broker that stops waits for the controller to have others lead what it leads."""
PARTITIONS_PER_STEP: Final = 2
"""A new one costs the file system half a ms, at times two."""
AT_ONCE_MAX: Final = 20
"""Partitions that are acted on before the answer leaves: a topic of few is there when its client hears of it."""
_LOOKED_AT_PER_STEP: Final = 1000
_LOOK_MS: Final = 20


class Phase(IntEnum):
    """How far a broker has come. Every phase includes what the one before it could do, up to READY."""

    NEW = 0
    LOADING = 1
    RECOVERING = 2
    HOSTING = 3
    READY = 4
    STOPPING = 5


_PROMISE: Final = f"{METADATA_DIRECTORY}/quorum-state"  # `kept.FILE`, without what only clusters need

FIRST_PHASE: Final[dict[int, Phase]] = {
    ApiKey.API_VERSIONS: Phase.NEW,
    ApiKey.CREATE_TOPICS: Phase.READY,
    ApiKey.CREATE_PARTITIONS: Phase.READY,
}
"""From when on an API is served, if not from RECOVERING: nothing can be placed while every broker is still fenced."""


class _Commit:
    """Turns a commit into something a job can wait for."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.fault: KafkaError | None = None

    def __call__(self, fault: KafkaError | None) -> None:
        self.fault = fault
        self.gate.open()

    def wait(self) -> Job[None]:
        yield from wait(self.gate)
        if self.fault is not None:
            raise self.fault


def run(core: Core, mine: Identity) -> Job[None]:
    """Bring a broker up. ApiVersions is answered meanwhile: a new directory's first sync keeps nobody waiting.

    Raises:
        BarnabasError: the metadata cannot be read or written.
        OSError: the data directory cannot be read.
    """
    if mine.fresh:
        yield from identity.write(core.disk, mine)
    noted: Gate | None = None
    last_epoch = -1
    if core.peers is not None:
        from barnabas.broker.node import promise  # clusters alone need it

        known = promise.load(core)
        last_epoch = known.epoch
        if core.voter is not None:
            yield from core.voter.start(known)
    elif core.disk.exists(_PROMISE):
        from barnabas.broker.node import promise

        promise.check_alone(core)
    if core.member is None:
        noted = yield from _take_charge(core, mine, last_epoch)
    else:
        yield from _follow(core, core.member.caught_up)
        identity.check_cluster(mine, core.image.cluster_id)
        identity.check_features(core.image.features, core.features)
        core.settings.refresh()
    core.phase = Phase.RECOVERING
    core.release_held()
    topics, losses = core.image.topics, core.logs.losses
    lost = losses.count
    losses.first = partial(proof.withdraw, core.disk) if core.peers is not None else None
    clean = yield from core.logs.load(
        lambda name: topics[name].topic_id if name in topics else ZERO_UUID, partial(strays.belongs, core)
    )
    yield from strays.doubt(core)
    losses.first = None
    lacking = losses.count > lost or core.logs.gaps or any(map(core.logs.is_damaged, core.logs.failed))
    if core.peers is not None and (lacking or core.logs.unnamed):
        yield from _disprove(core)
    yield from strays.clear(core)
    core.phase = Phase.HOSTING
    yield from _host_all(core)
    if core.member is None:
        yield from _lead(core)
    else:
        core.member.hosted(core.now_ms)
        yield from _follow(core, core.member.unfenced)
    now_ms = core.now_ms
    core.replicas.start(now_ms)
    core.logs.start(now_ms)
    yield from _create_start_topics(core)
    yield from _host_all(core)  # what changed in large slices is still on its way; done twice is done once
    if noted is not None:
        yield from wait(noted)
    core.phase = Phase.READY
    core.release_held()
    found = "a new data directory" if core.fresh else "a clean end" if clean else "a sudden end, logs checked"
    logger.info("ready: %s, %s, %s", found, _some(core.image.topics, "topic"), _some(core.logs.logs, "partition"))


def _some(things: Sized, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


def _take_charge(core: Core, mine: Identity, last_epoch: int) -> Job[Gate]:
    """Replay the metadata log, and register: this broker is its own controller. The gate of the ledger's note."""
    controller, node_id = core.controller, core.config.node_id
    in_use = not mine.fresh and identity.in_use(core.disk)
    yield from core.metadata.load(core.image, in_use=in_use, last_epoch=last_epoch)
    identity.check_cluster(mine, core.image.cluster_id)
    identity.check_features(core.image.features, core.features)
    controller.reload()
    core.settings.refresh()
    if core.peers is not None:
        from barnabas.broker.node import membership, promise

        yield from promise.keep(core, core.metadata.epoch)
    missing = _missing_records(core, mine)
    if missing:
        yield from _write(core, missing)
    if core.peers is None:
        yield from _write(core, [_registration(core)])
        for records in step_down(controller.pending, node_id):
            yield from _write(core, records)
    else:  # others may have what this one has lost: they lead, and it comes back as any other
        yield from _come_back(core)
    noted = core.metadata.note(core.image.next_producer_id)
    if core.peers is not None:
        membership.lead(core, mine)
    return noted


def _lead(core: Core) -> Job[None]:
    """All logs are open: this broker takes part, and leads what it may."""
    node_id, members = core.config.node_id, core.services.members
    if members is not None:
        yield from _commit(core, lambda done: members.take_part(node_id, done))
        return
    yield from _write(core, [BrokerChange(node_id, fenced=False)])
    for records in step_up(core.controller.pending, node_id, core.controller.terms_of):
        yield from _write(core, records)


def _follow(core: Core, gate: Gate) -> Job[None]:
    """Wait until another controller's cluster is this far."""
    yield from wait(gate)
    assert core.member is not None
    if core.member.fault is not None:
        raise core.member.fault


def _missing_records(core: Core, mine: Identity) -> list[MetadataRecord]:
    """What a first start writes, and one after records were lost and given up."""
    image, handed_out = core.image, core.metadata.ledger.producer_ids_end
    records: list[MetadataRecord] = []
    if not image.cluster_id:
        records.append(Cluster(mine.cluster_id))
    records += first_levels(image, core.features)
    if core.peers is not None:
        records += one_minimum(image, core.config)
    if image.next_producer_id < handed_out:
        logger.warning("producer ids below %d may have been given out; they are not given out again", handed_out)
        records.append(ProducerIds(mine.node_id, handed_out))
    return records


def _registration(core: Core) -> RegisterBroker:
    """This broker has come up anew: it is fenced, and is to lead nothing until it is unfenced."""
    config, old = core.config, core.image.brokers.get(core.config.node_id)
    epoch = 0 if old is None else old.broker_epoch + 1
    life, known = core.entropy.uuid(), as_triples(core.features)
    return RegisterBroker(config.node_id, epoch, life, core.endpoints_told, config.broker_rack, True, known)


def _come_back(core: Core) -> Job[None]:
    """Register the controller's own broker: others lead what they have in sync."""
    from barnabas.broker.cluster.members import say_unproven  # clusters alone need it

    node_id = core.config.node_id
    doubtful: list[PartitionChange] = []
    old = core.image.brokers.get(node_id)
    shown = old is None or proof.shows(core.disk, core.boot_id, old.broker_epoch)

    def decide(image: Image) -> Job[list[MetadataRecord]]:
        leaves = fenced if shown else unproven
        changes = yield from leaves(image, node_id, core.controller.terms_of)
        doubtful[:] = [] if shown else nobody_has_all(image, changes)
        return [_registration(core), *changes]

    yield from _commit(core, lambda done: core.controller.decide(decide, done))
    proof.note(core.disk, core.boot_id, core.image.broker_epoch(node_id))
    if doubtful:
        say_unproven(core.image, node_id, doubtful)


def _disprove(core: Core) -> Job[None]:
    """The logs have lost something: what this broker could show of its last life says nothing of that."""
    logger.warning(
        "what was found lost leaves this broker in no ISR, and eligible to lead nothing, until it has it again"
    )
    if core.member is not None:
        core.member.disprove(core.entropy.uuid(), core.now_ms)
        return
    node_id = core.config.node_id

    def decide(image: Image) -> Job[list[MetadataRecord]]:
        return (yield from unproven(image, node_id, core.controller.terms_of))

    yield from _commit(core, lambda done: core.controller.decide(decide, done))
    proof.note(core.disk, core.boot_id, core.image.broker_epoch(node_id))


def _write(core: Core, records: list[MetadataRecord]) -> Job[None]:
    yield from _commit(core, lambda done: core.controller.write(records, done))


def _commit(core: Core, change: Callable[[Commit], None]) -> Job[None]:
    """Have the metadata log take a change."""

    def attempt() -> Job[None]:
        commit = _Commit()
        change(commit)
        yield from commit.wait()

    yield from until_room(core, attempt)


def _host_all(core: Core) -> Job[None]:
    """Make the replicas that the metadata puts here."""
    node_id = core.config.node_id
    keys: list[TopicPartition] = []
    for topic in list(core.image.topics.values()):
        keys += [topic.keys[number] for number, state in topic.partitions.items() if node_id in state.replicas]
        if len(keys) >= _LOOKED_AT_PER_STEP:
            yield from follow(core, keys)
            keys = []
    yield from follow(core, keys)


def follow(core: Core, keys: list[TopicPartition]) -> Job[None]:
    """Do with many partitions what the metadata says, a few at a time.

    What it says when their turn comes, that is: a partition may have changed, gone, or come again meanwhile.
    """
    image, replicas = core.image, core.replicas
    for start in range(0, len(keys), AT_ONCE_MAX):
        part = keys[start : start + AT_ONCE_MAX]
        gone = [key for key in part if not image.contains(key)]
        if gone:  # cheap, but for a look at all partitions each time
            replicas.apply({}, gone, core.now_ms)
            yield None
        for first in range(0, len(part), PARTITIONS_PER_STEP):
            states = {}
            for key in part[first : first + PARTITIONS_PER_STEP]:
                state = image.partition(key.topic, key.partition)
                if state is not None:
                    states[key] = state
            if states:
                replicas.apply(states, [], core.now_ms)
                yield None


def catch_up(core: Core, keys: list[TopicPartition]) -> Job[None]:
    """As `follow`, for a change that others have seen; whoever begins it counts `ReplicaManager.behind` up."""
    try:
        yield from follow(core, keys)
    finally:
        core.replicas.behind -= 1


def _create_start_topics(core: Core) -> Job[None]:
    """In a cluster the first broker does that finds enough others: of those that start together, the last one.

    Not before: what fenced brokers are to have is led by those that are there, and stays with them.
    """
    topics = [
        NewTopic(topic.name, topic.partitions, settings=topic.settings)
        for topic in parse_topics(core.config.barnabas_topics)
        if topic.name not in core.image.topics
    ]
    if not topics:
        return
    if core.peers is not None:
        yield from _heard_of_oneself(core)
        alive = sum(core.image.is_alive(node_id) for node_id in core.image.brokers)
        if alive < core.config.default_replication_factor:
            logger.info("%d topics are not there yet: they want more brokers than %d", len(topics), alive)
            return
    created = Gate()

    def done(results: list[TopicResult]) -> None:
        for result in results:
            if result.error is not None and result.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                logger.error("topic %s was not created: %s", result.name, result.error)
        created.open()

    core.services.controller.create_topics(topics, False, done)
    yield from wait(created)


def _heard_of_oneself(core: Core) -> Job[None]:
    """The answer to a heartbeat comes before the metadata that tells of it, and of all that was before it."""
    while not core.image.is_alive(core.config.node_id) and (core.member is None or core.member.fault is None):
        yield from pause(core, _LOOK_MS)


def _leave(core: Core, member: Member) -> Job[None]:
    """Have others lead what this broker leads, or go without, if the controller does not answer soon."""
    gate = Gate()
    left = member.leave(core.now_ms)

    def over(_now_ms: int = 0) -> None:
        if not gate.is_open:
            gate.open()

    if not left.is_open:
        left.on_ready(over)
        core.replicas.shared.timer.add(CallbackTask(over), core.now_ms + LEAVE_MS_MAX)
        yield from wait(gate)


def shut_down(core: Core, begun: Phase) -> Job[None]:
    """Close what is open. Logs that were not all recovered yet are left to the next start."""
    if core.member is not None:
        yield from _leave(core, core.member)
    if core.voter is not None:
        core.voter.resign(core.now_ms)
    if begun in (Phase.HOSTING, Phase.READY):
        epoch = core.image.broker_epoch(core.config.node_id) if core.member is None else core.member.epoch
        yield from core.logs.shutdown(epoch)
    elif begun >= Phase.LOADING:
        for log in core.logs.logs.values():
            log.release()
    if core.voter is not None:
        yield from core.voter.close()
    elif begun >= Phase.RECOVERING and core.member is None:
        yield from core.metadata.close()
