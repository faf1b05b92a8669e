"""Members of both protocols that come, share, go silent, restart and lose answers, over a log that refuses at times.

What holds at every moment:

- A partition is with one member at most: by the coordinator's account, and by what its members read.
- A commit of a member that was fenced, or of a partition that it does not have, is refused.
- What the log says, compacted or not, is all that is in memory, and what members take is counted.
- Left in peace, all obedient members have what they are to have, and all of it is theirs.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.broker.group.consumer import assigning, preparing, upgrading
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.replaying import size_of_member, size_of_patterns
from barnabas.broker.group.deleting import delete_group
from barnabas.broker.group.group import Group
from barnabas.broker.group.holdings import NAME_BYTES, Holdings
from barnabas.broker.group.membership import size_of_member as size_of_classic
from barnabas.broker.group.membership import size_of_pending
from barnabas.broker.group.shard import size_of_group, size_of_offset
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.group.consumer.world import ConsumerWorld, Partitions

CLIENTS = 4
SESSION_MS = 45_000
REFUSED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR)
_NO_COMMIT = (
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION,
    *REFUSED,
)
WANTS: list[list[str]] = [["t"], ["t", "u"], ["u"], []]


@dataclass
class Client:
    """One member as it sees itself. Odd ones are static, the last one has a pattern."""

    name: str
    instance: str | None
    lives: int = 0
    epoch: int = 0
    told: Partitions = field(default_factory=dict)
    owned: Partitions = field(default_factory=dict)
    in_doubt: bool = False
    """An answer was lost, after which a client says everything again, and is told everything."""

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"

    def forget(self) -> None:
        """It has nothing any more, and comes anew."""
        self.epoch, self.told, self.owned = 0, {}, {}


class Members(RuleBasedStateMachine):
    """Plays the members; the shard is real, its log a list."""

    @initialize(
        interval_ms=st.sampled_from([0, 1000]), assignor=st.sampled_from(["uniform", "range"]), large=st.booleans()
    )
    def begin(self, interval_ms: int, assignor: str, large: bool) -> None:
        """A large group is converted, and its targets are computed and written, while others do something else."""
        self.patches = ExitStack()
        if large:
            self.patches.enter_context(patch.object(upgrading, "MEMBERS_AT_ONCE", 0))
            self.patches.enter_context(patch.object(preparing, "WORK_PER_STEP", 0))
            for name in ("WORK_AT_ONCE", "WORK_PER_BATCH"):
                self.patches.enter_context(patch.object(assigning, name, 0))
        self.world = ConsumerWorld(
            group_consumer_assignment_interval_ms=interval_ms,
            group_consumer_assignors=(assignor,),
            group_initial_rebalance_delay_ms=0,
        )
        self.world.topics.have("u", 3)
        self.clients = [Client(f"c{number}", f"i{number}" if number % 2 else None) for number in range(CLIENTS)]
        self.wants = [WANTS[0] for _ in range(CLIENTS)]

        self.world.holds_jobs = large

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            self.patches.close()

    @rule(steps=st.integers(1, 4))
    def go_on_with_a_job(self, steps: int) -> None:
        while self.world.jobs and steps:
            self.world.step_job()
            steps -= 1

    # What members do

    @rule(number=st.integers(0, CLIENTS - 1), lost=st.booleans(), says=st.booleans())
    def beat(self, number: int, lost: bool, says: bool) -> None:
        """A heartbeat, which says what the member owns if it says something; its answer may be lost."""
        client = self.clients[number]
        joins = client.epoch == 0
        if joins:
            client.owned = {}
        everything = joins or client.in_doubt
        pattern = "t|u" if number == CLIENTS - 1 else None
        told = self.world.beat(
            client.member_id,
            client.epoch,
            topics=None if not everything else self.wants[number] if pattern is None else [],
            pattern=pattern if everything else None,
            owned=client.owned if says or everything else None,
            instance=client.instance,
            rebalance_ms=30_000 if everything else -1,
        )
        if told.error_code in REFUSED:
            return
        if told.error_code:
            expected = (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            assert told.error_code in expected, told
            client.forget()
            return
        client.in_doubt = lost
        if lost:
            return
        client.epoch = told.member_epoch
        given = self.world.given(told)
        if given is not None:
            client.told = given

    @rule(number=st.integers(0, CLIENTS - 1))
    def take_what_was_told(self, number: int) -> None:
        """The member reads what it was told, and nothing else any more."""
        self.clients[number].owned = {name: list(numbers) for name, numbers in self.clients[number].told.items()}

    @rule()
    def all_beat(self) -> None:
        """Everybody is heard of; who reads nothing begins to, and who is to give something up has not done so yet."""
        for number, client in enumerate(self.clients):
            self.beat(number, False, True)
            if client.epoch > 0 and not client.owned:
                self.take_what_was_told(number)

    @rule(number=st.integers(0, CLIENTS - 1), wants=st.sampled_from(WANTS))
    def want(self, number: int, wants: list[str]) -> None:
        client = self.clients[number]
        self.wants[number] = wants
        if client.epoch > 0 and number != CLIENTS - 1:
            told = self.world.beat(client.member_id, client.epoch, topics=wants, instance=client.instance)
            if not told.error_code:
                client.epoch = told.member_epoch
                given = self.world.given(told)
                client.told = client.told if given is None else given

    @rule(number=st.integers(0, CLIENTS - 1), for_a_while=st.booleans())
    def leave(self, number: int, for_a_while: bool) -> None:
        client = self.clients[number]
        if client.epoch <= 0:
            return
        epoch = -2 if for_a_while and client.instance is not None else -1
        told = self.world.beat(client.member_id, epoch, instance=client.instance)
        if told.error_code not in REFUSED:
            client.lives += 1
            client.forget()

    @rule(number=st.integers(0, CLIENTS - 1))
    def die(self, number: int) -> None:
        """Nobody hears of it again; who comes after it has another id."""
        self.clients[number].lives += 1
        self.clients[number].forget()

    @rule(number=st.integers(0, CLIENTS - 1), partition=st.integers(0, 3), back=st.integers(0, 2))
    def commit(self, number: int, partition: int, back: int) -> None:
        client = self.clients[number]
        epoch = client.epoch - back
        if epoch <= 0:
            return
        group = self.world.shard.groups.get("g")
        member = group.members.get(client.member_id) if isinstance(group, ConsumerGroup) else None
        try:
            self.world.commit({partition: 1}, member_id=client.member_id, generation=epoch)
        except KafkaError as fault:
            self.must_be(fault, *_NO_COMMIT)
        else:
            assert isinstance(group, ConsumerGroup), "a member of no group has committed"
            assert member is not None, "one that was fenced has committed"
            has = {**member.current.revoking, **member.current.assigned}
            topic_id = self.world.id_of("t")
            assert epoch == member.current.epoch or has[topic_id][partition] <= epoch

    @rule(classic=st.booleans())
    def come_and_go_as_a_classic_member(self, classic: bool) -> None:
        """It joins with an id of its own as far as it can, and leaves at once, or is never heard of again."""
        try:
            told = self.world.classic("", version=3, session_ms=10_000)
        except AssertionError:
            return
        if not told.waits and told.error == 0 and classic:
            self.world.leave(told.response.member_id)

    @rule(ms=st.sampled_from([1, 1000, 9000, 20_000, 46_000]))
    def let_time_pass(self, ms: int) -> None:
        self.world.advance(ms)

    # What else happens

    @rule(partitions=st.integers(3, 5))
    def grow(self, partitions: int) -> None:
        known = self.world.topics.get("u")
        self.world.topics.have("u", max(partitions, 0 if known is None else known[1]))

    @rule()
    def lose_a_topic(self) -> None:
        """Nobody reads it any more: one of that name that comes later is another."""
        if self.world.topics.get("u") is not None:
            self.world.topics.lose("u")
            for client in self.clients:
                client.owned.pop("u", None)
                client.told.pop("u", None)

    @rule(number=st.integers(0, CLIENTS - 1), ms=st.sampled_from([0, 3000]))
    def refuse_for_a_while(self, number: int, ms: int) -> None:
        self.world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
        self.leave(number, False)
        self.beat((number + 1) % CLIENTS, False, True)
        self.world.advance(ms)
        self.world.journal.fault = None
        self.world.advance(1000)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule()
    def delete(self) -> None:
        try:
            for _ in delete_group(self.world.shard, "g", self.world.now_ms):
                pass
        except KafkaError as fault:
            self.must_be(fault, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND)

    @rule()
    def come_to_rest(self) -> None:
        """All come, and obey until nothing changes: each wanted partition is with one of those who want it."""
        for _ in range(14):
            for number, client in enumerate(self.clients):
                self.beat(number, False, True)
                if client.epoch > 0:
                    self.take_what_was_told(number)
            self.world.end_jobs()
            self.world.advance(5000)
        group = self.world.consumers()
        ours = {client.member_id: client for client in self.clients if client.epoch > 0}
        if group.members.keys() != ours.keys():
            return  # static ones that died without a word are waited for until their sessions end
        assert group.state.value == "Stable"
        has = {member_id: self.world.has(member_id) for member_id in group.members}
        assert has == {member_id: client.owned for member_id, client in ours.items()}
        wanted = set().union(*(group.wanted(one.subscription) for one in group.members.values()))
        there = {(name, n) for name in wanted if (known := self.world.topics.get(name)) for n in range(known[1])}
        assert {(name, n) for one in has.values() for name, numbers in one.items() for n in numbers} == there

    def must_be(self, fault: KafkaError, *codes: ErrorCode) -> None:
        """A refusal of a kind that may come."""
        assert fault.code in codes, fault

    # What holds

    @invariant()
    def each_partition_is_with_one_member(self) -> None:
        group = self.world.shard.groups.get("g")
        if not isinstance(group, ConsumerGroup):
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in group.members.items():
            for given in (member.current.assigned, member.current.revoking):
                for one in [(topic_id, number) for topic_id, numbers in given.items() for number in numbers]:
                    assert owners.setdefault(one, member_id) == member_id, "with two members"
        counted = {(topic_id, n): who for topic_id, some in group.owners.items() for n, who in some.items()}
        assert counted == owners
        seen: dict[tuple[str, int], str] = {}
        for client in self.clients:
            member_there = group.members.get(client.member_id)
            if member_there is None or client.epoch <= 0:
                continue
            for name, read in client.owned.items():
                for each in read:
                    assert seen.setdefault((name, each), client.name) == client.name, "two members read it"

    @invariant()
    def the_log_says_all(self) -> None:
        """As it is, and as compaction leaves it: the last record of each key, the tombstones too or gone."""
        written = self.world.journal.records
        last = {key: number for number, (key, _) in enumerate(written)}
        compacted = [written[number] for number in sorted(last.values())]
        for records in (written, compacted, [each for each in compacted if each[1] is not None]):
            self.is_the_same(records)

    def is_the_same(self, records: list[Any]) -> None:
        other = ConsumerWorld()
        other.journal.records, other.topics = records, self.world.topics
        other.restart()
        groups, found = self.world.shard.groups, other.shard.groups
        assert groups.keys() == found.keys()
        for group_id, group in groups.items():
            again = found[group_id]
            assert type(again) is type(group)
            assert again.offsets == group.offsets
            if isinstance(group, ConsumerGroup) and isinstance(again, ConsumerGroup):
                for name in ("epoch", "metadata_hash", "target_epoch", "targets", "owners", "static", "names"):
                    assert getattr(again, name) == getattr(group, name), name
                assert (again.patterns, again.resolved) == (group.patterns, group.resolved)
                assert {one: (m.subscription, m.current) for one, m in again.members.items()} == {
                    one: (m.subscription, m.current) for one, m in group.members.items()
                }

    @invariant()
    def counts_are_right(self) -> None:
        holdings = Holdings()
        for group in self.world.shard.groups.values():
            holdings.take(group.address, size_of_group(group))
            for key, committed in group.offsets.items():
                holdings.take(group.address, size_of_offset(key, committed))
            if isinstance(group, Group):
                consumed = sum(NAME_BYTES + len(name) for name in group.topics or ())
                assert group.said_bytes == len(group.protocol_type or "") + consumed
                for member in group.members.values():
                    holdings.take(member.address, size_of_classic(member))
                for member_id, pending in group.pending.items():
                    holdings.take(pending.address, size_of_pending(member_id))
                continue
            holdings.take(group.address, size_of_patterns(group.resolved))
            for member_id, one in group.members.items():
                target = group.targets.get(member_id, {})
                holdings.take(one.address, size_of_member(member_id, one.subscription, one.current, target))
        found = self.world.shard.shared.holdings
        assert (found.total, found.by_address) == (holdings.total, holdings.by_address)


Members.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestMembers = Members.TestCase
