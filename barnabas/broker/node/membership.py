"""A broker among others: what it needs to be one of a cluster, or its controller. Loaded where there are `peers` alone.

proposals   before the rooms are made: where they ask for changes, here or over the network
join        after that, of a broker that another node decides for, or one of several
lead        once the metadata is replayed, of the controller itself
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.members import Members
from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.cluster.observer import OWN_WAIT_MS, WAIT_MS, Observer
from barnabas.broker.cluster.proposals import Proposals
from barnabas.broker.cluster.registrations import Registrations
from barnabas.broker.cluster.remote_controller import RemoteController
from barnabas.broker.config.quorum import is_controller, voters_of
from barnabas.broker.context import Sealed
from barnabas.broker.handlers import forwarded
from barnabas.broker.handlers.registry import FORWARDED
from barnabas.broker.node import proof
from barnabas.broker.node.identity import Identity
from barnabas.broker.node.member import Member
from barnabas.broker.node.whereabouts import Whereabouts
from barnabas.broker.ports import Lane, Peers
from barnabas.protocol.api import SPOKEN, key_of
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, Feature, Listener

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core
    from barnabas.broker.node.voter import Voter


def proposals(core: Core) -> Proposals:
    """The controller as this broker's rooms see it."""
    if is_controller(core.config) and len(voters_of(core.config)) == 1:
        return core.controller
    forward = _way_to_controller(core, Lane.FORWARDED)

    def create(request: Any, done: Callable[[Any | None], None]) -> None:
        forward(request, lambda response: done(response.opened() if isinstance(response, Sealed) else response))

    ask, node_id = _way_to_controller(core, Lane.CHANGES), core.config.node_id
    remote = RemoteController(ask, create, node_id, lambda: _epoch(core), core.defer)
    if core.isr_controller is core.controller:
        core.isr_controller = remote
    return remote


def _epoch(core: Core) -> int:
    return -1 if core.member is None else core.member.epoch


def _way_to_controller(core: Core, lane: Lane) -> Callable[..., None]:
    def ask(request: Any, done: Callable[[Any | None], None], version: int | None = None) -> None:
        assert core.member is not None, "nothing is asked for before this broker is one of a cluster"
        core.member.ask(request, done, lane, version)

    return ask


class Ways:
    """The other brokers (`ports.Peers`), and this node's own voter among them."""

    def __init__(self, core: Core, peers: Peers, voter: Voter | None) -> None:
        self._core = core
        self._peers = peers
        self._voter = voter

    def send(
        self,
        broker_id: int,
        request: Any,
        done: Callable[[Any | None], None],
        lane: Lane = Lane.RECORDS,
        version: int | None = None,
    ) -> None:
        """Send a request; nobody (-1) does not answer."""
        if broker_id < 0:
            self._core.defer(lambda: done(None))
        elif self._voter is not None and broker_id == self._core.config.node_id:
            key = key_of(type(request))
            self._voter.ask(request, key, SPOKEN[key][1] if version is None else version, done)
        else:
            self._peers.send(broker_id, request, done, lane, version)

    def knock(self, broker_id: int, done: Callable[[bool], None]) -> None:
        """As the peers have it."""
        self._peers.knock(broker_id, done)


def join(core: Core, mine: Identity) -> None:
    """Begin to follow the controller, unless this broker is the only one; as one of several it gets its voter, too."""
    config, peers = core.config, core.peers
    voters = [one.node_id for one in voters_of(config)]
    assert peers is not None
    if voters == [config.node_id]:
        return
    voter: Voter | None = None
    if config.node_id in voters:
        from barnabas.broker.node.voter import SERVED, Voter  # one controller alone needs none of it

        core.voter = voter = Voter(core, mine, voters)
        core.peer_handlers.update(dict.fromkeys(SERVED, voter.handle))
    asked = BrokerRegistrationRequest(
        config.node_id,
        mine.cluster_id,
        core.entropy.uuid(),
        [Listener(*one) for one in core.endpoints_told],
        [Feature(name, *span) for name, span in core.features.items()],
        rack=config.broker_rack,
        previous_broker_epoch=proof.previous_epoch(core.disk, core.boot_id),
    )
    core.member = member = Member(
        Whereabouts(voters, None if voter is None else lambda: voter.leader),
        asked,
        Observer(config.node_id, mine.cluster_id, TOPIC_ID, core.image, WAIT_MS if voter is None else OWN_WAIT_MS),
        Ways(core, peers, voter),
        config.broker_heartbeat_interval_ms,
        core.publish,
        core.replicas.actions.add,
        partial(core.jobs.add, "metadata"),
        core.now_ms,
        lambda epoch: proof.note(core.disk, core.boot_id, epoch),
        *(() if voter is None else (lambda: config.node_id, voter.observed)),
    )
    core.replicas.shared.broker_epoch = lambda: member.last_epoch
    core.services.forward = _way_to_controller(core, Lane.FORWARDED)
    core.handlers.update(dict.fromkeys(FORWARDED, forwarded.handle))
    core.timed.append(core.member)


def lead(core: Core, mine: Identity) -> None:
    """Begin to take brokers in, and to hear from those that are registered."""
    config, log, peers = core.config, core.metadata, core.peers
    assert peers is not None
    members = Members(
        Registrations(config.node_id, mine.cluster_id, config.broker_session_timeout_ms),
        core.controller,
        lambda: log.end_offset,
        MetadataFeed(
            config.node_id,
            mine.cluster_id,
            TOPIC_ID,
            log.log,
            log.epoch,
            lambda: log.held,
            core.replicas.shared.timer,
            core.replicas.actions.add,
        ),
        config,
        core.registry.meter("kafka.controller:ControllerStats", "UncleanLeaderElectionsPerSec"),
        peers.knock,
        core.replicas.actions.add,
        core.registry.meter("kafka.controller:ControllerStats", "ElectionFromEligibleLeaderReplicasPerSec"),
    )
    members.begin(core.image, core.now_ms)
    core.services.members = members
    core.timed.append(members)
