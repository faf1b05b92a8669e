"""`cluster elect`: what is asked, what is said of each partition, and the exit code."""

from __future__ import annotations

import json
from typing import cast

import pytest

from barnabas import Admin
from barnabas.cli import cluster
from barnabas.cli.cluster_elect import elect
from barnabas.cli.group_reset import Chosen
from barnabas.net.topology import PartitionInfo, TopicInfo
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from tests.cli.terminal import Terminal

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
