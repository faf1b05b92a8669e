"""`barnabas cluster status`: every partition there is, whoever of its brokers answers, and the exit code."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from barnabas.cli import cluster_status
from barnabas.client.cluster_views import ClusterDescription, QuorumDescription, QuorumReplica
from barnabas.net.errors import FeatureMissing
from barnabas.net.topology import PartitionInfo, TopicInfo
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID

LIMIT = 1000
"""Of each list, as the broker gives them."""


def led(topic: str, partition: int, leader: int, epoch: int = 0, isr: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "leader": leader,
        "leader_epoch": epoch,
        "replicas": [1, 2],
        "isr": list(isr),
        "high_watermark": 5,
        "log_end_offset": 7,
        "followers": [{"broker": 3 - leader, "log_end_offset": 5}],
    }


class Trio:
    """What a cluster tells: its metadata by the admin client, and the `/state` of each broker by its port."""

    def __init__(self, told: list[PartitionInfo], states: dict[int, list[dict[str, Any]] | None]) -> None:
        self.told, self.states = told, states
        self.pages: list[str] = []
        self.quorum: QuorumDescription | BarnabasError = QuorumDescription(1, 1, 9, (), ())

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, tuple((node, "h", node) for node in self.states))

    def describe_quorum(self) -> QuorumDescription:
        if isinstance(self.quorum, BarnabasError):
            raise self.quorum
        return self.quorum

    def describe_all_topics(self, *, internal: bool = False) -> dict[str, TopicInfo]:
        assert internal
        names = {one.topic for one in self.told}
        return {
            name: TopicInfo(name, ZERO_UUID, tuple(one for one in self.told if one.topic == name)) for name in names
        }

    def get(self, server: str, path: str) -> tuple[int, str]:
        self.pages.append(path)
        partitions = self.states[int(server.rpartition(":")[2])]
        if partitions is None:
            return 503, "{}"
        fields = parse_qs(urlsplit(path).query)
        first = int(fields.get("after", ["0"])[0])
        end = first + min(int(fields.get("limit", ["500"])[0]), LIMIT)
        return 200, json.dumps({"partitions": partitions[first:end], "counts": {"partitions": len(partitions)}})

    def show(self, monkeypatch: pytest.MonkeyPatch, as_json: bool = True) -> int:
        monkeypatch.setattr(cluster_status, "get", self.get)
        return cluster_status.show(cast("Any", self), as_json)


def test_who_is_only_coming_is_told_and_not_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [PartitionInfo("t", 0, 1, 0, (1, 2, 3), (1, 2))]
    moves = led("t", 0, 1) | {"replicas": [3, 1, 2], "adding": [3]}
    trio = Trio(told, {1: [moves]})
    assert trio.show(monkeypatch, as_json=False) == 0
    said = capsys.readouterr().out
    assert "goes to 3" in said
    assert "0 under-replicated" in said


def test_what_its_leader_knows_of_a_partition_stands_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = led("t", 1, 2, epoch=4, isr=(2,)) | {"followers": [{"broker": 1, "log_end_offset": -1}]}
    trio = Trio([], {1: [led("t", 0, 1, epoch=3)], 2: [silent]})
    trio.quorum = QuorumDescription(1, 1, 9, (), ())
    assert trio.show(monkeypatch, as_json=False) == 1
    head, first, second, *_, counts = capsys.readouterr().out.splitlines()
    assert head.split() == ["topic", "partition", "leader", "epoch", "in", "sync", "high", "watermark", "end", "lag"]
    assert first.split() == ["t", "0", "1", "3", "1,2", "5", "7", "2:2"]
    assert second.split() == ["t", "1", "2", "4", "2", "5", "7", "1:?", "under-replicated"]
    assert counts == "2 brokers, 2 partitions, 1 under-replicated, 0 without a leader"
    assert trio.show(monkeypatch) == 1
    one, other, both = map(json.loads, capsys.readouterr().out.splitlines())
    assert [(each["high_watermark"], each["end_offset"], each["lags"]) for each in (one, other)] == [
        (5, 7, {"2": 2}),
        (5, 7, {"1": None}),
    ]
    assert (other["under_replicated"], both["under_replicated"]) == (True, 1)


def test_a_partition_that_nobody_leads_is_shown_and_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 2 is fenced: neither it nor what it led alone stands in what the others tell."""
    told = [PartitionInfo("t", 0, 1, 0, (1, 2), (1, 2)), PartitionInfo("t", 1, -1, 4, (2,), (2,))]
    trio = Trio(told, {1: [led("t", 0, 1)]})
    assert trio.show(monkeypatch) == 1
    first, second, told_last = map(json.loads, capsys.readouterr().out.splitlines())
    assert told_last == {
        "brokers": [1],
        "silent": [],
        "partitions": 2,
        "under_replicated": 0,
        "leaderless": 1,
        "quorum": {"leader_id": 1, "leader_epoch": 1, "high_watermark": 9, "voters": [], "observers": []},
    }
    assert (first["partition"], first["leader"], first["end_offset"]) == (0, 1, 7)
    assert (second["partition"], second["leader"], second["end_offset"]) == (1, -1, None)
    assert trio.show(monkeypatch, as_json=False) == 1
    out = capsys.readouterr().out
    assert "no leader" in out.splitlines()[2]
    assert "1 broker, 2 partitions, 0 under-replicated, 1 without a leader" in out


