"""Where a client should go instead: the current leader told with an error, and its endpoint (KIP-951)."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.ids import TopicPartition


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
