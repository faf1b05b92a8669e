"""One member's way through the generations of its group: the classic protocol of Kafka, the member's side.

state       meaning                                                 left by
OUT         no part in the group                                    the application asks for records: JOINING
JOINING     JoinGroup: who is in it, and who leads                  answered: LEADING or SYNCING; refused: JOINING again
LEADING     this member leads, and learns of the group's topics     metadata came: SYNCING
SYNCING     SyncGroup: the leader's shares go, one's own comes      answered: TAKING; refused: JOINING, or OUT
TAKING      the share is here; the application has to be told       it was told: STABLE
STABLE      a member with its share                                 a rebalance, whose reason is `rejoin`: JOINING
FENCED      another member with this group.instance.id came         never

Whoever drives this decides when to go on: `join` once what must be given up is given up, `taken` once the application
knows its share. Between a join's answer and the next join the member is in a generation, and heartbeats go in the
background, whatever the application does; only `max.poll.interval.ms` bounds that.

Sources: AbstractCoordinator and ConsumerCoordinator of Apache Kafka 4.3; KIP-62, KIP-345, KIP-394, KIP-429.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.group import messages
from barnabas.client.consume.group.assignors import assignors_of
from barnabas.client.consume.group.coordinator import MOVED, Coordinator
from barnabas.client.consume.group.heartbeats import Heartbeats
from barnabas.client.consume.group.leading import Leading
from barnabas.client.consume.group.standing import Standing, State, Wishes
from barnabas.client.consume.group.values import Identity
from barnabas.net.errors import ConfigError
from barnabas.net.metadata import NEVER, Metadata
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

log = logging.getLogger(__name__)

JOIN_MARGIN_MS: Final = 5000
"""A join is answered once everybody is there, after `max.poll.interval.ms` at the latest; it may take this longer."""

LONG_MS: Final = 10_000
"""A join that lasts for so long is a trouble. Kafka's broker lets the first one wait for 3 s."""

_LOSES_NAME: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
_LOSES_PLACE: Final = _LOSES_NAME | {ErrorCode.ILLEGAL_GENERATION}
_JOIN_AGAIN: Final = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS}


