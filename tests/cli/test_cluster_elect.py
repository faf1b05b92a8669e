"""`cluster elect`: what is asked, what is said of each partition, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from barnabas import Admin, Consumer, NewTopic, Producer
from barnabas.cli import cluster
from barnabas.cli.cluster_elect import elect
from barnabas.cli.group_reset import Chosen
from barnabas.net.topology import PartitionInfo, TopicInfo
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from tests.cli.process import BOUND_S, run
from tests.cli.terminal import Terminal
from tests.cli.test_cluster_up import Up, all_in_sync

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))
NEEDLESS = KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "t")
AWAY = KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "t-2")


class Fake:
    """An admin client that answers elections of three partitions as it is told."""

    def __init__(self, answers: dict[TopicPartition, KafkaError | None]) -> None:
        self.answers = answers
        self.asked: list[tuple[tuple[TopicPartition, ...], bool]] = []

    def describe_all_topics(self, *, internal: bool) -> dict[str, TopicInfo]:
        assert internal
        return {"t": TopicInfo("t", ZERO_UUID, tuple(PartitionInfo("t", at, 1, 0, (1,), (1,)) for at in range(3)))}

    def elect_leaders(self, *partitions: TopicPartition, unclean: bool) -> dict[TopicPartition, KafkaError | None]:
        self.asked.append((partitions, unclean))
        return self.answers


def held(
    answers: dict[TopicPartition, KafkaError | None], *topics: Chosen, unclean: bool = False, as_json: bool = False
) -> tuple[int, list[tuple[tuple[TopicPartition, ...], bool]]]:
    fake = Fake(answers)
    return elect(cast("Admin", fake), topics, unclean=unclean, as_json=as_json), fake.asked


def test_each_partition_has_its_word(capsys: pytest.CaptureFixture[str]) -> None:
    code, asked = held({ONE: NEEDLESS, ZERO: None, TWO: AWAY}, Chosen("t", ()))
    assert (code, asked) == (1, [((ZERO, ONE, TWO), False)])
    told = capsys.readouterr()
    assert told.out == "t-0: its preferred replica leads now\nt-1: its preferred replica leads already\n"
    assert told.err == (
        "barnabas: 1 partition as before: PREFERRED_LEADER_NOT_AVAILABLE(80): t-2; "
        "barnabas cluster status says who is in sync\n"
    )


def test_an_unclean_one_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert held({ONE: None, TWO: NEEDLESS}, Chosen("t", (1, 2)), unclean=True) == (0, [((ONE, TWO), True)])
    told = capsys.readouterr().out
    assert told == ("t-1: who leads it now may lack what was acknowledged\nt-2: it has a leader, nothing is changed\n")


def test_without_names_it_is_about_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert held({}) == (0, [((), False)])
    assert capsys.readouterr().out == "nothing to elect: each preferred replica leads already\n"


def test_programs_have_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert held({ZERO: None, ONE: NEEDLESS, TWO: AWAY}, as_json=True)[0] == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["partition"], line["elected"], line["error"] is None) for line in lines] == [
        (0, True, True),
        (1, False, True),
        (2, False, False),
    ]


def test_what_no_majority_decides_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert held({ZERO: KafkaError(ErrorCode.NOT_CONTROLLER, "t-0")})[0] == 1
    assert capsys.readouterr().err.endswith("; nothing is decided until a majority of the controllers runs\n")


def test_what_is_not_there_is_not_asked_for() -> None:
    with pytest.raises(BarnabasError, match="topic t has 3 partitions, counted from 0; there is no t-7"):
        held({}, Chosen("t", (7,)))


def test_all_of_them_are_not_given_up_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.main(["elect", "--unclean"]) == 2
    assert "name the partitions, such as orders:1" in capsys.readouterr().err


def test_a_broker_that_stands_alone_leads_what_it_has(at: Terminal) -> None:
    name = at.topic()
    assert at.raw("cluster", "elect", f"{name}:0") == f"{name}-0: its preferred replica leads already\n".encode()


NEVER_BY_ITSELF = (
    "auto.leader.rebalance.enable=false",
    "broker.session.timeout.ms=3000",
    "broker.heartbeat.interval.ms=500",
)


@pytest.mark.slow
def test_elections_by_command_on_three_brokers(tmp_path: Path) -> None:
    """The preferred replica after a restart; and, where nobody in sync is left, whoever lives, for a record's price."""
    up = Up(tmp_path / "trio", "--brokers", "3", "--port", "0", settings=NEVER_BY_ITSELF)

    def steer(verb: str, node_id: int) -> None:
        done = run("cluster", verb, str(node_id), "--dir", str(up.directory))
        assert not done.returncode, done.stderr

    def elected(*words: str) -> tuple[int, str]:
        done = run("cluster", "elect", "-b", up.servers, *words)
        return done.returncode, done.stderr if done.returncode else done.stdout

    def led_by(node_id: int) -> None:
        """Until it is so."""
        for _ in range(60):
            status = run("cluster", "status", "-b", up.servers, "--json").stdout
            if f'"topic": "t", "partition": 0, "leader": {node_id},' in status:
                return
        raise AssertionError(status)

    try:
        with Admin(bootstrap_servers=up.servers) as admin:
            admin.create_topics(NewTopic("t", config={"min.insync.replicas": 1}, replicas=[[2, 3]]))

            with Producer(bootstrap_servers=up.servers, acks="all") as producer:
                producer.send("t", b"kept").result(BOUND_S)
                steer("stop", 2)
                led_by(3)
                code, told = elected("t:0")
                assert (code, "PREFERRED_LEADER_NOT_AVAILABLE(80)" in told) == (1, True), told
                steer("start", 2)
                all_in_sync(up.servers)
                led_by(3)
                assert elected("t:0") == (0, "t-0: its preferred replica leads now\n")
                assert elected("t:0") == (0, "t-0: its preferred replica leads already\n")
                led_by(2)
                steer("kill", 3)
                producer.send("t", b"lost").result(BOUND_S)
            steer("kill", 2)
            steer("start", 3)
            led_by(-1)
            code, told = elected("t:0")
            assert (code, "PREFERRED_LEADER_NOT_AVAILABLE(80)" in told) == (1, True), told
            led_by(-1)
            assert elected("t:0", "--unclean") == (0, "t-0: who leads it now may lack what was acknowledged\n")
            led_by(3)
            assert elected("t:0", "--unclean") == (0, "t-0: it has a leader, nothing is changed\n")
            steer("start", 2)
            all_in_sync(up.servers)
            assert elected() == (0, "t-0: its preferred replica leads now\n")
            led_by(2)
        with Consumer("t", bootstrap_servers=up.servers, auto_offset_reset="earliest") as consumer:
            assert [bytes(record.value) for record in consumer.poll(BOUND_S)] == [b"kept"]
    finally:
        up.end()
