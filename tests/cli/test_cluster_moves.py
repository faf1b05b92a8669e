"""`cluster drain`, `remove` and `reassign`: where partitions go, and what real processes say of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from barnabas import Admin, Consumer, NewTopic, Producer
from barnabas.cli.cluster_files import grown, plan_for, plan_of, shrunk
from barnabas.cli.cluster_moves import (
    AT_ONCE_MAX,
    LATE_LOOKS,
    Lies,
    NoSuchBroker,
    Undrainable,
    drain,
    moves_off,
    reassign,
)
from barnabas.cli.cluster_moves import plan_of as read_plan
from barnabas.cli.cluster_verbs import Refused, steer
from barnabas.client.cluster_views import ClusterDescription, QuorumDescription, QuorumReplica, Reassignment
from barnabas.net.topology import PartitionInfo, TopicInfo
from barnabas.protocol.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from tests.cli.process import run
from tests.cli.test_cluster_up import Up

SLEEP = "barnabas.cli.cluster_moves.time.sleep"


def lies(number: int, *replicas: int) -> Lies:
    return Lies(TopicPartition("t", number), replicas, moves=False)


def test_what_lies_on_a_broker_goes_to_who_has_least_in_its_own_place() -> None:
    there = [lies(0, 3, 1), lies(1, 1, 3), lies(2, 1, 2), lies(3, 2, 3), lies(4, 3, 1)]
    moves = moves_off(3, there, dict.fromkeys([1, 2, 3, 4]))
    assert {where.partition: replicas for where, replicas in moves.items()} == {
        0: (4, 1),
        1: (1, 4),
        3: (2, 4),
        4: (2, 1),
    }


def test_who_is_on_his_way_off_is_not_sent_again() -> None:
    there = [Lies(TopicPartition("t", 0), (4, 1), moves=True, removing=(3,))]
    assert moves_off(3, there, dict.fromkeys([1, 2, 3, 4])) == {}


def test_a_rack_that_has_no_replica_yet_comes_first() -> None:
    racks = {1: "A", 2: "A", 3: "B", 4: "B", 5: "C"}
    busy = [lies(number, 5) for number in range(1, 9)]
    assert moves_off(3, [lies(0, 3, 1), *busy], racks | {4: "A"}) == {TopicPartition("t", 0): (5, 1)}


class Fake:
    """An admin client of brokers 1 to 4, where what was begun is there at the second look after it."""

    def __init__(self, count: int) -> None:
        self.lies: dict[TopicPartition, tuple[int, ...]] = {
            TopicPartition("t", number): (3, 1) for number in range(count)
        }
        self.begun: list[dict[TopicPartition, tuple[int, ...]]] = []
        self.moving: dict[TopicPartition, tuple[int, ...]] = {}
        self.replicas = 2
        self.voters: tuple[int, ...] = (1,)
        self.late: dict[TopicPartition, tuple[int, ...]] = {}
        """What the broker that is asked has not heard of yet, until the next arrival."""

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, tuple((node, "h", node) for node in (1, 2, 3, 4)))

    def describe_quorum(self) -> QuorumDescription:
        return QuorumDescription(1, 1, 9, tuple(QuorumReplica(node, 9, None, None) for node in self.voters), ())

    def describe_all_topics(self, *, internal: bool) -> dict[str, TopicInfo]:
        assert internal
        seen = self.lies | self.late
        parts = tuple(PartitionInfo("t", where.partition, 1, 0, replicas, replicas) for where, replicas in seen.items())
        return {"t": TopicInfo("t", ZERO_UUID, parts)}

    def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        return {where: Reassignment((*target, 3), target[:1], (3,)) for where, target in self.moving.items()}

    def alter_partition_reassignments(
        self, moves: dict[TopicPartition, tuple[int, ...]], *, may_resize: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        assert not may_resize, "a drain moves replicas, and makes none"
        resized = [where for where, replicas in moves.items() if len(replicas) != self.replicas]
        self.begun.append({where: replicas for where, replicas in moves.items() if where not in resized})
        self.moving |= self.begun[-1]
        return dict.fromkeys(moves) | dict.fromkeys(resized, KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "t"))

    def arrive(self, _seconds: float) -> None:
        self.lies |= self.moving
        self.moving.clear()
        self.late.clear()


def test_so_many_are_under_way_at_a_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake(2 * AT_ONCE_MAX + 7)
    monkeypatch.setattr(SLEEP, fake.arrive)
    assert drain(cast("Admin", fake), 3, as_json=False) == 0
    assert [len(moves) for moves in fake.begun] == [AT_ONCE_MAX, AT_ONCE_MAX, 7]
    told = "broker 3 is empty: 107 partitions moved to others; barnabas cluster remove 3 takes it out\n"
    assert capsys.readouterr().out == told
    assert Counter(replicas[0] for replicas in fake.lies.values()) == {2: 54, 4: 53}


def test_nobody_is_sent_to_remove_a_controller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`remove` refuses it."""
    fake = Fake(1)
    fake.voters = (1, 2, 3)
    monkeypatch.setattr(SLEEP, fake.arrive)
    assert drain(cast("Admin", fake), 3, as_json=False) == 0
    assert "1 partition moved to others; it stays, for it is a controller\n" in capsys.readouterr().out


