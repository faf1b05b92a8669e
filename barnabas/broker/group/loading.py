"""A shard comes up: its partition's log is read from its start, in bounded steps. Source: `CoordinatorLoaderImpl`.

What cannot be read is named in the log, passed over, and lost: a batch whose checksum does not fit, a record that is
none, one that fits to nothing. The rest goes on. What the disk did not give back as it was written is not lost where
another replica is in sync: that one is to lead, and nothing is told before it does. Groups of other protocols (share,
streams), and records of later releases, are left where they are and counted in one line; so are groups that belong to
another partition (the topic had fewer, or somebody has written them here): nobody asks here for these, and they would
be told and counted twice. Apache Kafka loads and lists them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group
from barnabas.broker.group.membership import weigh
from barnabas.broker.group.placement import partition_of
from barnabas.broker.group.rebalance import keep_alive, prepare
from barnabas.broker.group.records import OtherRecord, decode
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import GroupState, Status
from barnabas.broker.jobs import Job
from barnabas.broker.log import Log
from barnabas.broker.log.salvage import salvage
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records import Record

MEMBERS_PER_STEP: Final = 500
NAMED_MAX: Final = 100
"""Records of one log that are named when they are passed over; a batch may hold a million of them."""

logger = logging.getLogger(__name__)


class Loader:
    """Reads one log into one shard, until the shard's time is over (`cancelled`).

    `damaged` is the first offset that the disk did not give back as it was written; -1 if it gave all.
    """

    def __init__(self, shard: Shard, log: Log) -> None:
        self._shard = shard
        self._log = log
        self._others = 0
        self._unreadable = 0
        self._elsewhere = 0
        self._such_as = ""
        self._read_to = 0
        self.damaged = -1
        self.cancelled = False

    def run(self) -> Job[None]:
        """Read it all; the shard is active when this has ended, or has failed.

        Raises:
            OSError: the disk failed.
        """
        shard = self._shard
        self._read_to = self._log.log_start_offset
        steps = salvage(self._log, self._take, self._passed_over, self._found_damage)
        try:
            for token in steps:
                yield token
                if self.cancelled:
                    steps.close()
                    return
        except OSError:
            self._found_damage(self._read_to)
            raise
        if self._unreadable > NAMED_MAX:
            logger.error("%s: %d records in all are passed over", shard.key, self._unreadable)
        if self._others:
            logger.warning(
                "%s: %d records are of other groups or releases and stay as they are", shard.key, self._others
            )
        if self._elsewhere:
            logger.warning(
                "%s: %d records stay as they are, for their groups belong to other partitions (as %r)",
                shard.key,
                self._elsewhere,
                self._such_as,
            )
        shard.end = self._log.log_end_offset

    def _found_damage(self, offset: int) -> None:
        if self.damaged < 0:
            self.damaged = offset

    def _take(self, header: BatchHeader, records: Sequence[Record]) -> None:
        self._read_to = max(self._read_to, header.base_offset)
        if header.is_control:
            return
        for record in records:
            try:
                decoded = decode(record.key, record.value)
                if self._is_here(decoded.group_id):
                    self._shard.replay(decoded)
            except OtherRecord:
                self._others += 1
            except ProtocolError as fault:
                self._unreadable += 1
                if self._unreadable <= NAMED_MAX:
                    logger.error(
                        "%s: the record at offset %d is passed over: %s", self._shard.key, record.offset, fault
                    )

    def _is_here(self, group_id: str) -> bool:
        """Whether a group belongs to this partition; known of those that are there already."""
        shard = self._shard
        if group_id in shard.groups:
            return True
        offsets_topic = shard.shared.topics.get(shard.key.topic)
        if offsets_topic is None or partition_of(group_id, offsets_topic[1]) == shard.key.partition:
            return True
        self._elsewhere += 1
        self._such_as = self._such_as or group_id
        return False

    def _passed_over(self, first: int, last: int, reason: str) -> None:
        logger.error("%s: the records from offset %d to %d are passed over: %s", self._shard.key, first, last, reason)


def activate(shard: Shard, now_ms: int) -> Job[None]:
    """All is read: serve from now on. Every member has a whole session to be heard of."""
    shard.status = Status.ACTIVE
    size_max = shard.shared.config.group_max_size
    members = done = 0
    for group in list(shard.groups.values()):
        if isinstance(group, ConsumerGroup):
            from barnabas.broker.group.consumer import downgrading
            from barnabas.broker.group.consumer import members as consumer

            for one in group.members.values():
                consumer.keep_alive(shard, group, one, now_ms)
                consumer.watch_revocation(shard, group, one, now_ms)
            if downgrading.may_downgrade(shard, group, ()):  # the broker before ended in its middle
                downgrading.downgrade_in_steps(shard, group, group.target_epoch, True, now_ms)
        else:
            for member in group.members.values():
                weigh(shard, group, member)
                keep_alive(shard, group, member, now_ms)
        members += len(group.members)
        if isinstance(group, Group) and group.state is GroupState.STABLE and len(group.members) > size_max:
            logger.warning("group %s has %d members, %d are allowed", group.group_id, len(group.members), size_max)
            prepare(shard, group, now_ms)
        done += 1 + len(group.members)
        if done >= MEMBERS_PER_STEP:
            done = 0
            yield None
            if shard.status is not Status.ACTIVE:
                return  # led here no longer: its groups have given back what they held
    if shard.groups:
        logger.info("%s: %d groups with %d members are loaded", shard.key, len(shard.groups), members)
