"""One voter of the quorum: KRaft's Raft as a table of roles. It is told the time, and never waits.

    role         event                                                    next
    UNATTACHED   its election timer ends                                  PROSPECTIVE
                 a candidate whose log has as much asks for its vote      UNATTACHED, voted, with a new timer
    PROSPECTIVE  a majority would vote for it (pre-vote, KIP-996)         CANDIDATE in the next epoch, with its own vote
                 a majority would not, or its timer ends                  FOLLOWER of a known leader, else UNATTACHED
    CANDIDATE    a majority voted for it                                  LEADER: begins with a record of its epoch
                 a majority did not (after a while), or its timer ends    PROSPECTIVE
    FOLLOWER     its leader has not answered for the fetch timeout        PROSPECTIVE
                 its leader goes (EndQuorumEpoch), or is seen to be dead  PROSPECTIVE, sooner
    LEADER       no majority fetches for 1.5 fetch timeouts, or it stops  RESIGNED
    RESIGNED     its timer ends                                           UNATTACHED, in the next epoch
    any          a higher epoch is heard of                               UNATTACHED or FOLLOWER in it
    any          who leads this epoch is heard of                         FOLLOWER

**Nothing leaves before what it rests on is kept.** Epoch, vote and leader are saved whenever they change, and answers
and requests wait until that is on the device (`keeping`): a vote that was given is never forgotten.

Who follows is in `following`, what a leader counts in `leading`, what it says to who fetches in `fetching`.
Long because the table stands in one piece: every event of every role, with what it changes. Source: `KafkaRaftClient`,
`QuorumState` and the states beside it of Apache Kafka (KIP-595, KIP-835, KIP-996).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from barnabas.broker.raft import calls
from barnabas.broker.raft.fetching import judge
from barnabas.broker.raft.following import Following, QuorumFault
from barnabas.broker.raft.keeping import Keeping
from barnabas.broker.raft.kept import NOBODY, Kept
from barnabas.broker.raft.leading import Leading
from barnabas.broker.raft.world import Mark, Outside, RaftLog
from barnabas.protocol.errors import BarnabasError, ErrorCode
from barnabas.protocol.requests.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from barnabas.protocol.requests.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from barnabas.protocol.requests.fetch import FetchPartition, LeaderIdAndEpoch, PartitionData
from barnabas.protocol.requests.vote import VoteRequest, VoteResponse

logger = logging.getLogger(__name__)


class Role(Enum):
    """What a voter is in its epoch."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    FOLLOWER = "follower"
    LEADER = "leader"
    RESIGNED = "resigned"


class Timing(NamedTuple):
    """Kafka's `controller.quorum.election.timeout.ms`, `.fetch.timeout.ms` and `.election.backoff.max.ms`."""

    election_ms: int = 1000
    fetch_ms: int = 2000
    backoff_ms_max: int = 1000


_SOLVES: Final = (Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE)
"""Who learns of the leader of his own epoch, and follows it."""


