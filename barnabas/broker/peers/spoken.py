"""A request as the broker that is asked understands it, for an upgrade puts brokers of two releases into one cluster.

It goes in the newest version that both sides speak (`net/versions`). What an earlier version says in another way is
said in that way here; what it cannot say at all is not sent.

    Fetch < 15                replica_id instead of replica_state (KIP-903)
    AlterPartition < 3        ids without broker epochs (KIP-903): the controller cannot tell lives of a broker apart
    BrokerRegistration < 4    no feature begins at level 0 (KAFKA-17011)
    EndQuorumEpoch < 1        successors without directories (KIP-853)
    Fetch < 13                not sent: it names topics without their ids

Source: the builders of these requests in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from barnabas.net import versions
from barnabas.protocol.api import SPOKEN, ApiKey, name_of
from barnabas.protocol.errors import BarnabasError, EncodeError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.alter_partition import AlterPartitionRequest
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.requests.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.protocol.requests.fetch import FetchRequest

CLIENT_ID: Final = "broker"
FETCH_FIRST: Final = 13


class Unspoken(BarnabasError):
    """The other broker does not know what it was to be asked: says which, and who is the older one."""


def written(
    who: str, theirs: versions.Served, number: int, request: Any, key: int, newest: int | None = None
) -> tuple[int, list[Buffer]]:
    """The version in which a request goes to a broker that serves `theirs`, and its bytes.

    Args:
        who: the other broker, for people.
        theirs: what it serves.
        number: the correlation id.
        request: what to ask; it is not changed.
        key: its API.
        newest: in which version at most; what this release speaks where it is None.

    Raises:
        Unspoken: no version that both speak can carry it.
        EncodeError: not even this release's own can.
    """
    version = versions.common(theirs, key, newest)
    if version is None:
        raise Unspoken(versions.missing(who, theirs, key))
    if key == ApiKey.FETCH and version < FETCH_FIRST:
        first, last = theirs[key]
        raise Unspoken(f"{who} serves FETCH at versions {first} to {last}, and brokers ask from {FETCH_FIRST} on")
    earlier = _EARLIER.get(key)
    if earlier is not None and version < earlier[0]:
        request = earlier[1](request)
    try:
        return version, codec.encode_request(key, version, number, CLIENT_ID, request)
    except EncodeError as error:
        if version == (SPOKEN[key][1] if newest is None else newest):
            raise
        told = f"{who} serves {name_of(key)} up to version {version} and is older than this release"
        raise Unspoken(f"{told}: {error}") from error


def _fetch(request: FetchRequest) -> FetchRequest:
    state = request.replica_state
    return request if state is None else replace(request, replica_id=state.replica_id, replica_state=None)


def _alter_partition(request: AlterPartitionRequest) -> AlterPartitionRequest:
    topics = [
        replace(
            topic,
            partitions=[
                replace(part, new_isr=[one.broker_id for one in part.new_isr_with_epochs], new_isr_with_epochs=[])
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


def _broker_registration(request: BrokerRegistrationRequest) -> BrokerRegistrationRequest:
    features = [replace(one, min_supported_version=max(1, one.min_supported_version)) for one in request.features]
    return replace(request, features=features)


def _end_quorum_epoch(request: EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    topics = [
        replace(
            topic,
            partitions=[
                replace(part, preferred_successors=[one.candidate_id for one in part.preferred_candidates])
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


_EARLIER: Final[dict[int, tuple[int, Callable[[Any], Any]]]] = {
    ApiKey.FETCH: (15, _fetch),
    ApiKey.ALTER_PARTITION: (3, _alter_partition),
    ApiKey.BROKER_REGISTRATION: (4, _broker_registration),
    ApiKey.END_QUORUM_EPOCH: (1, _end_quorum_epoch),
}
"""Before which version a request is said in another way, and how."""
