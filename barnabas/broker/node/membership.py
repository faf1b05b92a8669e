"""A broker among others: what it needs to be one of a cluster, or its controller. Loaded where there are `peers` alone.

proposals   before the rooms are made: where they ask for changes, here or over the network
join        after that, of a broker that another node decides for
lead        once the metadata is replayed, of the controller itself
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.members import Members
from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.cluster.observer import Observer
from barnabas.broker.cluster.proposals import Proposals
from barnabas.broker.cluster.registrations import Registrations
from barnabas.broker.cluster.remote_controller import RemoteController
from barnabas.broker.config.quorum import controller_of
from barnabas.broker.handlers import forwarded
from barnabas.broker.handlers.registry import FORWARDED
from barnabas.broker.node import proof
from barnabas.broker.node.identity import Identity
from barnabas.broker.node.member import Member
from barnabas.broker.ports import Lane
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, Listener

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core


def proposals(core: Core) -> Proposals:
    """The controller as this broker's rooms see it."""
    if controller_of(core.config).node_id == core.config.node_id:
        return core.controller
    ask, create = (_way_to_controller(core, lane) for lane in (Lane.CHANGES, Lane.FORWARDED))
    remote = RemoteController(ask, create, core.config.node_id, lambda: _epoch(core))
    if core.isr_controller is core.controller:
        core.isr_controller = remote
    return remote


def _epoch(core: Core) -> int:
    return -1 if core.member is None else core.member.epoch


def _way_to_controller(core: Core, lane: Lane) -> Callable[..., None]:
    peers, voter = core.peers, controller_of(core.config).node_id
    assert peers is not None

    def ask(request: Any, done: Callable[[Any | None], None], version: int | None = None) -> None:
        peers.send(voter, request, done, lane, version)

    return ask


def join(core: Core, mine: Identity) -> None:
    """Begin to follow the controller, unless this broker is it."""
    config, peers = core.config, core.peers
    voter = controller_of(config).node_id
    assert peers is not None
    if voter == config.node_id:
        return
    asked = BrokerRegistrationRequest(
        config.node_id,
        mine.cluster_id,
        core.entropy.uuid(),
        [Listener(*one) for one in core.endpoints_told],
        rack=config.broker_rack,
        previous_broker_epoch=proof.previous_epoch(core.disk, core.boot_id),
    )
    core.member = Member(
        voter,
        asked,
        Observer(config.node_id, mine.cluster_id, TOPIC_ID, core.image),
        peers,
        config.broker_heartbeat_interval_ms,
        core.publish,
        core.replicas.actions.add,
        partial(core.jobs.add, "metadata"),
        core.now_ms,
        lambda epoch: proof.note(core.disk, core.boot_id, epoch),
    )
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