def test_what_of_a_plan_is_begun_beside_what_is_refused_is_said(tmp_path: Path) -> None:
    class Strict(Fake):
        def alter_partition_reassignments(
            self, moves: dict[TopicPartition, tuple[int, ...]], *, may_resize: bool
        ) -> dict[TopicPartition, KafkaError | None]:
            fault = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t-1")
            return {where: fault if 9 in replicas else None for where, replicas in moves.items()}

    parts = [{"topic": "t", "partition": number, "replicas": [to]} for number, to in enumerate((4, 9, 4))]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"partitions": parts}))
    with pytest.raises(BarnabasError) as told:
        reassign(cast("Admin", Strict(3)), file, verify=False, cancel=False, as_json=False)
    assert "INVALID_REPLICA_ASSIGNMENT(39): t-1" in str(told.value)
    assert str(told.value).endswith("; 2 other partitions: begun as asked for")


def test_what_ctrl_c_ends_the_next_goes_on_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake(AT_ONCE_MAX + 1)

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SLEEP, interrupted)
    with pytest.raises(KeyboardInterrupt):
        drain(cast("Admin", fake), 3, as_json=False)
    assert "broker 3 has 51 partitions left, those on their way arrive; drain it again" in capsys.readouterr().out
    monkeypatch.setattr(SLEEP, fake.arrive)
    assert drain(cast("Admin", fake), 3, as_json=False) == 0
    assert [len(moves) for moves in fake.begun] == [AT_ONCE_MAX, 1], "those on their way are not sent again"


@pytest.mark.parametrize("late", [(1, 3, 2, 4), (2, 1, 3)])
def test_what_a_late_broker_tells_of_a_move_that_has_just_ended_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, late: tuple[int, ...]
) -> None:
    """It still has those that went: there is no place left, or a replica would come to be too many."""
    fake = Fake(1)
    fake.late[TopicPartition("t", 0)] = late
    monkeypatch.setattr(SLEEP, fake.arrive)
    assert drain(cast("Admin", fake), 3, as_json=False) == 0
    assert [one for one in fake.begun if one] == [{TopicPartition("t", 0): (2, 1)}]


def test_too_few_others_at_every_look_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(1)
    looks: list[float] = []
    fake.lies[TopicPartition("t", 0)] = (1, 2, 3, 4)
    monkeypatch.setattr(SLEEP, looks.append)
    with pytest.raises(Undrainable, match="t-0 has 4 replicas"):
        drain(cast("Admin", fake), 3, as_json=False)
    assert len(looks) == LATE_LOOKS - 1
    assert not fake.begun


def test_a_broker_that_never_was_is_not_said_to_be_empty() -> None:
    fake = Fake(1)
    with pytest.raises(NoSuchBroker, match="no broker 9 is alive, and no partition is on one: alive are 1, 2, 3, 4"):
        drain(cast("Admin", fake), 9, as_json=False)
    assert not fake.begun


def test_nothing_is_moved_where_there_are_too_few_others() -> None:
    with pytest.raises(Undrainable, match=r"t-1 has 3 replicas, one on each of the other brokers: add a broker"):
        moves_off(3, [lies(0, 3), lies(1, 1, 2, 3)], dict.fromkeys([1, 2, 3]))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions": [{"topic": "t"}]}', '{"partitions": 7}'])
def test_a_file_that_is_no_plan_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"plan\.json is no plan: write "):
        read_plan(file)


