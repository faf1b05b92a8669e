"""One of several controllers: the quorum's core with its log and its world, and the controller while it leads.

    what comes                                      who answers
    Vote, BeginQuorumEpoch, EndQuorumEpoch          `raft`, in any role
    Fetch of the metadata by another voter          `voter_feed`: also what is not committed yet
    the same by a broker that has no vote           `feed`, while this node leads; else NOT_LEADER_OR_FOLLOWER, and who
    the same by this node's own broker              `feed`, in any role: what this voter knows to be committed
    all that the controller decides                 `reign`, while there is one; else NOT_CONTROLLER

The broker of this node is a broker like any other (`member`): it registers with whoever leads, be it this very node,
and its image is made of its own voter's log. So what this node's image has is what this voter has seen committed, and a
reign begins with a copy of it.

A leader whose connection is closed, and who refuses twice, is not waited for (`evidence`; not Kafka's).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.cluster import snapshot_feed
from barnabas.broker.cluster.evidence import Doubt, Evidence
from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.cluster.quorum_log import QuorumLog
from barnabas.broker.cluster.voter_feed import VoterFeed
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.delayed import CallbackTask
from barnabas.broker.handlers import peer_fetch
from barnabas.broker.handlers.failures import error_response
from barnabas.broker.handlers.registry import FORWARDED
from barnabas.broker.handlers.services import Services
from barnabas.broker.jobs import Job
from barnabas.broker.node import gauges, identity
from barnabas.broker.node.identity import Identity
from barnabas.broker.node.reign import Reign
from barnabas.broker.node.room import AGAIN_MS, is_full
from barnabas.broker.ports import Lane
from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept
from barnabas.broker.raft.raft import Raft, Role, Timing
from barnabas.broker.raft.world import Answered, Done, Mark
from barnabas.protocol.api import STEMS, ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from barnabas.protocol.requests.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

_DECIDED: Final = FORWARDED | {
    ApiKey.ALTER_PARTITION,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
"""What other brokers ask of the active controller."""
SERVED: Final = _DECIDED | {ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT}
_QUORUM: Final = frozenset((ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH))

logger = logging.getLogger(__name__)


class Voter:
    """This node's part in the quorum. It is `raft.world.Outside`, and one of those who act when time has passed."""

    def __init__(self, core: Core, mine: Identity, voters: Sequence[int]) -> None:
        config, later = core.config, core.replicas.actions.add
        assert core.peers is not None
        self.raft: Raft | None = None
        self.reign: Reign | None = None
        self.voter_feed: VoterFeed | None = None
        self.voters = tuple(voters)
        self.log = QuorumLog(
            core.disk,
            core.clock,
            later,
            config.metadata_log_max_record_bytes_between_snapshots,
            core.logs.losses,
        )
        self.feed = MetadataFeed(
            config.node_id,
            mine.cluster_id,
            TOPIC_ID,
            self.log.log,
            0,
            lambda: self.log.held,
            core.replicas.shared.timer,
            later,
        )
        self._core = core
        self._mine = mine
        self._later = later
        self._peers = core.peers
        self._evidence = Evidence(core.peers.knock, self._gone, later)

    @property
    def leader(self) -> int:
        """Who leads the quorum, as far as this voter knows; -1 for nobody."""
        return -1 if self.raft is None else self.raft.leader

    # Life

    def start(self, known: Kept) -> Job[None]:
        """Open the log, and take part.

        Raises:
            BarnabasError: the metadata cannot be read.
            OSError: the disk failed.
        """
        core, config = self._core, self._core.config
        in_use = known == Kept() and not self._mine.fresh and identity.in_use(core.disk)
        yield from self.log.load(in_use=in_use)
        kept.check_there(known, self.log.end.end)
        timing = Timing(
            config.controller_quorum_election_timeout_ms,
            config.controller_quorum_fetch_timeout_ms,
            config.controller_quorum_election_backoff_max_ms,
        )
        raft = Raft(config.node_id, self.voters, self._mine.cluster_id, known, self.log, self, timing)
        self.raft = core.services.quorum = raft
        self.voter_feed = VoterFeed(raft, self.log, core.replicas.shared.timer, self._later)
        core.timed.append(self)
        gauges.register_voter(core.registry, raft, self.log)
        raft.start(core.now_ms)
        core.release_held()

    def resign(self, now_ms: int) -> None:
        """This node stops: who leads lets another one."""
        if self.raft is not None:
            self.raft.resign(now_ms)

    def close(self) -> Job[None]:
        """Take no part any more.

        Raises:
            OSError: the disk failed.
        """
        if self.raft is not None:
            self._core.timed.remove(self)
            self._end_reign()
            self.raft = self._core.services.quorum = None
            yield from self.log.close()

    # Time

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        assert self.raft is not None
        self.raft.tick(now_ms)
        self._evidence.tick(now_ms)
        if self.reign is not None:
            self.reign.members.tick(now_ms)
        self._look(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        assert self.raft is not None
        due_ms = self.raft.next_deadline_ms()
        for part in (self._evidence, None if self.reign is None else self.reign.members):
            part_ms = None if part is None else part.next_deadline_ms()
            if part_ms is not None and (due_ms is None or part_ms < due_ms):
                due_ms = part_ms
        return due_ms

    # The world of the core (`raft.world.Outside`)

    def send(self, voter: int, request: Any, answered: Answered) -> None:
        """Ask another voter."""
        lane = Lane.METADATA if isinstance(request, FetchRequest | FetchSnapshotRequest) else Lane.QUORUM

        def came(response: Any | None, now_ms: int) -> None:
            raft = self.raft
            if raft is None:
                return
            if response is not None:
                self._evidence.alive(voter)
            elif raft.role is Role.FOLLOWER and voter == raft.leader:
                self._evidence.closed(voter, raft.epoch)
            answered(response, now_ms)
            self._look(now_ms)

        self._peers.send(voter, request, lambda response: self._later(partial(came, response)), lane)

    def _gone(self, voter: int, doubt: Doubt, now_ms: int) -> None:
        self._evidence.alive(voter)  # what was known of it is used up
        if self.raft is not None and self.raft.epoch == doubt.epoch:
            logger.info("controller %d is gone: its connections are closed, and it refuses others", voter)
            self.raft.suspect(voter, now_ms)

    def save(self, state: Kept, done: Done) -> None:
        """Bring what this voter promised to the device; on a full disk nothing is promised until there is room."""

        def written(error: OSError | None) -> None:
            self._later(partial(told, error))

        def told(error: OSError | None, now_ms: int) -> None:
            if is_full(error):
                logger.error("this controller cannot vote until there is room on the disk: %s", error)
                self._core.replicas.shared.timer.add(CallbackTask(attempt), now_ms + AGAIN_MS)
            else:
                done(error, now_ms)

        def attempt(_now_ms: int) -> None:
            if self.raft is not None:
                self._core.disk.write_atomic(kept.FILE, kept.dump(state, self.voters), written)

        self._core.disk.write_atomic(kept.FILE, kept.dump(state, self.voters), written)

    def below(self, end: int) -> int:
        """By chance."""
        return self._core.entropy.below(end)

    def changed(self, now_ms: int) -> None:
        """Role, epoch or leader are others."""
        self._later(self._look)

    def committed(self, now_ms: int) -> None:
        """The high watermark rose."""
        self._later(self._tell_committed)

    def _tell_committed(self, now_ms: int) -> None:
        if self.voter_feed is None or self.raft is None:
            return
        self.feed.committed()
        self.voter_feed.news()
        if self.reign is not None:
            self.reign.log.committed()
        self._look(now_ms)

    # The controller

    def observed(self, now_ms: int) -> None:
        """This node's broker has taken in more of the metadata."""
        self._look(now_ms)
        core = self._core
        if self.log.snapshot_due and core.member is not None and core.member.observer.end_offset > self.log.start.end:
            mark = Mark(core.member.observer.end_offset, core.member.observer.epoch)
            core.jobs.add("metadata snapshot", self.log.snapshot(core.image.copy(), mark))

    def _look(self, now_ms: int) -> None:
        """Begin or end a reign; tell who leads."""
        raft, core = self.raft, self._core
        if raft is None or core.member is None:
            return
        if self.reign is not None and (raft.leading is None or raft.epoch != self.reign.epoch):
            self._end_reign()
        if self.reign is None and raft.leads and core.member.observer.end_offset >= self.log.committed:
            logger.info("this node is the active controller, in epoch %d", raft.epoch)
            self.reign = Reign(core, raft, self.log, self.feed, self._mine.cluster_id, self._appended)
            core.services.members = self.reign.members
            self.reign.begin(self._mine.cluster_id, now_ms)
        self.feed.led_by(raft.leader, raft.epoch)
        if self.voter_feed is not None:
            self.voter_feed.led_by(raft.leader, raft.epoch)
        core.member.led_by(raft.leader, raft.epoch, now_ms)

    def _appended(self) -> None:
        if self.voter_feed is not None:
            self.voter_feed.news()

    def _end_reign(self) -> None:
        reign, self.reign = self.reign, None
        if reign is not None:
            logger.info("this node is not the active controller any more")
            self._core.services.members = None
            reign.end()

    # What others ask

    def serves(self, request: Any, context: RequestContext) -> bool:
        """Whether a request is this voter's to answer, however far its broker has come."""
        key = context.api_key
        if self.raft is None or context.connection.peer < 0:
            return False
        return key in _QUORUM or key in _DECIDED or key == ApiKey.FETCH_SNAPSHOT or _of_metadata(request, key)

    def handle(self, services: Services, request: Any, context: RequestContext, now_ms: int) -> None:
        """Answer another broker, or this node's own; `SERVED` says what."""
        key = context.api_key
        if key == ApiKey.FETCH and not _of_metadata(request, key):
            peer_fetch.handle(services, request, context, now_ms)
        elif key == ApiKey.FETCH:
            self._fetch(services, request, context, now_ms)
        elif key == ApiKey.FETCH_SNAPSHOT:
            self._fetch_snapshot(services, request, context, now_ms)
        elif self.reign is None and key in FORWARDED and key != ApiKey.DESCRIBE_QUORUM:
            context.respond(error_response(key, request, ErrorCode.NOT_CONTROLLER))
        else:
            handler = import_module(f"barnabas.broker.handlers.{STEMS[key]}").handle
            handler(services if self.reign is None else self.reign.services, request, context, now_ms)

    def _is_other_voter(self, context: RequestContext) -> bool:
        return context.connection.peer in self.voters and context.connection.peer != self._core.config.node_id

    def _fetch(self, services: Services, request: FetchRequest, context: RequestContext, now_ms: int) -> None:
        replica = request.replica_id if request.replica_state is None else request.replica_state.replica_id
        parts = [part for topic in request.topics for part in topic.partitions]
        if replica != context.connection.peer:
            context.respond(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        elif request.cluster_id not in (None, services.cluster_id):
            context.respond(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        elif len(parts) != 1 or parts[0].partition:
            context.respond(FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
        elif self.raft is None or self.voter_feed is None:
            context.respond(FetchResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif self._is_other_voter(context):
            self.voter_feed.fetch(replica, parts[0], request.max_wait_ms, context.respond, now_ms)
        elif self.reign is not None or replica == self._core.config.node_id:
            self.feed.fetch(request, context.respond, now_ms)
        else:
            data = self.raft.judged(replica, parts[0])
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
            context.respond(FetchResponse(responses=[topic]))

    def _fetch_snapshot(
        self, services: Services, request: FetchSnapshotRequest, context: RequestContext, now_ms: int
    ) -> None:
        raft, own = self.raft, context.connection.peer == self._core.config.node_id
        if request.replica_id != context.connection.peer:
            context.respond(FetchSnapshotResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        elif raft is None or not (own or raft.leading is not None):
            context.respond(FetchSnapshotResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            leader = raft.leader, raft.epoch
            context.respond(snapshot_feed.answer(request, self.log.held, services.cluster_id, leader))

    # This node's own broker

    def ask(self, request: Any, key: int, version: int, done: Any) -> None:
        """A request of this node's broker to this node's voter; `done(response or None)`, in a later step."""
        core = self._core
        connection = Connection(-1, "", "127.0.0.1", "kafka", core.now_ms, peer=core.config.node_id)
        context = _Own(connection, key, version, lambda response: core.defer(lambda: done(response)))

        def handle() -> None:
            if self.raft is None:
                done(None)
            else:
                self.handle(core.services, request, context, core.now_ms)

        core.defer(handle)


class _Own(RequestContext):
    """The way back to this node's own broker."""

    __slots__ = ("_told",)

    def __init__(self, connection: Connection, key: int, version: int, told: Any) -> None:
        super().__init__(connection, key, version, "broker")
        self._told = told

    def respond(self, response: Any) -> None:
        """Hand the answer on."""
        self._told(response)

    def close(self, reason: str) -> None:
        """There is no connection: it is not answered."""
        self._told(None)


def _of_metadata(request: Any, key: int) -> bool:
    return key == ApiKey.FETCH and any(topic.topic_id == TOPIC_ID for topic in request.topics)
