"""Members that come, go, sync, stay silent and come back in any order, over a log that refuses or lags at times.

What holds at every moment:

- A member is told of a generation that is no older than the last it was told of.
- An assignment is told only to a member of the generation it was made for, and is what that leader gave it.
- Who waits is answered once, and in the end: nobody waits longer than the largest timeouts allow.
- What the log says is the durable part of what is in memory.
- What members, groups and offsets take is counted, and given back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.broker.group.deleting import delete_group
from barnabas.broker.group.holdings import NAME_BYTES, Holdings
from barnabas.broker.group.membership import size_of_member, size_of_pending
from barnabas.broker.group.shard import size_of_group, size_of_offset
from barnabas.broker.group.state import GroupState
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.group.world import Told, World, durable

CLIENTS = 4
ENOUGH_MS = 700_000
"""More than every timeout that a member of this model has, one after the other."""


@dataclass
class Client:
    """One member as it sees itself. Odd ones are static."""

    name: str
    instance: str | None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: list[str] = field(default_factory=list)
    assigned_in: int = -1
    joining: Told | None = None
    syncing: Told | None = None
    sync_generation: int = -1
    out: bool = True
    """It is to join (again)."""

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None


class Members(RuleBasedStateMachine):
    """Plays the members; the shard is real, its log a list."""

    @initialize(delay_ms=st.sampled_from([0, 3000]), size=st.sampled_from([2, 3, 100]))
    def begin(self, delay_ms: int, size: int) -> None:
        self.world = World(group_initial_rebalance_delay_ms=delay_ms, group_max_size=size)
        self.clients = [Client(f"c{number}", f"i{number}" if number % 2 else None) for number in range(CLIENTS)]
        self.given: dict[int, dict[str, bytes]] = {}
        self.highest = 0

    # What members do

    @rule(ms=st.sampled_from([0, 3000]))
    def go_on(self, ms: int) -> None:
        """Everybody does what a client does next."""
        for _ in range(2):  # the first join of a dynamic member only brings its id
            for number, client in enumerate(self.clients):
                if client.out:
                    self.join(number, ("a", "b"))
            self.let_time_pass(ms)
        for number, client in enumerate(self.clients):
            if not client.out and client.assigned_in != client.generation:
                self.sync(number)

    @rule(number=st.integers(0, CLIENTS - 1), protocols=st.sampled_from([("a",), ("a", "b"), ("b", "a")]))
    def join(self, number: int, protocols: tuple[str, ...]) -> None:
        client = self.clients[number]
        if client.waits:
            return
        can = tuple((name, client.name.encode()) for name in protocols)
        client.joining = self.world.join(
            client.member_id, instance=client.instance, protocols=can, client=client.name, rebalance_ms=20_000
        )
        self.hear()

    @rule(number=st.integers(0, CLIENTS - 1))
    def sync(self, number: int) -> None:
        client = self.clients[number]
        if client.waits or client.generation < 0:
            return
        assignments = {}
        if client.leads:
            assignments = {one: f"{client.generation}:{one}".encode() for one in client.members}
        client.sync_generation = client.generation
        client.syncing = self.world.sync(client.member_id, client.generation, assignments, instance=client.instance)
        self.hear()

    @rule(number=st.integers(0, CLIENTS - 1))
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        if client.generation >= 0 and not client.waits:
            code = self.world.heartbeat(client.member_id, client.generation, instance=client.instance)
            self.obey(client, code)

    @rule(number=st.integers(0, CLIENTS - 1), offset=st.integers(0, 5))
    def commit(self, number: int, offset: int) -> None:
        client = self.clients[number]
        try:
            self.world.commit({number: offset}, member_id=client.member_id, generation=client.generation)
        except KafkaError as fault:
            self.obey(client, fault.code)

    @rule(number=st.integers(0, CLIENTS - 1))
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id:
            try:
                self.world.leave(client.member_id, instance=client.instance)
            except KafkaError as fault:
                self.must_be(fault, ErrorCode.UNKNOWN_MEMBER_ID)
            self.hear()
            if not client.waits:
                self.forget(client)

    @rule(number=st.integers(0, CLIENTS - 1))
    def lose_its_memory(self, number: int) -> None:
        """The process died; who takes its place knows the instance id alone. What it waited for goes nowhere."""
        client = self.clients[number]
        self.clients[number] = Client(client.name, client.instance)

    @rule(ms=st.sampled_from([1, 500, 3000, 9000, 25_000]))
    def let_time_pass(self, ms: int) -> None:
        self.world.advance(ms)
        self.hear()

    @rule()
    def delete(self) -> None:
        try:
            for _ in delete_group(self.world.shard, "g", self.world.now_ms):
                pass
        except KafkaError as fault:
            self.must_be(fault, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR)
        else:
            self.highest = 0
        self.hear()

    # What the log does

    @rule(number=st.integers(0, CLIENTS - 1))
    def refuse_for_a_while(self, number: int) -> None:
        """The disk is full while one member leaves and all others go on."""
        self.world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
        self.leave(number)
        self.go_on(3000)
        self.world.journal.fault = None

    @rule(number=st.integers(0, CLIENTS - 1))
    def lag_for_a_while(self, number: int) -> None:
        """What is written is committed only later."""
        journal = self.world.journal
        journal.lags = True
        self.leave(number)
        self.go_on(3000)
        journal.lags = False
        journal.high_watermark = len(journal.records)
        self.world.shard.committed()
        self.hear()

    @rule()
    def restart(self) -> None:
        """Another leader: whoever waits has lost its connection."""
        self.world.restart()
        self.highest = 0
        for client in self.clients:
            client.joining = client.syncing = None

    @rule()
    def wait_to_the_end(self) -> None:
        self.world.advance(ENOUGH_MS)
        self.hear()
        assert not [client for client in self.clients if client.waits], "somebody waits for ever"
        assert "g" not in self.world.shard.groups or self.world.state is not GroupState.PREPARING or self.static_alone()

    def static_alone(self) -> bool:
        """A rebalance of static members that never come goes on until their sessions end."""
        return all(one.instance_id is not None for one in self.world.group.members.values())

    # What members hear

    def hear(self) -> None:
        for client in self.clients:
            if client.joining is not None and not client.joining.waits:
                told, client.joining = client.joining.response, None
                self.heard_join(client, told)
            if client.syncing is not None and not client.syncing.waits:
                told, client.syncing = client.syncing.response, None
                self.heard_sync(client, told)

    def heard_join(self, client: Client, told: Any) -> None:
        code = told.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = told.member_id
        elif code:
            self.obey(client, code)
        else:
            assert told.generation_id >= client.generation or client.member_id != told.member_id
            client.member_id, client.generation = told.member_id, told.generation_id
            client.leads = told.leader == told.member_id and not told.skip_assignment
            client.out = False
            client.members = [one.member_id for one in told.members]
            assert bool(client.members) == (told.leader == told.member_id), "the leader alone hears who is in"
            assert not client.members or client.member_id in client.members

    def heard_sync(self, client: Client, told: Any) -> None:
        if told.error_code:
            self.obey(client, told.error_code)
            return
        assert client.sync_generation == client.generation
        generation, _, _ = bytes(told.assignment).partition(b":")
        assert not told.assignment or int(generation) == client.generation, "an assignment of another generation"
        client.assigned_in = client.generation

    def obey(self, client: Client, code: int) -> None:
        """What a client does at an error."""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.forget(client)
        elif code == ErrorCode.ILLEGAL_GENERATION:
            client.generation, client.out = -1, True
        else:
            expected = (
                0,
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                ErrorCode.GROUP_MAX_SIZE_REACHED,
            )
            assert code in expected, ErrorCode(code)
            client.out = client.out or code == ErrorCode.REBALANCE_IN_PROGRESS

    def must_be(self, fault: KafkaError, *codes: ErrorCode) -> None:
        """A refusal of a kind that may come."""
        assert fault.code in codes, fault

    def forget(self, client: Client) -> None:
        client.member_id, client.generation, client.leads, client.out = "", -1, False, True

    # What holds

    @invariant()
    def the_durable_part_is_in_the_log(self) -> None:
        shard = self.world.shard
        other = World()
        other.journal = self.world.journal
        other.restart()
        found = durable(other.shard)
        for group_id, (stored, offsets) in durable(shard).items():
            assert offsets == found[group_id][1]
            if shard.groups[group_id].state is GroupState.STABLE:
                assert stored.generation == found[group_id][0].generation
                assert {one.member_id: one.assignment for one in stored.members} == {
                    one.member_id: one.assignment for one in found[group_id][0].members
                }

    @invariant()
    def generations_never_go_back(self) -> None:
        for group in self.world.groups:
            assert group.generation >= self.highest
            self.highest = group.generation

    @invariant()
    def who_waits_is_waited_with(self) -> None:
        parked = [one.reply.context for one in self.world.shard._held]
        for group in self.world.groups:
            for member in group.members.values():
                assert member.joining is None or group.state is GroupState.PREPARING
                assert member.syncing is None or group.state is GroupState.COMPLETING
                parked += [reply.context for reply in (member.joining, member.syncing) if reply is not None]
        told = {id(context._told) for context in parked}  # type: ignore[attr-defined]
        assert len(told) == len(parked)
        for client in self.clients:
            for waiting in (client.joining, client.syncing):
                assert waiting is None or id(waiting) in told, "nobody will ever answer"

    @invariant()
    def counts_are_right(self) -> None:
        holdings = Holdings()
        for group in self.world.groups:
            holdings.take(group.address, size_of_group(group))
            consumed = sum(NAME_BYTES + len(name) for name in group.topics or ())
            assert group.said_bytes == len(group.protocol_type or "") + consumed
            for key, committed in group.offsets.items():
                holdings.take(group.address, size_of_offset(key, committed))
            for member in group.members.values():
                holdings.take(member.address, size_of_member(member))
            assert group.held == sum(map(size_of_member, group.members.values()))
            for member_id, pending in group.pending.items():
                holdings.take(pending.address, size_of_pending(member_id))
            assert group.joined == sum(member.joining is not None for member in group.members.values())
            names = [name for member in group.members.values() for name, _ in member.protocols]
            assert group.supported == {name: names.count(name) for name in names}
            assert {one.instance_id: key for key, one in group.members.items() if one.instance_id} == group.static
            assert (group.leader in group.members) or not group.members
        found = self.world.shard.shared.holdings
        assert (found.total, found.by_address) == (holdings.total, holdings.by_address)


Members.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestMembers = Members.TestCase
