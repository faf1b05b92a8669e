"""One member's way through the epochs of its group: the consumer protocol of Kafka (KIP-848), the member's side.

The coordinator shares out, and heartbeats carry everything: what the member wants, what it has, and its share.

state       meaning                                                 left by
OUT         no part in the group                                    the application asks for records: JOINING
JOINING     a heartbeat with epoch 0                                answered: TAKING; refused: JOINING again, or OUT
TAKING      the share is another one than what is owned             the application gave up, and took: STABLE
STABLE      what is owned is the share                              another share came: TAKING
FENCED      another member with this group.instance.id came         never

The share that is being taken stays as it is until it is taken, whatever comes meanwhile, but that nothing is added that
the newest one lacks: the coordinator counts on what a member says it owns, and may have given that away. What was given
up and taken is told at once, for others wait for it.

Sources: ConsumerMembershipManager and ConsumerHeartbeatRequestManager of Apache Kafka 4.3; KIP-848, KIP-1082.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.group.coordinator import MOVED, Coordinator
from barnabas.client.consume.group.epoch_beats import JOINS, EpochBeats, Owned, Told, leave
from barnabas.client.consume.group.standing import Standing, State, Wishes
from barnabas.net.backoff import Random
from barnabas.net.errors import FeatureMissing
from barnabas.net.metadata import NEVER, Metadata
from barnabas.protocol.errors import BarnabasError, EncodeError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

log = logging.getLogger(__name__)

_LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
"""The group went on without a member that hears this; it joins anew."""

_AGAIN: Final = MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
}

_ADVICE: Final = {
    ErrorCode.UNSUPPORTED_VERSION: "this broker has no groups of the consumer protocol: set group.protocol=classic",
    ErrorCode.UNRELEASED_INSTANCE_ID: "a member with this group.instance.id is still there: give each member one of "
    "its own, or wait until the broker misses it",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group has members of the classic protocol, which the broker does not take over",
}


class EpochMembership(Standing):
    """A member of a group of the consumer protocol. It names itself, once (KIP-1082)."""

    heartbeats: EpochBeats

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: Metadata,
        coordinator: Coordinator,
        wishes: Wishes,
        random: Random,
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(config, metadata, coordinator, wishes, on_change)
        self._member_id = new_id(random)
        self.heartbeats = EpochBeats(config, coordinator, self._on_answer)
        self._target: dict[bytes, list[int]] = {}  # what the coordinator said last
        self._names: dict[bytes, str] = {}  # of the topics in it: what is owned is so though metadata misses it a while
        self._unknown = False  # metadata has not told of all topics in it yet

    # ---- what it is told to do ------------------------------------------------------------------------------------

    def join(self, now_ms: int) -> None:
        """Join; a member says what it wants now."""
        self.rejoin, self.lost = None, False
        self._coordinator.wanted = True
        if not self.in_generation:
            self.state = State.JOINING
        self.heartbeats.hurry()
        self.drive(now_ms)

    def taken(self) -> None:
        """The application knows its share: the coordinator is told, and what came meanwhile is next."""
        if self.state is State.TAKING:
            self.state = State.STABLE
            self.rebalances += 1
            self.heartbeats.acknowledge()
            self._compare()

    def leave(self, now_ms: int, why: str, on_done: Callable[[], None] | None = None) -> None:
        """Leave the group; the place of a static member is kept for the broker's session timeout."""
        member = self.in_generation or self.heartbeats.under_way
        self.state = State.OUT
        self._forget()
        if not member or not self._coordinator.known:
            if on_done is not None:
                on_done()
            return
        log.debug("group %s: leaves: %s", self.config.group_id, why)
        request = leave(self.config, self._member_id)
        self._coordinator.send(request, now_ms, lambda *_: on_done() if on_done is not None else None)

    def on_metadata(self) -> None:
        """Topics of the share may be known by now."""
        if self._unknown:
            self._compare()

    def _forget(self) -> None:
        self._generation = -1
        self._target, self._unknown = {}, False
        self.heartbeats.begin()

    # ---- the step -------------------------------------------------------------------------------------------------

    def drive(self, now_ms: int) -> int:
        """Sends what is due. Returns when to call again at the latest (absolute ms)."""
        if self.state in (State.OUT, State.FENCED):
            return NEVER
        if self.state is State.JOINING and self._retry_at_ms > now_ms:
            return self._retry_at_ms
        epoch = self._generation if self.in_generation else JOINS
        return self.heartbeats.drive(self._member_id, epoch, self._tell, now_ms)

    def _tell(self) -> Told:
        return Told(*self._wanted(), self._owned() if self.in_generation else ())

    def _wanted(self) -> tuple[tuple[str, ...], str | None]:
        return tuple(sorted(self._wishes.topics())), self._wishes.pattern()

    def _owned(self) -> Owned:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        found: dict[bytes, list[int]] = {}
        for where in sorted(self._wishes.owned()):
            topic_id = ids.get(where.topic) or self._metadata.cluster.topic_id(where.topic)
            found.setdefault(topic_id, []).append(where.partition)
        return tuple((topic_id, tuple(numbers)) for topic_id, numbers in found.items())

    # ---- answers --------------------------------------------------------------------------------------------------

    def _on_answer(
        self, response: ConsumerGroupHeartbeatResponse | None, error: BarnabasError | None, now_ms: int
    ) -> None:
        if response is not None and not response.error_code:
            self._on_heard(response)
            return
        self._wait_a_little(now_ms)
        self.heartbeats.later(self._retry_at_ms)
        if response is None:
            assert error is not None
            if not error.retriable:
                self._refused(_missing(error))
            return
        code = response.error_code
        told = self._coordinator.heard(code, "ConsumerGroupHeartbeat", now_ms)
        if code == ErrorCode.FENCED_INSTANCE_ID or (code in _LOST and self.in_generation):
            self._lose(code)
        elif code not in _AGAIN:
            detail = "; ".join(filter(None, (response.error_message, _ADVICE.get(ErrorCode(code)))))
            self._refused(KafkaError(code, f"group {self.config.group_id}: {detail}") if detail else told)
        self._on_change()

    def _refused(self, error: BarnabasError | None) -> None:
        """The application is told. A member stays one, and asks again; who joins waits for the application."""
        self.error = error
        if self.state is State.JOINING:
            self.state = State.OUT
        self._on_change()

    def _lose(self, code: int) -> None:
        self._forget()
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.lost = True
            self._fence(code)
        else:
            self._miss(f"the coordinator said {ErrorCode(code).name}")

    def _on_heard(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._failures, self.error = 0, None
        self._coordinator.clear()
        joins = self.state is State.JOINING
        if response.member_epoch != self._generation:
            log.debug("group %s: member %s at epoch %d", self.config.group_id, self._member_id, response.member_epoch)
        self._member_id = response.member_id or self._member_id
        self._generation = response.member_epoch
        if response.assignment is not None:
            self._target = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            log.debug("group %s: its share is %s", self.config.group_id, self._target)
        if joins:
            self.state, self.share = State.TAKING, self._named()
            self._on_change()
        else:
            self._compare()
            if response.assignment is not None and self.state is State.STABLE:
                self.heartbeats.acknowledge()

    # ---- the share --------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """What the coordinator said last beside what is owned; not while it does not know what is wanted."""
        share, owned = self._named(), self._wishes.owned()
        if self.state is State.TAKING:
            known = {*share, *owned}
            self.share = [where for where in self.share if where in known]
        elif (
            self.state is State.STABLE
            and self.rejoin is None
            and set(share) != set(owned)
            and self.heartbeats.said(*self._wanted())
        ):
            self.state, self.share = State.TAKING, share
            self._on_change()

    def _named(self) -> list[TopicPartition]:
        """The share by names; metadata is asked for topics that it has not told of yet."""
        told, owned = self._metadata.cluster.topic_names, {where.topic for where in self._wishes.owned()}
        kept = {topic_id: name for topic_id, name in self._names.items() if name in owned}
        named = {each: told.get(each) or self._names.get(each) for each in self._target}
        self._names = {**kept, **{each: name for each, name in named.items() if name}}
        self._unknown = None in named.values()
        if self._unknown:
            self._metadata.request_update()
        share = {TopicPartition(name, number) for each, name in named.items() if name for number in self._target[each]}
        return sorted(share)


def new_id(random: Random) -> str:
    """A name nobody else has: 128 bits as Kafka writes an id."""
    bits = b"".join(int(random() * 2**32).to_bytes(4) for _ in range(4))
    name = urlsafe_b64encode(bits).decode().rstrip("=")
    return name.replace("-", "A", 1) if name.startswith("-") else name  # which would look like an option


def _missing(error: BarnabasError) -> BarnabasError:
    """What a broker lacks that does not know this protocol, or patterns in it."""
    if isinstance(error, FeatureMissing):
        return FeatureMissing(f"{error}; {_ADVICE[ErrorCode.UNSUPPORTED_VERSION]}")
    if isinstance(error, EncodeError):
        told = "this broker matches no patterns; subscribe with re.compile(...), which the client matches itself"
        return FeatureMissing(f"{told} ({error})")
    return error
