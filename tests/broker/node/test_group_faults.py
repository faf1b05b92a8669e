"""Stories of groups on a disk that fails: kills and power failures at any moment, a full disk, compaction, topics anew.

What was answered without an error is there after every start: offsets, and members of a generation. A commit that was
not answered may be there; nothing else may. What is served is what a restart finds.
"""

from __future__ import annotations

import random

import pytest

from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.memory_disk.faults import Names
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.heartbeat import HeartbeatRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.requests.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.node.world import Answer, World

GROUPS = 6
TOPICS = ("t", "u")
Key = tuple[str, str, int]


class Story:
    """One data directory through several lives. `sent` are commits that are in doubt, `kept` the last one answered."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.power = chance.random() < 0.5
        faults = Faults(
            chance.randrange, names=chance.choice(list(Names)), blocks=chance.random() < 0.5, unfinished=True
        )
        self.faults = faults
        self.world = World(
            disk=MemoryDisk(faults=faults, late=chance.random() < 0.3),
            offsets_topic_num_partitions=2,
            log_roll_ms=1000,
            group_initial_rebalance_delay_ms=0,
            log_flush_interval_messages=1 if self.power else 2**63 - 1,
            log_cleaner_min_cleanable_ratio=0.01,
            log_cleaner_backoff_ms=1000,
            log_cleaner_delete_retention_ms=chance.choice([0, 86_400_000]),
        )
        self.offset = 0
        self.kept: dict[Key, int] = {}
        self.sent: dict[Key, list[int]] = {}
        self.members: dict[str, tuple[str, int]] = {}
        self.open: list[tuple[Answer, dict[Key, int]]] = []
        self.killed = False
        for topic in TOPICS:
            self.world.create(topic, 2)
        self.find()

    def find(self) -> None:
        for _ in range(100):
            told = self.world.ask(FindCoordinatorRequest(coordinator_keys=["g0"]), 4).coordinators[0]
            if not told.error_code:
                return
            self.world.advance(1000)
        raise AssertionError("no coordinator")

    # What happens

    def commit(self) -> None:
        chance = self.chance
        group, topic = f"g{chance.randrange(GROUPS)}", chance.choice(TOPICS)
        member_id, generation = self.members.get(group, ("", -1))
        self.offset += 1
        parts = chance.sample([0, 1], chance.randint(1, 2))
        keys = {(group, topic, part): self.offset for part in parts}
        wanted = [OffsetCommitRequestPartition(part, self.offset) for part in parts]
        request = OffsetCommitRequest(
            group, generation, member_id, topics=[OffsetCommitRequestTopic(topic, partitions=wanted)]
        )
        for key in keys:
            self.sent.setdefault(key, []).append(self.offset)
        self.open.append((self.world.send(request, 8), keys))
        if chance.random() < 0.5:
            self.world.settle()
        self.look()

    def look(self) -> None:
        """Take what was answered meanwhile."""
        for answer, keys in list(self.open):
            if not answer.done:
                continue
            self.open.remove((answer, keys))
            for topic in answer.response.topics:
                for part in topic.partitions:
                    key = next(key for key in keys if key[2] == part.partition_index)
                    if not part.error_code:
                        self.kept[key] = keys[key]
                        self.sent[key] = [one for one in self.sent[key] if one > keys[key]]
                    elif part.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                        self.sent[key].remove(keys[key])

    def join(self) -> None:
        group = f"g{self.chance.randrange(GROUPS)}"
        if group in self.members:
            return
        protocols = [JoinGroupRequestProtocol("range", b"m")]
        joined = self.world.send(JoinGroupRequest(group, 1_800_000, 60_000, "", None, "test", protocols), 3)
        self.world.settle()
        self.look()
        if not joined.done or joined.response.error_code:
            return
        member_id, generation = joined.response.member_id, joined.response.generation_id
        given = [SyncGroupRequestAssignment(member_id, b"a")]
        synced = self.world.send(SyncGroupRequest(group, generation, member_id, assignments=given), 3)
        self.world.settle()
        self.look()
        if synced.done and not synced.response.error_code:
            self.members[group] = member_id, generation

    def made_anew(self) -> None:
        self.world.settle()
        self.look()
        topic = self.chance.choice(TOPICS)
        if self.world.delete(topic):
            return
        if self.chance.random() < 0.5:
            self.world.core.run_job_step(self.world.now_ms)
        for some in (self.kept, self.sent):
            for key in [key for key in some if key[1] == topic]:
                del some[key]
        if self.chance.random() < 0.3:
            self.end()
        self.faults.refuse(1, 0)
        self.world.create(topic, 2)

    def full(self) -> None:
        self.faults.refuse(self.chance.randint(1, 6), self.chance.randint(1, 8))

    def time(self) -> None:
        self.world.advance(self.chance.choice([10, 1000, 20_000]))
        self.look()

    def some_steps(self) -> None:
        for _ in range(self.chance.randrange(30)):
            self.world.core.run_job_step(self.world.now_ms)
            if self.chance.random() < 0.5 and self.world.disk.deliver():
                self.world.core.wake(self.world.now_ms)
        self.look()

    def end(self) -> None:
        """The process or the machine ends, and all is read back."""
        self.look()
        self.faults.refuse(1, 0)
        if self.power:
            self.world.disk.crash()
        elif self.chance.random() < 0.2:
            self.world.settle()
            self.look()
            self.world.stop()
        else:
            self.world.disk.kill()
        self.open.clear()
        self.world.core = self.world._new_core()
        if self.chance.random() < 0.4:  # and once more in the midst of the start
            self.world.core.start(self.world.now_ms)
            self.some_steps()
            if self.power:
                self.world.disk.crash()
            else:
                self.world.disk.kill()
            self.world.core = self.world._new_core()
        self.world.start()
        self.find()
        self.check()

    def check(self) -> None:
        found: dict[Key, int] = {}
        for number in range(GROUPS):
            asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(f"g{number}", topics=None)])
            told = self.world.ask(asked, 8).groups[0]
            assert not told.error_code, ErrorCode(told.error_code)
            for topic in told.topics:
                for part in topic.partitions if topic.name in self.world.core.image.topics else ():
                    found[f"g{number}", topic.name, part.partition_index] = part.committed_offset
        for key in found.keys() | self.kept.keys():
            may = {self.kept.get(key, -1), *self.sent.get(key, [])}
            assert found.get(key, -1) in may, f"{key}: {found.get(key, -1)} is there, {may} may be"
            if key in found:
                self.kept[key] = found[key]
        self.sent.clear()
        for group, (member_id, generation) in list(self.members.items()):
            code = self.world.ask(HeartbeatRequest(group, generation, member_id), 3).error_code
            assert not code, (group, ErrorCode(code))

    def play(self) -> None:
        deeds = (
            [self.commit] * 12 + [self.join] * 2 + [self.made_anew, self.full, self.time, self.time, self.some_steps]
        )
        for _ in range(self.chance.randint(2, 4)):
            for _ in range(self.chance.randint(5, 60)):
                self.chance.choice(deeds)()
            self.end()


@pytest.mark.parametrize("seed", range(12))
def test_what_was_answered_is_there_after_every_start(seed: int) -> None:
    Story(seed).play()
