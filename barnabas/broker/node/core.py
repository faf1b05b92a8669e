"""The core: one whole broker without sockets, threads, clocks or chance.

    core = Core(config, disk=disk, clock=clock, entropy=entropy)
    core.set_endpoints(advertised_endpoints(config, bound))
    core.start(now_ms)
    while core.run_job_step(now_ms): ...     # recovery, one bounded step at a time
    core.handle(request, context, now_ms)    # context.respond(...) is called now or later
    core.tick(now_ms)                        # whenever core.next_deadline_ms() has come

All times are monotonic whole ms, given by the caller and never going back. Every method must be called on one thread.
Whatever called the core, it ends in `_settle`: deferred checks run there, after the caller's own work is done. Only a
request that has left nothing to do, as its handler says, goes without. Long because all rooms come together here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.account import Account
from barnabas.broker.cluster.controller import LocalController
from barnabas.broker.cluster.features import SUPPORTED_FEATURES
from barnabas.broker.cluster.image import Delta, Image
from barnabas.broker.cluster.metadata_log import MetadataLog
from barnabas.broker.cluster.mutation_quota import MutationQuota
from barnabas.broker.cluster.producer_ids import ProducerIdPool
from barnabas.broker.cluster.proposals import Proposals
from barnabas.broker.config import BrokerConfig, Endpoint
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.group.coordinator import GroupCoordinator
from barnabas.broker.handlers.registry import Handlers, NotServed, PeerHandlers, peer_versions
from barnabas.broker.handlers.services import Services
from barnabas.broker.handlers.sessions import FetchSessions
from barnabas.broker.jobs import Job
from barnabas.broker.log import LogManager
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.node import gauges, groups, identity, startup
from barnabas.broker.node.jobs import JobQueue
from barnabas.broker.node.settings_in_force import SettingsInForce
from barnabas.broker.node.snapshot import snapshot
from barnabas.broker.node.timed import LogJobs, Timed
from barnabas.broker.planned import PLANNED
from barnabas.broker.ports import Controller, Disk, Entropy, Peers, WallClock
from barnabas.broker.replica import ReplicaManager
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.node.member import Member
    from barnabas.broker.node.voter import Voter

# An enum's member is looked up in its class at every use, and every request asks for these.
_FIRST_PHASE: Final = startup.FIRST_PHASE
_NEW: Final = startup.Phase.NEW
_RECOVERING: Final = startup.Phase.RECOVERING
_READY: Final = startup.Phase.READY
_ALONE: Final = 3  # who acts in time in a broker that stands alone

logger = logging.getLogger(__name__)


class Core:
    """Assembles all rooms of one broker.

    Args:
        config: its settings; dynamic ones are changed in place while it runs.
        disk: its data directory.
        clock: time of day.
        entropy: topic ids, session ids, placement.
        registry: where metrics are registered (None: one of its own).
        controller: who decides ISR changes (None: the controller of the cluster).
        peers: the way to the other brokers (None: this one stands alone).
        account: what is charged with what is kept for others (None: one without a limit).
        stored_settings: whether the broker's settings that were stored while it ran are in force.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        clock: WallClock,
        entropy: Entropy,
        registry: MetricsRegistry | None = None,
        controller: Controller | None = None,
        peers: Peers | None = None,
        account: Account | None = None,
        stored_settings: bool = True,
    ) -> None:
        self.config = config
        self.static_config = replace(config)
        self.disk = disk
        self.clock = clock
        self.entropy = entropy
        self.registry = registry if registry is not None else MetricsRegistry()
        self.account = account if account is not None else Account()
        self.image = Image()
        self.settings = SettingsInForce(self, stored_settings)
        self.endpoints: tuple[Endpoint, ...] = ()
        self.connections: dict[int, Connection] = {}
        self.on_jobs: Callable[[], None] = lambda: None
        """Called when a job can be stepped again (also from within other methods): arrange for `run_job_step`."""
        self.features = SUPPORTED_FEATURES
        """Levels that its release knows; another one may be played before the start."""
        self.peer_versions = peer_versions()
        """What its release serves to other brokers; as `features`."""
        self.fault: Exception | None = None
        """Why the start failed, once it has: the broker will never be ready."""
        self.rescheduled = True
        """Whether `next_deadline_ms` may say something earlier than when it was last asked."""
        self._told_at = -1
        self.jobs = JobQueue(lambda: self.on_jobs())
        self.logs = LogManager(disk, config, self.settings.of, clock)
        self.metadata = MetadataLog(
            disk,
            clock,
            config.metadata_log_max_record_bytes_between_snapshots,
            self.logs.losses,
            holds_snapshot=peers is not None,
        )
        self.controller = LocalController(
            config, self.metadata, self.image, entropy, self.publish, self.defer, self.run_alone, lambda: self.features
        )
        self.replicas: ReplicaManager
        self.groups: GroupCoordinator
        self.services: Services
        self.timed: list[Timed] = []
        """Who acts when time has passed, in this order; nobody before the start."""
        self._drains: list[Callable[[int], None]] = []  # what is left to the end of a step, called at every one
        self.phase = startup.Phase.NEW
        self._stopped_in = startup.Phase.READY  # what a later phase would have served is not answered any more
        self.fresh = False  # whether the data directory was empty until this start
        self.peers = peers
        self.member: Member | None = None  # its part in the cluster of another controller, where it is not its own
        self.voter: Voter | None = None  # its part in the quorum, where it is one of several controllers
        self.isr_controller: Controller = controller if controller is not None else self.controller
        self.handlers = Handlers()
        self.peer_handlers = PeerHandlers()
        self._held: dict[int, list[tuple[Any, RequestContext]]] = {}  # too early for the phase; gone with a connection
        self._deferred: deque[Callable[[], None]] = deque()
        self.ahead: Sequence[Any] = ()  # answers made before what they say is written: they leave behind a step
        self.now_ms = 0
        self.boot_id = ""  # which run of the machine this is; "" where nobody can say
        gauges.register(self)

    # -- life

    @property
    def ready(self) -> bool:
        """Whether all logs are recovered and the broker leads its partitions."""
        return self.phase is startup.Phase.READY

    @property
    def has_lines(self) -> bool:
        """Whether requests with large answers are being served."""
        return self.phase is not _NEW and not (self.services.line.is_empty and self.services.file_line.is_empty)

    @property
    def is_active(self) -> bool:
        """Whether this node is the controller that decides."""
        return self.member is None or (self.voter is not None and self.voter.reign is not None)

    def set_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        """Say what clients are to connect to; before `start`."""
        self.endpoints = tuple(endpoints)

    @property
    def endpoints_told(self) -> tuple[tuple[str, str, int], ...]:
        """The same, as the metadata has them: (listener, host, port)."""
        return tuple((one.listener, one.host, one.port) for one in self.endpoints)

    def start(self, now_ms: int) -> None:
        """Read the metadata log and recover all logs, as jobs. Requests may come at once.

        Raises:
            DataDirError: the data directory is not this broker's to use; nothing in it was touched.
        """
        assert self.phase is startup.Phase.NEW, "a core starts once"
        self.now_ms = now_ms
        config = self.config
        mine = identity.identify(self.disk, self.entropy, config.node_id, config.barnabas_cluster_id)
        self.fresh = mine.fresh
        proposals: Proposals = self.controller
        if self.peers is not None:
            from barnabas.broker.node import membership  # a broker that stands alone needs none of it

            proposals = membership.proposals(self)
        self.replicas = ReplicaManager(
            config.node_id,
            config,
            self.logs,
            self.isr_controller,
            self.image,
            self.clock,
            self.registry,
            now_ms,
            self.peers,
        )
        self.replicas.shared.account = self.account
        self.replicas.shared.run = lambda job, ended: self.jobs.add("fetch", job, ended)
        self.groups = groups.assemble(self)
        self.ahead = self.groups.shared.ahead.waiting
        self.services = Services(
            config=config,
            static_config=self.static_config,
            stored_settings=self.settings.stored,
            cluster_id=mine.cluster_id,
            image=self.image,
            features=self.features,
            peer_versions=self.peer_versions,
            controller=proposals,
            replicas=self.replicas,
            producer_ids=ProducerIdPool(config.node_id, proposals),
            groups=self.groups,
            sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots, self.entropy, self.registry, self.account
            ),
            entropy=self.entropy,
            recovering=lambda: not self.ready,
            account=self.account,
            mutations=MutationQuota(config),
            run=lambda steps, ended: self.jobs.add("request", steps, ended),
            failed=self._failed,
            metadata_end=self.metadata_end,
            volume=self.disk.volume,
        )
        self.timed += [self.replicas, LogJobs(self), self.groups]
        self._drains += [self.groups.catch_up, self.replicas.drain, self.groups.drain]
        if self.peers is not None:
            membership.join(self, mine)
        self.phase = startup.Phase.LOADING
        self.jobs.add("start", startup.run(self, mine), self._started, first=True)

    def _started(self, fault: Exception | None) -> None:
        if fault is not None:
            logger.error("the broker cannot start: %s", fault)
            self.fault = fault

    def stop(self, now_ms: int, done: Callable[[], None]) -> None:
        """Flush all logs, write the checkpoints and the clean shutdown marker, then call `done`."""
        self.now_ms = now_ms
        self._stopped_in, self.phase = self.phase, startup.Phase.STOPPING
        self.metadata.end()
        self.jobs.clear()
        self._held.clear()

        def ended(fault: Exception | None) -> None:
            if fault is not None:
                logger.error("the end was not clean, the next start checks the logs: %s", fault)
            done()

        self.jobs.add("stop", startup.shut_down(self, self._stopped_in), ended)

    # -- what happens

    def handle(self, request: Any, context: RequestContext, now_ms: int) -> None:
        """Serve one request; never raises. The answer goes to `context.respond`, now or later."""
        self.now_ms = now_ms
        if self.phase is _READY:  # `_serve_or_hold`, spelt out: every request comes this way
            try:
                if self.handlers[context.api_key](self.services, request, context, now_ms) and not self._deferred:
                    if PLANNED.count != self._told_at:
                        self.rescheduled = True
                    return
            except Exception as fault:
                self._failed(request, context, fault)
            self._drain(now_ms)
            # Rooms of a cluster have plans of their own. Apart from these nobody else is due earlier than was told.
            if PLANNED.count != self._told_at or self._deferred or self.replicas.actions or len(self.timed) > _ALONE:
                self.rescheduled = True
        else:
            self._serve_or_hold(request, context)
            self._settle(now_ms)

    def handle_peer(self, request: Any, context: RequestContext, now_ms: int) -> None:
        """As `handle`, of a request by another broker."""
        self.now_ms = now_ms
        self._serve_or_hold(request, context)
        self._settle(now_ms)

    def _serve_or_hold(self, request: Any, context: RequestContext) -> None:
        early = min(self.phase, self._stopped_in) < _FIRST_PHASE.get(context.api_key, _RECOVERING)
        if early and not (self.voter is not None and self.voter.serves(request, context)):
            self._held.setdefault(context.connection.id, []).append((request, context))
            return
        handlers = self.handlers if context.connection.peer < 0 else self.peer_handlers
        try:
            handlers[context.api_key](self.services, request, context, self.now_ms)
        except Exception as fault:
            self._failed(request, context, fault)

    def _failed(self, request: Any, context: RequestContext, fault: Exception) -> None:
        """A defect of ours ends one request, never more."""
        if isinstance(fault, NotServed):
            context.close(str(fault))
            return
        code = fault.code if isinstance(fault, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        logger.error("API %d failed for %s", context.api_key, context.client_id, exc_info=fault)
        if context.api_key == ApiKey.PRODUCE and request.acks == 0:
            context.close("producing with acks=0 failed")
            context.respond(None)
            return
        from barnabas.broker.handlers.failures import error_response  # rarely needed

        context.respond(error_response(context.api_key, request, code))

    def release_held(self) -> None:
        """A further phase has begun: serve what has waited for it."""
        held, self._held = self._held, {}
        for requests in held.values():
            for request, context in requests:
                self._serve_or_hold(request, context)

    def tick(self, now_ms: int) -> None:
        """Run what is due: expired operations, scheduled work."""
        self.now_ms = now_ms
        self.rescheduled = True  # also where a room fails: what is due still is told after the next event
        for room in self.timed:
            room.tick(now_ms)
        self._drain(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called next (monotonic ms), or None when nothing is scheduled."""
        self.rescheduled = False
        self._told_at = PLANNED.count
        if self.phase is _NEW:
            return None
        if self._deferred:
            return self.now_ms
        earliest: int | None = None
        for room in self.timed:
            deadline_ms = room.next_deadline_ms()
            if deadline_ms is not None and (earliest is None or deadline_ms < earliest):
                earliest = deadline_ms
        return earliest

    def run_job_step(self, now_ms: int) -> bool:
        """One bounded step of the next job. True while a further step can be run at once."""
        self.now_ms = now_ms
        more = self.jobs.step()
        self._settle(now_ms)
        return more

    def wake(self, now_ms: int) -> None:
        """To be called after completions of the disk (tokens, syncs) have run: drains what they left to do."""
        self.now_ms = now_ms
        self._settle(now_ms)

    def defer(self, callback: Callable[[], None]) -> None:
        """Run `callback` at the end of this step, or of the next."""
        self._deferred.append(callback)

    def _settle(self, now_ms: int) -> None:
        self.rescheduled = True
        self._drain(now_ms)

    def _drain(self, now_ms: int) -> None:
        if self._deferred:
            self._run_deferred()
        for drain in self._drains:
            drain(now_ms)

    def _run_deferred(self) -> None:
        deferred = self._deferred
        for _ in range(len(deferred)):
            callback = deferred.popleft()
            try:
                callback()
            except Exception:
                logger.exception("a deferred step failed")

    # -- metadata

    def run_alone(self, operation: Job[None], ended: Callable[[Exception | None], None]) -> None:
        """Take on what the controller does in more than one step."""
        self.jobs.add("metadata", operation, ended)

    def metadata_end(self) -> tuple[int, int]:
        """The offset after the last record of the metadata that this broker has, and its epoch."""
        if self.member is not None:
            return self.member.observer.end_offset, self.member.observer.epoch
        return self.metadata.end_offset, self.metadata.epoch

    def publish(self, delta: Delta) -> None:
        """Act on committed changes; the image has them already."""
        if self.services.members is not None:
            self.services.members.feed.committed()
        self.settings.heard(delta)
        if not startup.Phase.HOSTING <= self.phase <= startup.Phase.READY:
            return  # a start hosts all there is when its time has come; a stop leaves it to the next start
        if len(delta.partitions) + len(delta.removed) > startup.AT_ONCE_MAX:
            self.replicas.disown(delta.removed)
            self.replicas.behind += 1
            self.jobs.add("partitions", startup.catch_up(self, [*delta.removed, *delta.partitions]))
        elif delta.partitions or delta.removed:
            self.replicas.apply(delta.partitions, delta.removed, self.now_ms)
        if delta.partitions or delta.removed:
            self.groups.topics_changed(delta.removed)
        if delta.brokers:
            self.replicas.lives.changed(self.now_ms)
        self.settings.put_in_force(list(delta.topic_configs))
        if self.metadata.snapshot_due:
            self.jobs.add("metadata snapshot", self.metadata.snapshot(self.image))

    # -- connections, looking in

    def connected(self, connection: Connection) -> None:
        """A connection was accepted."""
        self.connections[connection.id] = connection

    def disconnected(self, connection: Connection) -> None:
        """A connection is gone. What it waits for ends; what changes something is seen through, and told to nobody.

        What was held of it until the broker is up was not begun, and is not: a flood during a start leaves nothing.
        """
        self.connections.pop(connection.id, None)
        self._held.pop(connection.id, None)
        connection.leave()
        if self.phase is not _NEW:
            self.replicas.disconnected(connection.id)
            self.services.sessions.disconnected(connection.id)
            self.services.line.disconnected(connection.id)
            self.services.file_line.disconnected(connection.id)
            if connection.peer >= 0 and self.services.members is not None and self.phase is _READY:
                self.services.members.disconnected(connection.peer)

    def snapshot(self, now_ms: int, first: int = 0, end: int | None = None) -> dict[str, Any]:
        """All that can be looked at, as plain values for JSON; of lists those from `first` to before `end`."""
        return snapshot(self, now_ms, first, end)
