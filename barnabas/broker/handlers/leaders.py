"""Who leads a partition, as clients are told; where one should go instead, beside an error (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.cluster.image import TopicState
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER, TopicPartition

Coming = Callable[[TopicPartition], bool]
"""Whether a partition of this broker is still to be made; None in its place where none is."""


def seen_leader(
    services: Services, listener: str, coming: Coming | None, topic: TopicState, index: int
) -> tuple[int, int]:
    """(error, leader) of a partition as a client of this listener is told: whom it can reach."""
    image, leader = services.image, topic.partitions[index].leader
    if leader == NO_LEADER or not image.is_alive(leader):
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    if coming is not None and leader == services.node_id and coming(topic.keys[index]):
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    if image.brokers[leader].endpoint(listener) is None:
        return ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return 0, leader


def current_leader(services: Services, key: TopicPartition) -> tuple[int, int] | None:
    """(leader, leader epoch) of a partition by the metadata; None when it is not known."""
    state = services.image.partition(key.topic, key.partition)
    return None if state is None else (state.leader, state.leader_epoch)


def endpoint(services: Services, broker_id: int, context: RequestContext) -> tuple[str, int, str | None] | None:
    """Host, port and rack of a live broker on this connection's listener; None when it has none."""
    broker = services.image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return None
    found = broker.endpoint(context.connection.listener)
    return None if found is None else (*found, broker.rack)
