"""A consumer in a group: what it does when the application asks for records, and what goes on meanwhile.

All that the application must hear of, and all that is committed without its asking, happens in `turn`, which a shell
calls whenever the application asks for records: only then is what was handed out before done with. What it has to be
told comes back as a `Call`, which the shell runs where the application is, and hands to `called`.

phase       what goes on                                              left by
IDLE        records are handed out; the member may be on its way      `turn` finds what is to be given up, or came
COMMITTING  auto commit of what is to be given up                     the answer, or its time is over: CALLING
CALLING     the application is told what goes, or came                `called`: IDLE, and on

What is to be given up is held from the first moment on: nothing of it is handed out, so that the positions which are
committed are the last ones. It is the same for all reasons: joining again (an eager way to share gives up all, a
cooperative one what is no longer subscribed), a share that lacks partitions (cooperative), a place that was lost (then
nothing is committed), and the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.fetcher import Fetcher
from barnabas.client.consume.group.coordinator import Coordinator
from barnabas.client.consume.group.offsets import GroupOffsets, OnCommit
from barnabas.client.consume.group.standing import Standing, State
from barnabas.client.consume.group.subscription import Call, Subscription, Turn
from barnabas.client.consume.group.values import Identity, Offsets
from barnabas.client.errors import CommitFailed
from barnabas.net.backoff import Random
from barnabas.net.errors import WaitRefused
from barnabas.net.metadata import NEVER, Metadata
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

log = logging.getLogger(__name__)


class Phase(Enum):
    """What goes on between the application and its group."""

    IDLE = "idle"
    COMMITTING = "committing"
    CALLING = "calling"


class Group:
    """The part of one consumer in its group. `on_change` wakes whoever waits.

    A shell sets `waiting` (whether the application waits for records at present), `ahead` (how many records an
    iteration took ahead, which shows whether it goes on) and `recall` (takes them back).
    """

    def __init__(self, config: ConsumerConfig, fetcher: Fetcher, random: Random, on_change: Callable[[], None]) -> None:
        self.config = config
        self.subscription = Subscription()
        self.waiting: Callable[[], bool] = lambda: False
        self.ahead: Callable[[], int] = lambda: 0
        self.recall: Callable[[], None] = lambda: None
        self.polled_at_ms: int | None = None
        self.gone = False  # left, as `depart` asked for
        self.coordinator = Coordinator(config, fetcher.network, config.group_id, random, on_change)
        self.membership = self._member(fetcher.metadata, random)
        self.offsets = GroupOffsets(config, fetcher, self.coordinator, self.identity, on_change)
        self._fetcher = fetcher
        self._metadata = fetcher.metadata
        self._on_change = on_change
        self._phase = Phase.IDLE
        self._giving: list[TopicPartition] = []
        self._turn = Turn.REVOKED
        self._then: Callable[[int], None] = lambda _: None
        self._call: Call | None = None
        self._called = False  # the application is being called
        self._next_commit_ms: int | None = None
        self._nudged = False
        self._ahead = 0
        self._told: frozenset[str] = frozenset()
        self._departing: str | None = None
        self.departs_ms = NEVER
        self._commits = config.enable_auto_commit

    def _member(self, metadata: Metadata, random: Random) -> Standing:
        """Of the protocol that is set; the other one is not loaded."""
        if self.config.group_protocol == "consumer":
            from barnabas.client.consume.group.epochs import EpochMembership

            return EpochMembership(self.config, metadata, self.coordinator, self, random, self._on_member)
        from barnabas.client.consume.group.membership import Membership

        return Membership(self.config, metadata, self.coordinator, self, self._on_member)

    # ---- what it wants --------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Want other topics, with the next generation."""
        self.subscription = subscription
        self.membership.want_rejoin("the subscription changed")
        self.recall()

    def topics(self) -> tuple[str, ...]:
        """What the member says it wants when it joins."""
        topics = self.subscription.topics(self._metadata.cluster, internal=not self.config.exclude_internal_topics)
        self._told = frozenset(topics)
        return topics

    def pattern(self) -> str | None:
        """The pattern that the broker matches."""
        return self.subscription.by_broker

    def owned(self) -> list[TopicPartition]:
        """The partitions it has."""
        return list(self._fetcher.positions) if self.subscription else []

    def on_metadata(self) -> None:
        """Topics or partitions may have come or gone."""
        if not self.subscription:
            return
        self.membership.on_metadata()
        if self.subscription.pattern is not None and self.membership.in_generation:
            internal = not self.config.exclude_internal_topics
            if frozenset(self.subscription.topics(self._metadata.cluster, internal=internal)) != self._told:
                self.membership.want_rejoin("other topics match the pattern")
        if self.membership.rejoin is not None:
            self._on_member()

    def _on_member(self) -> None:
        if self.membership.rejoin is not None or self.membership.state is State.TAKING:
            self.recall()
        self._on_change()

    # ---- what the application is given ----------------------------------------------------------------------------

    def turn(self, now_ms: int) -> Call | None:
        """The application asks for records, and so is done with what it has: whom to call before there are any.

        Raises:
            WaitRefused: it asks while it is being called.
            BarnabasError: the group refuses this member.
        """
        if self._called:
            raise WaitRefused("records are asked for while a rebalance listener runs: return from it first")
        self.polled_at_ms = now_ms
        if self._phase is Phase.IDLE:
            self._decide(now_ms)
        if self._call is not None:
            self._called = True
            return self._call
        self._raise()
        return None

    def called(self, now_ms: int) -> None:
        """The application was told."""
        self._called, self._call = False, None
        if self._phase is not Phase.CALLING:
            return
        if self._turn is Turn.ASSIGNED:
            self._phase = Phase.IDLE
            self.membership.taken()
        else:
            self._let_go(now_ms)

    def put_back(self) -> None:
        """It was not told, for it was interrupted: it is with the next turn."""
        self._called = False

    def _raise(self) -> None:
        error = self.membership.error or self.coordinator.fatal
        if error is not None and self._departing is None:
            if self.membership.state is not State.FENCED:
                self.membership.error = self.coordinator.fatal = None
            raise error

    def _decide(self, now_ms: int) -> None:
        member = self.membership
        if self._departing is not None:
            self._give_up(self._all(), self._leave, now_ms)
        elif not self.subscription:
            self._commit_in_time(now_ms)
        elif member.lost:
            self._give_up(self.owned(), self._join, now_ms)
        elif member.state is State.OUT or (member.state is State.STABLE and member.rejoin is not None):
            self._give_up(self._unwanted(), self._join, now_ms)
        elif member.state is State.TAKING:
            share = frozenset(member.share)
            self._give_up([where for where in self.owned() if where not in share], self._take, now_ms)
        else:
            self._commit_in_time(now_ms)

    def _unwanted(self) -> list[TopicPartition]:
        """What is to be given up before it joins again. What a pattern of the broker's leaves out, the broker says."""
        if self.subscription.by_broker is not None:
            return []
        wanted = frozenset(self.topics()) if self.membership.cooperative else frozenset()
        return [where for where in self.owned() if where.topic not in wanted]

    def _all(self) -> list[TopicPartition]:
        return list(self._fetcher.positions)

    def _commit_in_time(self, now_ms: int) -> None:
        if not self.config.enable_auto_commit or not self._all():
            self._next_commit_ms = None
            return
        if self._next_commit_ms is None:
            self._next_commit_ms = now_ms + self.config.auto_commit_interval_ms
        elif now_ms >= self._next_commit_ms and self.refusal() is None and self.coordinator.known:
            self._next_commit_ms = now_ms + self.config.auto_commit_interval_ms
            self._nudged = False
            self.offsets.commit(self.offsets.now(self._all()), now_ms, self._on_auto_commit)

    def _on_auto_commit(self, error: BarnabasError | None, now_ms: int) -> None:
        if error is None:
            return
        again = error.retriable or (isinstance(error, KafkaError) and error.code == ErrorCode.STALE_MEMBER_EPOCH)
        log.log(logging.DEBUG if again else logging.WARNING, "auto commit: %s", error)
        if again:
            self._next_commit_ms = now_ms + self.config.retry_backoff_ms

    # ---- giving up ------------------------------------------------------------------------------------------------

    def _give_up(self, partitions: list[TopicPartition], then: Callable[[int], None], now_ms: int) -> None:
        self.recall()
        self._giving, self._then = partitions, then
        self._turn = Turn.LOST if self.membership.lost else Turn.REVOKED
        for where in partitions:
            self._fetcher.positions[where].held = True
        offsets = self.offsets.unsaved(partitions) if self._commits else {}
        if offsets and self.refusal() is None:
            self._phase = Phase.COMMITTING
            limit_ms = min(self.config.default_api_timeout_ms, self.config.max_poll_interval_ms)
            deadline_ms = min(now_ms + limit_ms, self.departs_ms)
            self.offsets.commit(offsets, now_ms, self._on_last_commit, deadline_ms)
        else:
            self._tell(now_ms)

    def _on_last_commit(self, error: BarnabasError | None, now_ms: int) -> None:
        if self._phase is not Phase.COMMITTING:
            return
        if error is not None:
            log.warning("not committed before partitions were given up: %s", error)
        if self.membership.lost:
            self._turn = Turn.LOST
        self._tell(now_ms)
        self._on_change()

    def _tell(self, now_ms: int) -> None:
        function = self.subscription.listener.of(self._turn) if self._giving else None
        if function is None:
            self._let_go(now_ms)
        else:
            self._phase = Phase.CALLING
            self._call = Call(self._turn, function, sorted(self._giving))

    def _let_go(self, now_ms: int) -> None:
        self._phase = Phase.IDLE
        self.offsets.forget(self._giving)
        given = frozenset(self._giving)
        self._fetcher.assign(where for where in tuple(self._fetcher.positions) if where not in given)
        self._then(now_ms)

    def _join(self, now_ms: int) -> None:
        if self.membership.state in (State.OUT, State.STABLE):
            self.membership.join(now_ms)

    def _take(self, now_ms: int) -> None:
        """The share is this consumer's from now on."""
        member = self.membership
        if member.state is not State.TAKING:
            return  # the place was lost meanwhile: the next turn gives up the rest
        before = frozenset(self._fetcher.positions)
        came = [where for where in member.share if where not in before]
        self._fetcher.assign(member.share)
        self._metadata.add_topics({where.topic for where in member.share}, now_ms)
        if self._giving:
            member.gave_up()
        log.debug("group %s: has %s", self.config.group_id, member.share)
        self._turn = Turn.ASSIGNED
        function = self.subscription.listener.of(Turn.ASSIGNED)
        if function is None:
            member.taken()
        else:
            self._phase = Phase.CALLING
            self._call = Call(Turn.ASSIGNED, function, came)

    # ---- the end --------------------------------------------------------------------------------------------------

    def depart(self, why: str, deadline_ms: int, *, commit: bool = True) -> None:
        """Give up everything, and leave: the turns that follow do it, until `gone`.

        Without `commit`, what was handed out since the last commit comes again, here or elsewhere.
        """
        self.gone = False
        self._departing, self.departs_ms = why, deadline_ms
        self._commits = commit and self.config.enable_auto_commit

    def abandon(self, now_ms: int) -> None:
        """Its time is over: leave as it stands."""
        if self._departing is not None:
            self._phase, self._call, self._called = Phase.IDLE, None, False
            self._leave(now_ms)

    def _leave(self, now_ms: int) -> None:
        why, self._departing = self._departing or "", None
        self.departs_ms = NEVER
        self._commits = self.config.enable_auto_commit
        self.subscription = Subscription()
        self._metadata.all_topics = False
        self.membership.error = self.coordinator.fatal = None  # who leaves is not told what was refused before
        self.membership.leave(now_ms, why, self._on_left)

    def _on_left(self) -> None:
        self.gone = True
        self.membership.rejoin, self.membership.lost = None, False
        self._on_change()

    def close(self, now_ms: int) -> None:
        """Nothing more is asked; whoever waits for an answer is told."""
        self.coordinator.close(now_ms)

    # ---- commits --------------------------------------------------------------------------------------------------

    def identity(self) -> Identity:
        """As whom it commits: `assign` does so as nobody in particular."""
        return self.membership.identity if self.subscription else Identity(self.config.group_id)

    def commit(self, offsets: Offsets, now_ms: int, on_done: OnCommit, deadline_ms: int | None = None) -> None:
        """Commit these; tried again until the deadline (absolute ms), and without one not at all."""
        refused = self.refusal()
        if refused is not None:
            on_done(refused, now_ms)
        else:
            self.offsets.commit(offsets, now_ms, on_done, deadline_ms)

    def positions(self) -> Offsets:
        """Where all its partitions stand: behind what was handed out."""
        return self.offsets.now(self._all())

    def refusal(self) -> BarnabasError | None:
        """Why nothing can be committed at present."""
        member = self.membership
        if not self.subscription or (member.in_generation and not member.lost):
            return None
        if member.state in (State.JOINING, State.LEADING, State.SYNCING):
            told = f"group {self.config.group_id} is rebalancing: poll, which takes part in it, and commit again"
            return KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, told)
        fenced = member.state is State.FENCED
        return CommitFailed(
            ErrorCode.FENCED_INSTANCE_ID if fenced else ErrorCode.UNKNOWN_MEMBER_ID, self.config.group_id
        )

    # ---- the step -------------------------------------------------------------------------------------------------

    def drive(self, now_ms: int) -> int:
        """What goes on without the application. Returns when to call again at the latest (absolute ms)."""
        due = min(self.coordinator.drive(now_ms), self.membership.drive(now_ms))
        self.offsets.drive(now_ms)
        ahead = self.ahead()
        if ahead != self._ahead:
            self._ahead, self.polled_at_ms = ahead, now_ms
        if self.waiting():
            self.polled_at_ms = now_ms
            if self._next_commit_ms is None or self._phase is not Phase.IDLE:
                return due
            if self._next_commit_ms > now_ms:
                return min(due, self._next_commit_ms)
            if not self._nudged:
                self._nudged = True
                self._on_change()
        elif self.membership.in_generation and self.polled_at_ms is not None:
            limit_ms = self.polled_at_ms + self.config.max_poll_interval_ms
            if limit_ms > now_ms:
                return min(due, limit_ms)
            self.membership.expire(now_ms)
            self._on_member()
        return due
