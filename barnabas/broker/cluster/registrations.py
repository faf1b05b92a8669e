"""Which brokers are there: registrations, heartbeats, sessions. What the controller decides over its image.

    state      event                                                    next
    unknown    register                                                 fenced, in its first epoch
    fenced     heartbeat; its image has its own registration            unfenced
               heartbeat; it has not yet, or wants to stay fenced       fenced
    unfenced   heartbeat that wants the fence                           fenced
               silent for `broker.session.timeout.ms`                   fenced
    any        register by the same incarnation                         as it was: the answer was lost
               heartbeat in an epoch that is not the present one        refused
    unfenced   register by another incarnation                          refused: the id is in use
    fenced     register by another incarnation                          fenced, in a new epoch
    there      unregister                                               refused: it would never come back by itself
    fenced     unregister, and it does not start just now               unknown

An epoch is the offset at which the registration is written, so that no two are the same, also not after a broker was
unregistered. What fencing means for partitions stands in `leadership`. Only who is unfenced has a session, and sessions
are the controller's memory alone: one that takes over gives everybody a fresh one.

Source: `ClusterControlManager.registerBroker`, `BrokerHeartbeatManager` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from barnabas.broker.cluster.features import not_known
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import BrokerChange, RegisterBroker, UnregisterBroker
from barnabas.protocol.errors import ErrorCode, KafkaError

SESSION_MS: Final = 9000
"""Kafka's default of `broker.session.timeout.ms`."""
HEARTBEAT_MS: Final = 2000
"""Kafka's default of `broker.heartbeat.interval.ms`."""


class Registration(NamedTuple):
    """A broker that wants to be part of the cluster. `endpoints` are (listener, host, port) triples."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None = None
    previous_epoch: int = -1
    """The epoch since which it can show that it lost nothing; -1: it cannot."""
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, lowest, highest) level that it knows; one that names none is of the first release."""


class Heartbeat(NamedTuple):
    """A sign of life. `metadata_offset` is the offset after the last record that the broker's image has."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False


class Beat(NamedTuple):
    """What a heartbeat comes to: the record to write (None: nothing changes), and what the broker is told."""

    record: BrokerChange | None
    is_caught_up: bool
    is_fenced: bool


class _Session:
    __slots__ = ("heard_ms", "registered_at", "starting")

    def __init__(self, heard_ms: int, registered_at: int, starting: bool) -> None:
        self.heard_ms = heard_ms
        self.registered_at = registered_at
        self.starting = starting
        """Whether it is on its way in: it has yet to be unfenced, and does not want to stay fenced."""


class Registrations:
    """The sessions of all brokers but the controller's own, which lives and dies with it.

    Times are monotonic ms. Nothing is written here: records go back to the controller.
    """

    def __init__(self, node_id: int, cluster_id: str, session_ms: int = SESSION_MS) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self.session_ms = session_ms
        self._sessions: dict[int, _Session] = {}

    def take_over(self, image: Image, now_ms: int) -> None:
        """This node begins to be the controller: whoever is registered has a session from now on."""
        self._sessions = {one: _Session(now_ms, 0, False) for one in image.brokers if one != self._node_id}

    def register(self, image: Image, asked: Registration, offset: int, now_ms: int) -> RegisterBroker | None:
        """Take in a broker; the record to write at `offset`, or None for one whose answer was lost.

        Raises:
            KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, UNSUPPORTED_VERSION.
        """
        if asked.cluster_id != self._cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"broker {asked.broker_id} is of cluster {asked.cluster_id}, this one is {self._cluster_id}; "
                "give it an empty data directory, or the address of its own controller",
            )
        wrong = not_known(image.features, asked.features) if asked.features else ""
        if wrong:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {asked.broker_id} is of a release that does not know the levels of this cluster: {wrong}",
            )
        known = image.brokers.get(asked.broker_id)
        session = self._sessions.get(asked.broker_id)
        if known is not None and known.incarnation_id == asked.incarnation_id and session is not None:
            session.heard_ms = now_ms
            return None
        if asked.broker_id == self._node_id or image.is_alive(asked.broker_id):
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"another broker has the node id {asked.broker_id} and is alive; give each broker a node.id of its own "
                f"(one that was killed is forgotten {self.session_ms} ms after its last sign of life)",
            )
        epoch = offset if known is None else max(offset, known.broker_epoch + 1)
        self._sessions[asked.broker_id] = _Session(now_ms, offset, True)
        me, life = asked.broker_id, asked.incarnation_id
        return RegisterBroker(me, epoch, life, asked.endpoints, asked.rack, True, asked.features)

    def heartbeat(self, image: Image, beat: Heartbeat, now_ms: int) -> Beat:
        """Take in a sign of life.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
        """
        known = image.brokers.get(beat.broker_id)
        session = self._sessions.get(beat.broker_id)
        if known is None or session is None:
            detail = f"broker {beat.broker_id} is not registered"
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, detail)
        if beat.broker_epoch != known.broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {beat.broker_id} is registered in epoch {known.broker_epoch}, not in {beat.broker_epoch}",
            )
        session.heard_ms = now_ms
        caught_up = beat.metadata_offset > session.registered_at
        fenced = beat.wants_fence or (known.fenced and not caught_up)
        session.starting = fenced and (known.fenced and not beat.wants_fence)
        record = BrokerChange(beat.broker_id, fenced) if fenced != known.fenced else None
        return Beat(record, caught_up, fenced)

    def unregister(self, image: Image, broker_id: int, now_ms: int) -> UnregisterBroker:
        """Forget a broker for good; the record to write.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST of the controller itself, and of one that is there.
        """
        if broker_id not in image.brokers:
            detail = f"Broker ID {broker_id} is not currently registered"
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, detail)
        if broker_id == self._node_id:
            detail = f"broker {broker_id} is the controller, which keeps the metadata and cannot be removed"
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
        if self._is_there(image, broker_id, now_ms):
            detail = (
                f"broker {broker_id} is alive; stop it first (one that was killed counts as alive for up to "
                f"{self.session_ms} ms)"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
        return UnregisterBroker(broker_id)

    def _is_there(self, image: Image, broker_id: int, now_ms: int) -> bool:
        """Whether it serves, or starts: forgotten, it would be heard no more, and would not begin anew."""
        session = self._sessions.get(broker_id)
        starts = session is not None and session.starting and now_ms < session.heard_ms + self.session_ms
        return image.is_alive(broker_id) or starts

    def expired(self, image: Image, now_ms: int) -> list[BrokerChange]:
        """Who has been silent for too long, as records that fence them, by id."""
        return [
            BrokerChange(one, fenced=True)
            for one, session in sorted(self._sessions.items())
            if now_ms >= session.heard_ms + self.session_ms and image.is_alive(one)
        ]

    def next_deadline_ms(self, image: Image, apart: Collection[int] = ()) -> int | None:
        """When `expired` may say something of others than those `apart`; None while nobody else is unfenced."""
        alive = [
            session.heard_ms for one, session in self._sessions.items() if image.is_alive(one) and one not in apart
        ]
        return min(alive) + self.session_ms if alive else None