class Raft:
    """One voter. All times are monotonic ms; `fault` says why its part is over, if it is.

    Args:
        me: this voter.
        voters: all of them.
        cluster_id: whose quorum it is.
        kept: what the last life of this voter has kept.
        log: its log, all of which is on the device.
        outside: the world.
        timing: how long it waits.
    """

    def __init__(
        self,
        me: int,
        voters: Sequence[int],
        cluster_id: str,
        kept: Kept,
        log: RaftLog,
        outside: Outside,
        timing: Timing = Timing(),  # noqa: B008 (a tuple)
    ) -> None:
        assert me in voters, "who has no vote takes no part"
        self.voters = tuple(sorted(voters))
        known = kept if kept.epoch >= log.end.epoch else Kept(log.end.epoch)
        self._keeping = Keeping(known, outside.save, self._halt)
        self.role = Role.UNATTACHED
        self.leading: Leading | None = None
        self.fault: Exception | None = None
        self._me = me
        self._cluster_id = cluster_id
        self._log = log
        self._outside = outside
        self._timing = timing
        self._following: Following | None = None
        self._votes: dict[int, bool] = {}
        self._due_ms: int | None = None
        self._stay = 0
        """Rises with every change of role: what was asked in an earlier one does not count."""
        self._fetched = False
        """Whether the leader has answered a fetch in this stay."""
        self.heard_ms = -1
        """When any leader last did, or this voter last led (-1: never)."""

    # Looking

    @property
    def kept(self) -> Kept:
        """What this voter must never forget."""
        return self._keeping.kept

    @property
    def epoch(self) -> int:
        """The newest epoch that was heard of."""
        return self.kept.epoch

    @property
    def leader(self) -> int:
        """Who leads it; -1 while nobody is known to."""
        return self.kept.leader

    @property
    def leads(self) -> bool:
        """Whether this voter leads, and what it decided over is committed: a record of its own epoch is."""
        return self.leading is not None and self.leading.committed() >= 0

    # Time

    def start(self, now_ms: int) -> None:
        """Begin where the last life ended. A leader does not go on with its epoch."""
        if self.kept.leader == self._me:
            self._become(Role.RESIGNED, self.kept, now_ms)
        elif self.kept.leader != NOBODY:
            self._become(Role.FOLLOWER, self.kept, now_ms)
        else:
            self._become(Role.UNATTACHED, self.kept, now_ms)
        self.tick(now_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        if self.fault is not None:
            return
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._expire(now_ms)
        leading = self.leading
        if leading is not None:
            for voter in leading.to_be_told(now_ms):
                request = calls.begin(self._cluster_id, voter, self._me, self.epoch)
                self._ask(voter, request, self._begun)
            self._look_at_lease(now_ms)
        self._follow(now_ms)

    def _look_at_lease(self, now_ms: int) -> None:
        lease_ms = None if self.leading is None else self.leading.lease_ends_ms
        if lease_ms is not None and now_ms >= lease_ms:
            logger.warning("no majority of the voters has fetched in time: the leader resigns (%d)", self.epoch)
            self.resign(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None for when something comes."""
        if self.fault is not None:
            return None
        due_ms = self._due_ms
        for part in (self.leading, self._following):
            part_ms = None if part is None else part.next_deadline_ms()
            if part_ms is not None and (due_ms is None or part_ms < due_ms):
                due_ms = part_ms
        return due_ms

    def _expire(self, now_ms: int) -> None:
        """The timer of this role has ended."""
        kept = self.kept
        if self.role is Role.PROSPECTIVE:
            self._become(Role.UNATTACHED if kept.leader == NOBODY else Role.FOLLOWER, kept, now_ms)
        elif self.role is Role.RESIGNED:
            self._become(Role.UNATTACHED, Kept(kept.epoch + 1), now_ms)
        else:
            self._become(Role.PROSPECTIVE, kept, now_ms)

    def _drawn_ms(self, now_ms: int) -> int:
        if len(self.voters) == 1 and self.role in (Role.UNATTACHED, Role.RESIGNED):
            return now_ms  # there is nobody to wait for
        return now_ms + self._timing.election_ms + self._outside.below(self._timing.election_ms)

    # Roles

    def _become(self, role: Role, kept: Kept, now_ms: int) -> None:
        assert kept.epoch >= self.kept.epoch, "epochs rise"
        if self.role is not role or self.kept.epoch != kept.epoch:
            logger.info("quorum: %s in epoch %d (leader %d)", role.value, kept.epoch, kept.leader)
        self._stay += 1
        self.role = role
        self._keeping.keep(kept)
        self._votes = {}
        if self.leading is not None:
            self.heard_ms = now_ms
        self.leading = self._following = None
        self._fetched = False
        self._due_ms = None
        if role is Role.FOLLOWER:
            self._due_ms = now_ms + self._timing.fetch_ms
            self._following = Following(self._me, self._cluster_id, kept.leader, kept.epoch, self._log, now_ms)
        elif role is Role.LEADER:
            self._lead(now_ms)
        else:
            self._due_ms = self._drawn_ms(now_ms)
        self._outside.changed(now_ms)
        if role in (Role.PROSPECTIVE, Role.CANDIDATE):
            self._campaign(now_ms)

    def _campaign(self, now_ms: int) -> None:
        """Ask all for their votes, or whether they would give them; the own one counts once it is kept."""
        pre, stay = self.role is Role.PROSPECTIVE, self._stay
        for voter in self.voters:
            if voter != self._me:
                self._ask(
                    voter, calls.vote(self._cluster_id, voter, self._me, self.epoch, self._log.end, pre), self._voted
                )

        def own(now_ms: int) -> None:
            if self._stay == stay:
                self._count(self._me, True, now_ms)

        self._keeping.when_kept(own, now_ms)

    def _count(self, voter: int, granted: bool, now_ms: int) -> None:
        self._votes[voter] = granted
        majority = len(self.voters) // 2 + 1
        for_me = sum(self._votes.values())
        if for_me >= majority and self.role is Role.PROSPECTIVE:
            self._become(Role.CANDIDATE, Kept(self.epoch + 1, self._me), now_ms)
        elif for_me >= majority:
            self._become(Role.LEADER, Kept(self.epoch, self._me, self._me), now_ms)
        elif len(self._votes) - for_me > len(self.voters) - majority:  # it cannot come to a majority any more
            if self.role is Role.PROSPECTIVE:
                self._expire(now_ms)
            else:
                self._due_ms = now_ms + 1 + self._outside.below(self._timing.backoff_ms_max)

    def _lead(self, now_ms: int) -> None:
        log = self._log
        self.leading = Leading(self._me, self.voters, log.end.end, self._timing.fetch_ms, now_ms)
        try:
            log.begin_epoch(self.epoch, self._me)
        except BarnabasError as fault:
            logger.error("the epoch %d cannot be begun: %s", self.epoch, fault)
            self.resign(now_ms)
            return
        self.appended()

    def resign(self, now_ms: int) -> None:
        """Lead no longer; the other voters are told who should come next. Nothing happens to who does not lead."""
        leading = self.leading
        if leading is None:
            return
        successors = leading.successors()
        self._become(Role.RESIGNED, self.kept, now_ms)
        for voter in successors:
            self._ask(voter, calls.end(self._cluster_id, self._me, self.epoch, successors), self._ended)

    def suspect(self, leader: int, now_ms: int) -> None:
        """There is evidence that a leader is dead: its followers campaign soon, one after the other.

        All see it in the same moment, and who campaigns beside another is elected as little as that one.
        """
        if self.role is Role.FOLLOWER and self.leader == leader:
            self._fetched = False
            election_ms, place = self._timing.election_ms, [one for one in self.voters if one != leader].index(self._me)
            wait_ms = place * election_ms // 5 + self._outside.below(election_ms // 20 + 1)
            self._due_ms = min(self._due_ms or now_ms, now_ms + wait_ms)

    # Effects

    def _halt(self, reason: str) -> None:
        """Nothing more is promised, and nothing answered."""
        logger.error("this voter takes no part any more: %s", reason)
        self.fault = QuorumFault(reason)
        self.leading = self._following = None
        self._keeping.end()
        self._stay += 1

    def _ask(self, voter: int, request: Any, answered: Callable[[int, Any | None, int], None]) -> None:
        stay = self._stay

        def came(response: Any | None, now_ms: int) -> None:
            if self.fault is None:
                answered(voter if self._stay == stay else NOBODY, response, now_ms)

        self._keeping.when_kept(lambda _: self._outside.send(voter, request, came), 0)

    # What others answer. `voter` is -1 where it was asked in an earlier stay: then only who leads, and when, counts.

    def _learn(self, epoch: int, leader: int, now_ms: int) -> bool:
        """What somebody knows of an epoch and its leader; whether it is news to this voter."""
        known = leader if leader in self.voters and leader != self._me else NOBODY
        if epoch > self.epoch:
            role = Role.UNATTACHED if known == NOBODY else Role.FOLLOWER
            self._become(role, Kept(epoch, NOBODY, known), now_ms)
            return True
        if epoch == self.epoch and known != NOBODY and self.leader == NOBODY and self.role in _SOLVES:
            self._become(Role.FOLLOWER, self.kept._replace(leader=known), now_ms)
            return True
        return False

    def _voted(self, voter: int, response: VoteResponse | None, now_ms: int) -> None:
        if response is not None and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            if voter != NOBODY and self.role is Role.PROSPECTIVE:
                self._count(voter, True, now_ms)  # of a release without a pre-vote (KIP-996): it is asked for its vote
            return
        told = calls.told(response)
        if told is None or self._learn(told.leader_epoch, told.leader_id, now_ms) or voter == NOBODY:
            return
        if not told.error_code:
            self._count(voter, told.vote_granted, now_ms)
        elif told.error_code == ErrorCode.INCONSISTENT_VOTER_SET:
            logger.error("voter %d has other voters in controller.quorum.voters than this node", voter)

    def _begun(self, voter: int, response: BeginQuorumEpochResponse | None, now_ms: int) -> None:
        told = calls.told(response)
        if told is not None:
            self._learn(told.leader_epoch, told.leader_id, now_ms)

    _ended = _begun

    # What others ask

    def _asked(self, request: calls.Request) -> tuple[Any | None, int]:
        if self.fault is not None:
            return None, ErrorCode.KAFKA_STORAGE_ERROR
        return calls.asked_by_voter(request, self._cluster_id, self.voters)

    def vote(self, request: VoteRequest, respond: Callable[[VoteResponse], None], now_ms: int) -> None:
        """Give a vote, or say whether it would be given."""
        asked, code = self._asked(request)
        if asked is None:
            respond(VoteResponse(code))
            return
        code = code or (ErrorCode.FENCED_LEADER_EPOCH if asked.replica_epoch < self.epoch else 0)
        granted = False
        if not code:
            self._learn(asked.replica_epoch, NOBODY, now_ms)
            candidate = asked.replica_id
            granted = self._would_vote(candidate, Mark(asked.last_offset, asked.last_offset_epoch), pre=asked.pre_vote)
            if granted and not asked.pre_vote and self.kept.voted == NOBODY:
                self._become(Role.UNATTACHED, self.kept._replace(voted=candidate), now_ms)
        response = calls.vote_told(code, self.leader, self.epoch, granted)
        self._keeping.when_kept(lambda _: respond(response), now_ms)

    def _would_vote(self, candidate: int, end: Mark, *, pre: bool) -> bool:
        """Whether a candidate of this very epoch gets this voter's vote."""
        ours = self._log.end
        if (end.epoch, end.end) < (ours.epoch, ours.end):
            return False
        if pre:
            return self.role is not Role.LEADER and not self._fetched
        if self.role not in (Role.UNATTACHED, Role.PROSPECTIVE) or self.leader != NOBODY:
            return False
        return self.kept.voted in (NOBODY, candidate)

    def begin(
        self, request: BeginQuorumEpochRequest, respond: Callable[[BeginQuorumEpochResponse], None], now_ms: int
    ) -> None:
        """Hear who leads an epoch."""
        asked, code = self._asked(request)
        if asked is None:
            respond(BeginQuorumEpochResponse(code))
            return
        code = code or (ErrorCode.FENCED_LEADER_EPOCH if asked.leader_epoch < self.epoch else 0)
        if not code:
            self._learn(asked.leader_epoch, asked.leader_id, now_ms)
        response = calls.begin_told(code, self.leader, self.epoch)
        self._keeping.when_kept(lambda _: respond(response), now_ms)

    def end(
        self, request: EndQuorumEpochRequest, respond: Callable[[EndQuorumEpochResponse], None], now_ms: int
    ) -> None:
        """Hear that a leader goes: the first of its successors begins at once, the others after a while."""
        asked, code = self._asked(request)
        if asked is None:
            respond(EndQuorumEpochResponse(code))
            return
        code = code or (ErrorCode.FENCED_LEADER_EPOCH if asked.leader_epoch < self.epoch else 0)
        if not code:
            self._learn(asked.leader_epoch, asked.leader_id, now_ms)
            if self.role is Role.FOLLOWER and self.leader == asked.leader_id:
                order = [one.candidate_id for one in asked.preferred_candidates] or asked.preferred_successors
                place = order.index(self._me) if self._me in order else len(order)
                self._fetched = False
                self._due_ms = now_ms + place * self._timing.election_ms // 2
        response = calls.end_told(code, self.leader, self.epoch)
        self._keeping.when_kept(lambda _: respond(response), now_ms)

    # The log

    def fetch(self, replica: int, asked: FetchPartition, now_ms: int) -> PartitionData:
        """The answer to a voter or an observer that fetches, without its records (`fetching.judge`).

        A voter that has all up to a place of this log counts; an observer is given what is committed alone. A leader
        that was paused hears what came meanwhile before it is told the time: a lease that is over is not made longer.
        """
        self._look_at_lease(now_ms)
        data = self.judged(replica, asked)
        leading = self.leading
        if leading is None or replica not in leading.ends or replica == self._me:
            return data
        if not data.error_code and data.diverging_epoch is None and data.snapshot_id is None:
            leading.fetched(replica, asked.fetch_offset, now_ms)
            self._raise(now_ms)
            data.high_watermark = data.last_stable_offset = self._log.committed
        return data

    def judged(self, replica: int, asked: FetchPartition) -> PartitionData:
        """As `fetch`, of one that was counted when it came."""
        log, leading = self._log, self.leading
        if leading is None:
            data = PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, records=b"")
            data.current_leader = LeaderIdAndEpoch(self.leader, self.epoch)
            return data
        votes = replica in leading.ends and replica != self._me
        return judge(log, (self._me, self.epoch), asked, log.end.end if votes else log.committed)

    def appended(self) -> None:
        """The leader has appended: it counts once it is on the device."""
        end, stay = self._log.end.end, self._stay

        def synced(error: Exception | None, now_ms: int) -> None:
            if self._stay != stay or self.leading is None:
                return
            if error is not None:
                self._halt(f"the metadata log cannot be written: {error}")
                return
            self.leading.synced(end)
            self._raise(now_ms)

        self._log.sync(end, synced)

    def _raise(self, now_ms: int) -> None:
        assert self.leading is not None
        end = self.leading.committed()
        if end > self._log.committed:
            self._log.commit(end)
            self._outside.committed(now_ms)

    def _follow(self, now_ms: int) -> None:
        following = self._following
        if following is None:
            return
        request = following.request(now_ms)
        if request is not None:
            self._ask(self.leader, request, self._answered)
        if following.fault is not None:
            self._halt(str(following.fault))

    def _answered(self, voter: int, response: Any | None, now_ms: int) -> None:
        following = self._following
        if following is None or voter == NOBODY:
            return
        told = following.answered(response, now_ms)
        if following.fault is not None:
            self._halt(str(following.fault))
        elif not self._learn(told.epoch, told.leader, now_ms):
            if told.alive:
                self._fetched = True
                self.heard_ms = now_ms
                self._due_ms = now_ms + self._timing.fetch_ms
            if told.committed:
                self._outside.committed(now_ms)
            self._follow(now_ms)
