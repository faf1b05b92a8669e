"""Logs that a start finds and that are no partition's of this broker, by what the metadata says; or not all of them."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker.jobs import Job
from barnabas.broker.node.room import pause
from barnabas.broker.replica import damage
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

_LOOKED_AT_PER_STEP: Final = 1000
_LOOK_MS: Final = 20

logger = logging.getLogger(__name__)


def belongs(core: Core, key: TopicPartition) -> bool:
    """Whether this broker is to have a log of that partition, by what the metadata says."""
    state = core.image.partition(key.topic, key.partition)
    return state is not None and core.config.node_id in state.replicas


def doubt(core: Core) -> Job[None]:
    """Logs with an epoch that their partition has not come to are not believed from there on.

    The epoch of a batch stands outside of its sum, and a start that walks a log learns it from there. A leader that
    believed a flipped bit of it would have its followers cut all that they have behind that place. What a majority of
    controllers has decided is not forgotten, so no epoch of a leader is later than the one that this broker knows. A
    controller that decides alone may have forgotten.
    """
    if core.voter is None:
        return
    for count, (key, log) in enumerate(list(core.logs.logs.items()), 1):
        state = core.image.partition(key.topic, key.partition)
        others = state is not None and log.topic_id == state.topic_id and len(state.replicas) > 1
        if others and state is not None and log.latest_epoch > state.leader_epoch:
            offset = log.end_offset_for_epoch(state.leader_epoch).end_offset
            epochs = f"of epoch {log.latest_epoch}, and its leader of epoch {state.leader_epoch}"
            core.logs.doubt(key, offset, f"from there on it is {epochs}")
        if count % _LOOKED_AT_PER_STEP == 0:
            yield None


def _taken_in_anew(core: Core) -> Job[None]:
    """Wait until the metadata has this broker's last registration, and what became of its partitions by that."""
    member, node_id = core.member, core.config.node_id
    while member is not None and member.fault is None:
        if 0 <= member.epoch == core.image.broker_epoch(node_id):
            return
        yield from pause(core, _LOOK_MS)


def clear(core: Core) -> Job[None]:
    """Logs of topics that are no more (their deletion was cut short) keep their bytes under another name.

    A log of a partition that is on other brokers by now is one that went while this one was away: it is deleted. One
    that does not say whose it is may be that of an earlier topic of this name (`damage.decide`).
    """
    if core.logs.unnamed and core.peers is not None:
        yield from _taken_in_anew(core)
    node_id = core.config.node_id
    for count, (key, log) in enumerate(list(core.logs.logs.items()), 1):
        if count % _LOOKED_AT_PER_STEP == 0:
            yield None
        topic = core.image.topics.get(key.topic)
        is_known = topic is not None and log.topic_id in (topic.topic_id, ZERO_UUID)
        state = topic.partitions.get(key.partition) if topic is not None and is_known else None
        if state is not None and node_id in state.replicas:
            damage.decide(core.logs, key, state, node_id)
            if log.closed:
                yield None
            continue
        with contextlib.suppress(KafkaError):  # said already; all else serves
            if state is not None and log.topic_id != ZERO_UUID:
                logger.info("%s is on brokers %s by now, and its log here is deleted", key, list(state.replicas))
                core.logs.delete(key)
            else:
                core.logs.stray(key)
        yield None