def test_one_whose_leader_does_not_tell_of_it_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trio = Trio([PartitionInfo("t", 0, 1, 0, (1, 2), (1, 2))], {1: [], 2: []})
    assert trio.show(monkeypatch, as_json=False) == 1
    assert "its leader does not tell of it" in capsys.readouterr().out


def test_how_far_behind_the_controller_each_broker_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trio = Trio([], {1: [led("t", 0, 1)]})
    replicas = [QuorumReplica(*one) for one in ((1, 57, 1, 1), (2, 57, 1, 1), (3, 50, 1, 1))]
    trio.quorum = QuorumDescription(1, 4, 57, (replicas[0],), tuple(replicas[1:]))
    assert trio.show(monkeypatch, as_json=False) == 0
    assert "controller 1 (voters: 1), metadata at 57, broker 2 0 behind, broker 3 7 behind" in capsys.readouterr().out
    assert trio.show(monkeypatch) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["quorum"]
    assert (told["leader_id"], told["leader_epoch"], told["high_watermark"]) == (1, 4, 57)
    assert [one["replica_id"] for one in told["voters"]] == [1]
    assert [one["log_end_offset"] for one in told["observers"]] == [57, 50]
    trio.quorum = QuorumDescription(2, 5, 57, (replicas[1], replicas[2]), (replicas[0],))
    assert trio.show(monkeypatch, as_json=False) == 0
    line = "controller 2 (voters: 2, 3), metadata at 57, voter 3 7 behind, broker 1 0 behind"
    assert line in capsys.readouterr().out


def test_without_a_controller_nothing_is_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every partition is led and in sync, and yet nobody could follow a leader that goes."""
    trio = Trio([], {1: [led("t", 0, 1)]})
    trio.quorum = KafkaError(ErrorCode.NOT_CONTROLLER, "the quorum")
    assert trio.show(monkeypatch, as_json=False) == 1
    assert "the controller cannot be asked: NOT_CONTROLLER(41): the quorum" in capsys.readouterr().out
    assert trio.show(monkeypatch) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["quorum"] is None
    trio.quorum = FeatureMissing("a broker from before KRaft")
    assert trio.show(monkeypatch) == 0


def test_all_partitions_of_a_broker_are_read_page_by_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = led("t", 1500, 1, isr=(1,))
    trio = Trio([], {1: [*(led("t", number, 1) for number in range(1500)), late]})
    assert trio.show(monkeypatch) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1502
    assert len(trio.pages) == 2


def test_where_two_think_that_they_lead_the_later_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [PartitionInfo("t", 0, 1, 7, (1, 2), (1, 2))]
    trio = Trio(told, {1: [led("t", 0, 1, epoch=7)], 2: [led("t", 0, 2, epoch=6, isr=(2,))]})
    assert trio.show(monkeypatch) == 0
    one, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert (one["leader"], one["isr"], one["lags"]) == (1, [1, 2], {"2": 2})


def test_a_broker_that_has_nothing_to_tell_yet_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trio = Trio([], {1: [led("t", 0, 1)], 2: None})
    assert trio.show(monkeypatch, as_json=False) == 1
    assert "broker 2 cannot be asked" in capsys.readouterr().out