def test_a_plan_names_a_partition_once(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    one = {"topic": "t", "partition": 0, "replicas": [1]}
    file.write_text(json.dumps({"version": 1, "partitions": [one]}))
    assert read_plan(file) == {TopicPartition("t", 0): (1,)}
    file.write_text(json.dumps({"partitions": [one, one]}))
    with pytest.raises(ConfigError, match="twice"):
        read_plan(file)
    file.write_text(json.dumps({"partitions": []}))
    with pytest.raises(ConfigError, match=r"plan\.json names no partition"):
        read_plan(file)
    with pytest.raises(ConfigError, match=r"none\.json: No such file"):
        read_plan(tmp_path / "none.json")


def test_the_id_of_a_broker_that_was_removed_is_given_to_no_other(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, 3, 0)
    shrunk(tmp_path, plan, 3)
    assert [one.node_id for one in plan_of(tmp_path).brokers] == [1, 2]
    assert grown(tmp_path, plan_of(tmp_path)).node_id == 4
    with pytest.raises(Refused, match="broker 1 is a controller"):
        steer("remove", tmp_path, 1)


@pytest.mark.slow
def test_a_broker_is_drained_and_removed_while_records_are_written(tmp_path: Path) -> None:
    where = tmp_path / "four"
    up = Up(where, "--brokers", "4", "--port", "0")
    first = up.servers.partition(",")[0]
    try:
        with Admin(bootstrap_servers=up.servers) as admin:
            admin.create_topics(NewTopic("t", 6, 3))
            with Producer(bootstrap_servers=up.servers, acks="all") as producer:
                sent = [producer.send("t", b"%d" % number) for number in range(200)]
                refused = run("cluster", "remove", "4", "--dir", str(where))
                assert refused.returncode == 1
                assert "broker 4 has " in refused.stderr
                drained = run("cluster", "drain", "4", "-b", first)
                assert not drained.returncode, drained.stderr
                assert "broker 4 is empty: " in drained.stdout
                sent += [producer.send("t", b"%d" % number) for number in range(200, 250)]
                assert len([one.result(60) for one in sent]) == 250
            parts = admin.describe_topics("t")["t"].partitions
            assert all(len(one.replicas) == 3 and 4 not in one.replicas for one in parts)
            again = run("cluster", "drain", "4", "-b", first, "--json")
            assert json.loads(again.stdout) == {"broker": 4, "moved": 0, "left": 0}
            removed = run("cluster", "remove", "4", "--dir", str(where))
            assert not removed.returncode, removed.stderr
            assert "broker 4 is removed" in removed.stdout
            assert [node for node, _, _ in admin.describe_cluster().brokers] == [1, 2, 3]
            too_few = run("cluster", "drain", "3", "-b", first)
            assert too_few.returncode == 1
            assert "one on each of the other brokers" in too_few.stderr
            _there_and_back(tmp_path, first, admin)
        with Consumer("t", bootstrap_servers=up.servers, auto_offset_reset="earliest") as consumer:
            read: set[bytes] = set()
            while len(read) < 250:
                records = consumer.poll(60)
                assert records, f"{len(read)} of 250"
                read |= {bytes(one.value) for one in records}
        assert read == {b"%d" % number for number in range(250)}
    finally:
        assert up.end() == 0


def _there_and_back(tmp_path: Path, server: str, admin: Admin) -> None:
    """A file's plan is carried out, and what it printed leads back."""
    before = admin.describe_topics("t")["t"].partitions[0].replicas
    file, back = tmp_path / "plan.json", tmp_path / "back.json"
    target = list(before[:0:-1])
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": target}]}))
    assert run("cluster", "reassign", str(file), "--verify", "-b", server).returncode == 1
    begun = run("cluster", "reassign", str(file), "-b", server)
    assert not begun.returncode, begun.stderr
    assert "1 partition on the way" in begun.stderr
    back.write_text(begun.stdout)
    assert json.loads(begun.stdout)["partitions"] == [{"topic": "t", "partition": 0, "replicas": list(before)}]
    verified = run("cluster", "reassign", str(file), "--verify", "-b", server)
    assert verified.stdout == "t-0 is there\n", "two that were in sync: it is through at once"
    assert admin.describe_topics("t")["t"].partitions[0].replicas == tuple(target)
    assert not run("cluster", "reassign", str(back), "-b", server).returncode
    for _ in range(600):
        if not run("cluster", "reassign", str(back), "--verify", "-b", server).returncode:
            break
    else:
        raise AssertionError("it never comes back")
    given_up = run("cluster", "reassign", str(back), "--cancel", "-b", server)
    assert given_up.stdout == "0 reassignments given up\n"