class Membership(Standing):
    """A member of a group of the classic protocol."""

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: Metadata,
        coordinator: Coordinator,
        wishes: Wishes,
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(config, metadata, coordinator, wishes, on_change)
        self.assignors = assignors_of(config.partition_assignment_strategy)
        self.cooperative = all(each.cooperative for each in self.assignors)
        self._way = ""  # the assignor's name that was chosen
        self._kept = messages.Kept()
        self.heartbeats: Heartbeats = Heartbeats(config, coordinator, self._on_beat)
        self._joins_at_ms = 0
        self._leading: Leading | None = None
        self._why = ""

    # ---- what it is told to do ------------------------------------------------------------------------------------

    def join(self, now_ms: int) -> None:
        """Take part in the next generation: what had to be given up is given up."""
        self._why, self.rejoin = self.rejoin or self._why, None
        self.lost = False
        self.state, self._joins_at_ms = State.JOINING, now_ms
        self._coordinator.wanted = True
        self._attempt += 1
        self._coordinator.busy = False
        self.drive(now_ms)

    def gave_up(self) -> None:
        """Others are to have it, with the next generation."""
        if self.cooperative:
            self.want_rejoin("it gave up partitions, which others are to have")

    def leave(self, now_ms: int, why: str, on_done: Callable[[], None] | None = None) -> None:
        """Leave the group; a static member only stops, so that its place is kept for `session.timeout.ms`."""
        member_id, parked = self._member_id, self._coordinator.busy
        self.state = State.OUT
        self._attempt += 1
        self._coordinator.busy = False
        self._forget(name=True)
        if not member_id or self._instance is not None or not self._coordinator.known:
            if on_done is not None:
                on_done()
            return
        log.debug("group %s: leaves: %s", self.config.group_id, why)
        request = messages.leave_request(self.config.group_id, member_id, why)
        self._coordinator.send(request, now_ms, lambda *_: on_done() if on_done is not None else None, aside=parked)

    def _forget(self, *, name: bool) -> None:
        self._generation = -1
        self._leading = None
        self.heartbeats.heard_at_ms = None
        if name:
            self._member_id = ""

    def _lose(self, code: int, why: str) -> None:
        """The group went on without it: its place is gone, and with `name` its name, too."""
        self._forget(name=code in _LOSES_NAME)
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.lost = True
            self._fence(code)
        else:
            self._miss(why or "its place was gone when it joined")

    # ---- the step -------------------------------------------------------------------------------------------------

    def drive(self, now_ms: int) -> int:
        """Sends what is due. Returns when to call again at the latest (absolute ms)."""
        due = NEVER
        if self.state is State.JOINING and not self._coordinator.busy:
            if self._retry_at_ms > now_ms:
                due = self._retry_at_ms
            elif self._coordinator.known:
                self._send_join(now_ms)
        elif self.state is State.JOINING:
            due = self._note_wait(now_ms)
        elif self.state is State.LEADING:
            self._lead(now_ms)
        if self.in_generation and self.state not in (State.JOINING, State.SYNCING):
            due = min(due, self.heartbeats.drive(self.identity, now_ms))
        return due

    def _note_wait(self, now_ms: int) -> int:
        """A join that lasts is told of."""
        if now_ms < self._joins_at_ms + LONG_MS:
            return self._joins_at_ms + LONG_MS
        told = "waits for members that did not join again, as they do when they ask for records; max.poll.interval.ms"
        error = KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {self.config.group_id} {told} of each is the limit")
        self._coordinator.note(error, now_ms, self._joins_at_ms)
        return NEVER

    def on_metadata(self) -> None:
        """Partitions or topics came or went: the one who leads shares out anew."""
        if self._leading is not None and self.state in (State.TAKING, State.STABLE) and self._leading.outdated:
            self.want_rejoin("topics or partitions changed")

    # ---- joining --------------------------------------------------------------------------------------------------

    def _send_join(self, now_ms: int) -> None:
        config = self.config
        rack = config.client_rack or None
        try:
            protocols = messages.protocols(
                self.assignors, self._wishes.topics(), self._wishes.owned(), self._kept, rack
            )
        except ConfigError as fault:
            self._on_refused(fault, now_ms, again=False)
            return
        self._coordinator.busy = True
        request = JoinGroupRequest(
            config.group_id,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            self._member_id,
            self._instance,
            messages.PROTOCOL_TYPE,
            protocols,
            self._why or None,
        )
        wait_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_MARGIN_MS)
        self._coordinator.send(request, now_ms, partial(self._on_joined, self._attempt), timeout_ms=wait_ms)

    def _on_joined(
        self, attempt: int, response: JoinGroupResponse | None, error: BarnabasError | None, now_ms: int
    ) -> None:
        if attempt != self._attempt:
            return
        self._coordinator.busy = False
        if response is None:
            assert error is not None
            self._on_refused(error, now_ms, again=error.retriable)
            return
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            if self._member_id:  # it has one, and is told so again
                self._wait_a_little(now_ms)
            self._member_id = response.member_id
            self.drive(now_ms)
            return
        if response.error_code:
            self._on_join_error(response.error_code, now_ms)
            return
        self._failures = 0
        self._member_id, self._generation = response.member_id, response.generation_id
        self._way = response.protocol_name or ""
        leads, self._leading = response.leader == response.member_id, None
        self.heartbeats.heard(now_ms)
        told = "group %s: member %s of generation %d, %s%s"
        log.debug(told, self.config.group_id, self._member_id, self._generation, self._way, ", leads" * leads)
        assignor = next((each for each in self.assignors if each.name == self._way), None)
        if assignor is None:
            told = f"group {self.config.group_id} shares by {self._way!r}, which this member did not offer"
            self._on_refused(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, told), now_ms, again=False)
            return
        if leads:
            self._leading = Leading(self._metadata, assignor, response.members, now_ms)
        if self._leading is not None and not response.skip_assignment:
            self.state = State.LEADING
            self._lead(now_ms)
        else:
            self._send_sync([], now_ms)

    def _on_join_error(self, code: int, now_ms: int) -> None:
        what = "JoinGroup"
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            offered = ", ".join(each.name for each in self.assignors)
            what += f"; its members share in no way that this one offers ({offered}): "
            what += "name one of theirs in partition.assignment.strategy (barnabas groups describe shows it)"
        error = self._coordinator.heard(code, what, now_ms)
        assert error is not None
        if code in _LOSES_PLACE:
            self._lose(code, self._why)
            self._wait_a_little(now_ms)
            self._on_change()
        else:
            self._on_refused(error, now_ms, again=code in _JOIN_AGAIN)

    def _on_refused(self, error: BarnabasError, now_ms: int, *, again: bool) -> None:
        """Join again, after a while; or tell the application, and join again when it comes back."""
        self._wait_a_little(now_ms)
        if again:
            self.state = State.JOINING
        else:
            self.state, self.error = State.OUT, error
            self.want_rejoin("it was refused")
        self._on_change()

    def _lead(self, now_ms: int) -> None:
        assert self._leading is not None
        try:
            shares = self._leading.shares()
        except ConfigError as fault:
            self._on_refused(fault, now_ms, again=False)
            return
        if shares is not None:
            log.debug("group %s: shares %s", self.config.group_id, shares)
            self._send_sync(
                [SyncGroupRequestAssignment(name, messages.assignment(share)) for name, share in shares.items()], now_ms
            )

    # ---- syncing --------------------------------------------------------------------------------------------------

    def _send_sync(self, assigned: list[SyncGroupRequestAssignment], now_ms: int) -> None:
        if not self._coordinator.known:  # lost while the join lasted, as the answer to a commit may show
            told = f"group {self.config.group_id}: SyncGroup: its coordinator is looked for"
            fault = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, told)
            self._on_refused(fault, now_ms, again=True)
            return
        self.state = State.SYNCING
        self._coordinator.busy = True
        request = SyncGroupRequest(
            self.config.group_id,
            self._generation,
            self._member_id,
            self._instance,
            messages.PROTOCOL_TYPE,
            self._way,
            assigned,
        )
        wait_ms = max(self.config.request_timeout_ms, self.config.max_poll_interval_ms + JOIN_MARGIN_MS)
        self._coordinator.send(request, now_ms, partial(self._on_synced, self._attempt), timeout_ms=wait_ms)

    def _on_synced(
        self, attempt: int, response: SyncGroupResponse | None, error: BarnabasError | None, now_ms: int
    ) -> None:
        if attempt != self._attempt:
            return
        self._coordinator.busy = False
        if response is not None and response.error_code:
            error = self._coordinator.heard(response.error_code, "SyncGroup", now_ms)
            if response.error_code in _LOSES_PLACE:
                self._lose(response.error_code, "its generation is over")
                self._on_change()
                return
        if response is not None and error is None:
            try:
                self.share = messages.read_assignment(bytes(response.assignment))
            except ProtocolError as fault:
                error = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the share cannot be read: {fault}")
        if error is not None:
            again = (isinstance(error, KafkaError) and error.code in _JOIN_AGAIN) or error.retriable
            self._on_refused(error, now_ms, again=again)
            return
        self._kept = messages.Kept(tuple(self.share), self._generation)
        self._coordinator.clear()
        self.state = State.TAKING
        self.rebalances += 1
        self.heartbeats.heard(now_ms)
        self._on_change()

    # ---- heartbeats -------------------------------------------------------------------------------------------------

    def _on_beat(self, who: Identity, code: int, error: BarnabasError | None, now_ms: int) -> None:
        if who != self.identity:
            return  # of an earlier generation
        if error is not None:
            if not error.retriable:
                self.error = error
                self._on_change()
        elif not code:
            self._coordinator.clear()
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state in (State.STABLE, State.TAKING):
                self.want_rejoin("the group rebalances")
                self._on_change()
        else:
            self._coordinator.heard(code, "Heartbeat", now_ms)
            if code in _LOSES_PLACE:
                self._lose(code, f"the coordinator said {ErrorCode(code).name}")
                self._on_change()
            elif code not in MOVED:
                self.heartbeats.soon(now_ms)
