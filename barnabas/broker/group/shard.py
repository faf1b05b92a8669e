"""One partition of `__consumer_offsets` that this broker leads: its groups, its log, and the answers it holds back.

State that is in the log changes here and nowhere else, by `replay`. `append` writes and replays, or does neither.

An answer tells of state that may not be committed yet, so it waits until the high watermark has reached the end of what
was written when it was made, at most `offsets.commit.timeout.ms`. On a broker alone that is at once, unless
`flush.messages` has the log synced first. Source: `CoordinatorRuntime.CoordinatorContext`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.config.keys import LONG_MAX
from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.replaying import release_all, replay_consumer
from barnabas.broker.group.group import Group
from barnabas.broker.group.holdings import GROUP_BYTES, OFFSET_BYTES, size_of_text
from barnabas.broker.group.journals import Closed, Journal
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.records import CommitRun, encode, encode_alone, encode_commits
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shared import Shared, told_for
from barnabas.broker.group.state import Status
from barnabas.broker.group.subscriptions import note_topics
from barnabas.broker.group.values import CommittedOffset, CoordinatorRecord, GroupRecord, OffsetRecord, Prepared
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka.coordinator.offsets import commit_batch
from barnabas.protocol.records import BatchBuilder

if TYPE_CHECKING:
    from barnabas.broker.group.consumer.gathering import Gathering
    from barnabas.broker.group.consumer.rising import Rising

TOMBSTONES_MAX: Final = 250
"""Records of one operation that is done in steps: about 4 ms."""
_TOMBSTONE_BYTES: Final = 249 + 64

logger = logging.getLogger(__name__)


class _Held(NamedTuple):
    end: int
    deadline_ms: int
    reply: Reply
    response: Any


class Shard:
    """A partition's groups. `epoch` is the leader epoch it is led in; `end` the offset after what it wrote last."""

    __slots__ = (
        "_held",
        "_held_alarm",
        "_reached",
        "end",
        "epoch",
        "gatherings",
        "groups",
        "journal",
        "key",
        "rising",
        "shared",
        "status",
    )

    def __init__(self, key: TopicPartition, epoch: int, journal: Journal, shared: Shared) -> None:
        self.key = key
        self.epoch = epoch
        self.journal = journal
        self.shared = shared
        self.status = Status.LOADING
        self.groups: dict[str, AnyGroup] = {}
        self.gatherings: dict[str, Gathering] = {}
        """Who waits for the beginning of a group."""
        self.rising: list[Rising] = []
        """Heartbeats that wait to be written with others, to the end of the loop's round."""
        self.end = 0
        self._reached = 0
        """The high watermark, as it was seen last."""
        self._held: deque[_Held] = deque()
        self._held_alarm = Alarm(self._give_up)

    # Writing

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int) -> int:
        """Write records as one batch and replay them; else nothing is changed.

        Returns:
            0, or the error that the client is to be told.
        """
        if self.shared.ahead.waiting:
            self.shared.ahead.write(now_ms)
        wall_ms = self.shared.wall_clock.now_ms()
        first = records[0]
        try:
            if len(records) == 1 and type(first) is not Prepared and not self._codec:
                batch = encode_alone(first, wall_ms)
            else:
                batch = self._batch_of(records, wall_ms)
            self.end = self.journal.write(batch, wall_ms, now_ms)
        except KafkaError as fault:
            return self._refused(fault)
        for record in records:
            self.replay(record)
        return 0

    def append_in_place(self, record: OffsetRecord, now_ms: int) -> int:
        """As `append`, of a commit without metadata and expiry in place of another such one, at the time it says."""
        committed = record.committed
        if self.shared.ahead.waiting or committed is None or self._codec:
            return self.append((record,), now_ms)
        group_id, (topic, partition), _ = record
        offset, leader_epoch, _, wall_ms, _, topic_id = committed
        batch = commit_batch(group_id, topic, partition, offset, leader_epoch, wall_ms, topic_id, wall_ms)
        try:
            self.end = self.journal.write(batch, wall_ms, now_ms)
        except KafkaError as fault:
            return self._refused(fault)
        self.groups[group_id].offsets[record.key] = committed
        return 0

    def _refused(self, fault: KafkaError) -> int:
        code = told_for(fault.code)
        logger.warning("%s took no records: %s; clients are told %d", self.key, fault, code)
        return code

    def write_replayed(self, runs: Sequence[CommitRun], now_ms: int) -> bool:
        """Write commits as one batch that are replayed already; False: the log did not take it."""
        wall_ms = self.shared.wall_clock.now_ms()
        try:
            self.end = self.journal.write(encode_commits(runs, wall_ms), wall_ms, now_ms)
        except KafkaError:
            return False
        assert not self.behind, "who is answered ahead has nothing to wait for"
        return True

    def _batch_of(self, records: Sequence[CoordinatorRecord], wall_ms: int) -> bytearray:
        first, rest = records[0], records
        if type(first) is Prepared:
            builder, rest = first.builder, records[1:]
        else:
            builder = self.new_batch()
        for record in rest:
            if not builder.try_append(wall_ms, *encode(record)):
                detail = f"{len(records)} records of one operation do not fit into a batch"
                raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, detail)
        return builder.build()

    def new_batch(self) -> BatchBuilder:
        """For records that are to be appended together, or not at all."""
        return BatchBuilder(self.journal.batch_bytes_max, self._codec)

    @property
    def _codec(self) -> int:
        return self.shared.config.offsets_topic_compression_codec

    def write(self, records: Sequence[CoordinatorRecord], now_ms: int) -> None:
        """Write records as one batch and replay them.

        Raises:
            KafkaError: what the client is to be told; nothing is changed.
        """
        code = self.append(records, now_ms)
        if code:
            raise KafkaError(code)

    def answer(self, reply: Reply, response: Any, now_ms: int) -> None:
        """Answer, once all that was written so far is committed."""
        if (self._reached >= self.end and not self._held) or not self.behind:  # the first is so of nearly all
            reply.send(response)
            return
        if self.is_left:
            reply.refuse(ErrorCode.NOT_COORDINATOR)
            return
        deadline_ms = now_ms + self.shared.config.offsets_commit_timeout_ms
        if not self._held:
            self.shared.alarms.set(self._held_alarm, deadline_ms)
            self.journal.listen(True)
        self._held.append(_Held(self.end, deadline_ms, reply, response))

    def committed(self) -> None:
        """The high watermark rose: answers that waited for it leave."""
        held = self._held
        high_watermark = self.journal.high_watermark
        while held and held[0].end <= high_watermark:
            one = held.popleft()
            one.reply.send(one.response)
        self._rest()

    def _rest(self) -> None:
        """Where nobody waits, no append has to tell of itself."""
        if not self._held:
            self.shared.alarms.stop(self._held_alarm)
            self.journal.listen(False)

    def _give_up(self, now_ms: int) -> None:
        held = self._held
        code = told_for(ErrorCode.REQUEST_TIMED_OUT)
        while held and held[0].deadline_ms <= now_ms:
            held.popleft().reply.refuse(code)
        if held:
            self.shared.alarms.set(self._held_alarm, held[0].deadline_ms)
        self._rest()

    @property
    def behind(self) -> bool:
        """Whether something was written that is not committed yet."""
        if self._reached < self.end:  # it never goes back while this broker leads
            self._reached = self.journal.high_watermark
        return bool(self._held) or self._reached < self.end

    @property
    def writes_at_once(self) -> bool:
        """Whether what is written now is committed with that, and commits are written as they come."""
        return not self._codec and self.journal.commits_at_once and not self.behind

    @property
    def held(self) -> int:
        """Answers that wait for the high watermark."""
        return len(self._held)

    # What the log says

    def replay(self, record: CoordinatorRecord) -> None:
        """Be as a record says, which is in the log."""
        if type(record) is OffsetRecord:
            self._replay_offset(record)
        elif type(record) is GroupRecord:
            self._replay_group(record)
        elif type(record) is Prepared:
            self.put(record.group)
            for address, size in record.held.items():
                self.shared.holdings.take(address, size)
        else:
            replay_consumer(self, record)  # type: ignore[arg-type]

    def replay_in_place(self, record: OffsetRecord) -> None:
        """As `replay`, of a commit in place of one that takes as much memory."""
        group_id, key, committed = record
        assert committed is not None
        self.groups[group_id].offsets[key] = committed

    def _replay_offset(self, record: OffsetRecord) -> None:
        group_id, key, committed = record
        group = self.groups.get(group_id)
        holdings = self.shared.holdings
        if committed is None:
            gone = None if group is None else group.offsets.pop(key, None)
            if gone is not None and group is not None:
                holdings.take(group.address, -size_of_offset(key, gone))
            return
        if group is None:
            group = self.put(Group(group_id))
        size = growth_of(key, group.offsets.get(key), committed)
        group.offsets[key] = committed
        if size:
            holdings.take(group.address, size)

    def _replay_group(self, record: GroupRecord) -> None:
        group_id, stored = record
        group = self.groups.get(group_id)
        if stored is None:
            if isinstance(group, Group):
                self.drop(group)
            return
        # While the log is read, a later record takes the place of an earlier one.
        if self.status is not Status.ACTIVE or not isinstance(group, Group):
            group = Group(group_id)
            self.put(group)
        group.adopt(stored)
        note_topics(group, self.shared.holdings)

    def put(self, group: AnyGroup) -> AnyGroup:
        """A group more, or one in place of another, whose offsets it has from now on."""
        before = self.groups.get(group.group_id)
        if before is None:
            self.shared.holdings.take(group.address, size_of_group(group))
        else:
            if isinstance(before, ConsumerGroup):
                release_all(self, before)
                self.shared.holdings.take(before.address, -before.pattern_bytes)
            group.offsets, group.address = before.offsets, before.address
            self.shared.holdings.take(group.address, size_of_group(group) - size_of_group(before))
        self.groups[group.group_id] = group
        return group

    def drop(self, group: AnyGroup) -> None:
        """The log says that a group is gone; offsets that it still has are then those of nobody's group."""
        if group.offsets:
            self.put(Group(group.group_id))
        else:
            self.remove(group)

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """A group of the consumer protocol.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        kind = "not found" if group is None else "is not a consumer group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {kind}.")

    def claim(self, group: AnyGroup, address: str) -> None:
        """A group was made for this address: what it takes is of its share."""
        size = size_with_offsets(group)
        self.shared.holdings.take(group.address, -size)
        group.address = address
        self.shared.holdings.take(address, size)

    def remove(self, group: AnyGroup) -> None:
        """A group is no more; nobody waits in it."""
        del self.groups[group.group_id]
        self.shared.holdings.take(group.address, -size_with_offsets(group))

    def tombstones_at_once(self, group_id: str) -> int:
        """How many offsets of a group can be deleted in one batch, and in one step."""
        return max(1, min(TOMBSTONES_MAX, self.journal.batch_bytes_max // (_TOMBSTONE_BYTES + 4 * len(group_id))))

    # The end

    def leave(self) -> tuple[deque[AnyGroup], deque[Reply]]:
        """Led here no longer: nobody finds its groups, and their alarms do nothing more.

        Whoever still works with it, and has let others have their turn, writes nothing and answers nothing but
        NOT_COORDINATOR: its offsets are being given back, and this broker may lead the partition again by then.

        Returns:
            the groups that it had; the replies to those who wait for what was written, or for a group to begin.
        """
        self.status = Status.FAILED
        groups, self.groups = deque(self.groups.values()), {}
        held, self._held = self._held, deque()
        self._rest()
        self.journal = Closed(self.journal.batch_bytes_max)
        self.end = LONG_MAX  # which is never committed
        replies = deque(one.reply for one in held)
        gatherings, self.gatherings = self.gatherings, {}
        for gathering in gatherings.values():
            self.shared.alarms.stop(gathering.alarm)
            replies += gathering.take_replies()
        return groups, replies

    @property
    def is_left(self) -> bool:
        """Whether it is led here no longer; what it was to do with groups that it had is not to be done."""
        return self.status is Status.FAILED


def size_of_group(group: AnyGroup) -> int:
    """Bytes that a group takes, without members and offsets."""
    return GROUP_BYTES + size_of_text(group.group_id) + (group.said_bytes if isinstance(group, Group) else 0)


def size_with_offsets(group: AnyGroup) -> int:
    """Bytes that a group takes, without members."""
    patterns = group.pattern_bytes if isinstance(group, ConsumerGroup) else 0
    return size_of_group(group) + patterns + sum(size_of_offset(*each) for each in group.offsets.items())


def size_of_offset(key: TopicPartition, committed: CommittedOffset) -> int:
    """Bytes that a committed offset takes. Its topic's name is one that the metadata has."""
    return OFFSET_BYTES + size_of_text(committed.metadata)


def growth_of(key: TopicPartition, before: CommittedOffset | None, committed: CommittedOffset) -> int:
    """Bytes that a committed offset takes more than the one before it; nearly always none."""
    if before is None:
        return size_of_offset(key, committed)
    same = before.metadata == committed.metadata
    return 0 if same else size_of_offset(key, committed) - size_of_offset(key, before)
