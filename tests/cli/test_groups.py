"""`barnabas groups` and `consume --group`, against a broker of this process.

`BARNABAS_TEST_BROKER=kafka` plays all of it against a real Apache Kafka.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas import Admin, Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from barnabas.cli import consume
from barnabas.cli.group_file import offsets_of
from barnabas.cli.group_look import find, standings, total_lag
from barnabas.cli.group_reset import Target, target
from barnabas.cli.times import duration_ms
from barnabas.net.host.connection import Client
from barnabas.protocol.errors import ConfigError, ErrorCode
from tests.cli.process import BOUND_S, clean_environment
from tests.cli.terminal import Terminal, call


@pytest.fixture
def member(at: Terminal) -> Iterator[tuple[str, str]]:
    """A topic, and a group with one member that has both partitions of it."""
    topic, group = at.topic(), at.name()
    settings = {"bootstrap.servers": at.server, "group.id": group, "client.id": "me", "enable.auto.commit": False}
    with Consumer(topic, config=settings) as consumer:
        while consumer.health().state != "stable":
            consumer.poll(0.1)
        consumer.commit({TopicPartition(topic, 0): 2})
        yield topic, group


def test_a_group_with_a_member_is_listed_described_and_its_lag_told(at: Terminal, member: tuple[str, str]) -> None:
    topic, group = member
    head, *rows = at.good("groups", "list")
    assert head == ["group", "state", "type", "protocol", "members"]
    assert [group, "Stable", "classic", "consumer", "1"] in rows
    lag = [
        ["partition", "committed", "end", "lag", "client", "id"],
        [f"{topic}-0", "2", "5", "3", "me"],
        [f"{topic}-1", "-", "5", "-", "me"],
        ["total", "lag", "3"],
    ]
    assert at.good("groups", "lag", group) == [[group], *lag]
    first, heads, who, *rest = at.good("groups", "describe", group)
    assert first == [group, "Stable", "consumer", "range"]
    assert heads == ["member", "client", "id", "host", "partitions"]
    assert who[1:] == ["me", "/127.0.0.1", f"{topic}-0", f"{topic}-1"]
    assert rest == lag


def test_static_members_are_shown_with_their_instances(at: Terminal) -> None:
    topic, group = at.topic(), at.name()
    settings = {"bootstrap.servers": at.server, "group.id": group, "client.id": "me", "group.instance.id": "pod-0"}
    with Consumer(topic, config=settings) as consumer:
        while consumer.health().state != "stable":
            consumer.poll(0.1)
        _, heads, who, *_ = at.good("groups", "describe", group)
    assert heads == ["member", "client", "id", "host", "partitions", "instance"]
    assert (who[1], who[-1]) == ("me", "pod-0")


def test_settings_of_a_group(at: Terminal) -> None:
    group = at.group(at.topic(), 1)
    at.good("configs", "set", "group", group, "consumer.session.timeout.ms=50000")
    rows = at.good("configs", "get", "group", group)
    assert ["consumer.session.timeout.ms", "50000", "group"] in rows
    at.good("configs", "delete", "group", group, "consumer.session.timeout.ms")
    assert ["consumer.session.timeout.ms", "50000", "group"] not in at.good("configs", "get", "group", group, "--all")


def test_the_same_for_programs(at: Terminal, member: tuple[str, str]) -> None:
    topic, group = member
    told = [json.loads(line) for line in at("groups", "list", "--json")[1].splitlines()]
    entry = {"group": group, "state": "Stable", "type": "classic", "protocol": "consumer", "members": 1}
    assert entry in told
    described = json.loads(at("groups", "--json", "describe", group)[1])
    (one,) = described["members"]
    assert (one["client_id"], one["instance_id"], one["host"]) == ("me", None, "/127.0.0.1")
    assert one["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    lag = json.loads(at("groups", "lag", group, "--json")[1])
    assert lag == {"group": group, "partitions": described["partitions"], "total_lag": 3}
    assert [(each["committed"], each["end"], each["lag"]) for each in lag["partitions"]] == [(2, 5, 3), (None, 5, None)]
    assert {each["member_id"] for each in lag["partitions"]} == {one["member_id"]}


def test_what_members_use_is_not_changed(at: Terminal, member: tuple[str, str]) -> None:
    topic, group = member
    remedy = f"stop its consumers first (barnabas groups describe {group} shows them)"
    assert at.bad("groups", "delete", group) == f"group {group} has members: {remedy}"
    forget = ("groups", "offsets", group, "--topic", topic, "--delete")
    assert at.bad(*forget) == f"group {group} reads the topic at present: {remedy}"
    for also in ((), ("--execute",)):  # as Kafka's tool, which refuses the dry run, too
        assert at.bad("groups", "reset", group, "--to", "0", *also) == f"group {group} is Stable: {remedy}"
    assert at.committed(group) == {TopicPartition(topic, 0): 2}


def test_a_reset_is_shown_and_made_only_when_told_so(at: Terminal) -> None:
    topic = at.topic()
    group = at.group(topic, 3, 4)
    shown = at.good("groups", "reset", group, "--to", "earliest")
    table = [["partition", "committed", "new"], [f"{topic}-0", "3", "0"], [f"{topic}-1", "4", "0"]]
    assert shown == [*table, ["nothing", "was", "changed:", "--execute", "does", "it"]]
    assert list(at.committed(group).values()) == [3, 4]
    assert at.good("groups", "reset", group, "--to", "earliest", "--execute") == [
        *table,
        [group, "goes", "on", "there"],
    ]
    assert list(at.committed(group).values()) == [0, 0]
    code, told, _ = at("groups", "reset", group, "--to", "1", "--topic", f"{topic}:1", "--execute", "--json")
    move = {"topic": topic, "partition": 1, "committed": 0, "new": 1, "note": ""}
    assert (code, json.loads(told)) == (0, {"group": group, "executed": True, "offsets": [move]})
    assert list(at.committed(group).values()) == [0, 1]


def test_where_a_reset_can_go(at: Terminal) -> None:
    topic = at.topic()
    group = at.group(topic, 3)
    with Admin(at.server) as admin:
        admin.delete_records({TopicPartition(topic, 0): 1})
    goes = {
        "earliest": ["1"],
        "latest": ["5"],
        "2": ["2"],
        "0": ["1", "0", "is", "before", "the", "first", "record"],
        "99": ["5", "99", "is", "beyond", "the", "end"],
        "@1003": ["3"],
        "1970-01-01T01:00:01.002+01:00": ["2"],
        "1970-01-01T00:00:01.004": ["4"],
        "2100-01-01": ["5", "no", "record", "is", "so", "young:", "the", "end"],
    }
    for to, new in goes.items():
        assert at.good("groups", "reset", group, "--to", to)[1] == [f"{topic}-0", "3", *new], to
    relative = {
        ("--shift-by", "1"): ["4"],
        ("--shift-by", "-2"): ["1"],
        ("--shift-by", "-3"): ["1", "0", "is", "before", "the", "first", "record"],
        ("--shift-by", "+9"): ["5", "12", "is", "beyond", "the", "end"],
        ("--by-duration", "1h"): ["5", "no", "record", "is", "so", "young:", "the", "end"],
        ("--by-duration", "P99999D"): ["1"],
    }
    for where, new in relative.items():
        assert at.good("groups", "reset", group, *where)[1] == [f"{topic}-0", "3", *new], where


def test_nothing_is_shifted_where_nothing_is_committed(at: Terminal) -> None:
    """As in Kafka's tool; other partitions of the topic go on."""
    topic = at.topic()
    group = at.group(topic, 3)
    rows = at.good("groups", "reset", group, "--shift-by", "-1", "--topic", topic, "--execute")
    why = ["nothing", "is", "committed", "to", "go", "from"]
    assert rows[1:3] == [[f"{topic}-0", "3", "2"], [f"{topic}-1", "-", "-", *why]]
    assert at.committed(group) == {TopicPartition(topic, 0): 2}


def test_a_reset_makes_a_group_of_topics_that_are_named(at: Terminal) -> None:
    topic, group = at.topic(), at.name()
    reset = ("groups", "reset", group, "--to", "2", "--execute")
    told = at.bad(*reset)
    assert told == (
        f"there is no group {group} (barnabas groups list); to make it, name what it will read with --topic"
    )
    assert at.bad(*reset, "--topic", "absent") == (
        "there is no topic absent; barnabas topics list shows those there are"
    )
    assert at.bad(*reset, "--topic", f"{topic}:0,7") == (
        f"topic {topic} has 2 partitions, counted from 0; there is no {topic}-7"
    )
    assert at.committed(group) == {}
    at.good(*reset, "--topic", f"{topic}:1")
    assert at.committed(group) == {TopicPartition(topic, 1): 2}


def test_offsets_are_written_to_a_file_and_read_again(at: Terminal, tmp_path: Path) -> None:
    """In the form of kafka-consumer-groups, which reads and writes it for one group and for several."""
    topic, file = at.topic(), tmp_path / "offsets.csv"
    group = at.group(topic, 3, 4)
    code, told, _ = at("groups", "reset", group, "--shift-by", "0", "--export")
    assert (code, told) == (0, f"{topic},0,3\n{topic},1,4\n")
    file.write_text(told)
    at.good("groups", "reset", group, "--to", "earliest", "--execute")
    again = ("groups", "reset", group, "--from-file", str(file))
    assert at.good(*again)[1:3] == [[f"{topic}-0", "0", "3"], [f"{topic}-1", "0", "4"]]
    assert list(at.committed(group).values()) == [0, 0]
    at.good(*again, "--execute")
    assert list(at.committed(group).values()) == [3, 4]
    file.write_text(f'other,{topic},0,1\n"{group}",{topic},1,99\n\n')
    assert at.good(*again, "--export", "--execute") == [[f"{topic},1,5"]]
    assert list(at.committed(group).values()) == [3, 5]
    new = at.name()
    file.write_text(f"{topic},1,2\n")
    at.good("groups", "reset", new, "--from-file", str(file), "--execute")
    assert at.committed(new) == {TopicPartition(topic, 1): 2}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("t,0", ", line 1: write TOPIC,PARTITION,OFFSET, or GROUP,TOPIC,PARTITION,OFFSET"),
        ("t,0,1\nt,x,1", ", line 2: write TOPIC,PARTITION,OFFSET"),
        ("t,0,-1", ", line 1: write TOPIC,PARTITION,OFFSET"),
        ("g,t,0,1,2", ", line 1: write TOPIC,PARTITION,OFFSET"),
        ("t,0,1\nt,0,2", ", line 2: t-0 stands there twice"),
        ('"t,0,1', ", line 1: unexpected end of data"),
        ("other,t,0,1", " says nothing of group g"),
        ("", " says nothing of group g"),
        (b"\xff", " is no text"),
        (None, ": No such file or directory"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_sentence(tmp_path: Path, text: str | bytes | None, told: str) -> None:
    file = tmp_path / "offsets.csv"
    if text is not None:
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as error:
        offsets_of(file, "g")
    assert str(error.value).startswith(f"{file}{told}")


def test_groups_are_deleted_each_for_itself(at: Terminal) -> None:
    topic = at.topic()
    group = at.group(topic, 3)
    code, told, wrong = at("groups", "delete", "absent", group)
    assert (code, told) == (1, f"deleted {group}\n")
    assert wrong == "barnabas: there is no group absent; barnabas groups list shows those there are\n"
    assert group not in [row[0] for row in at.good("groups", "list")]
    code, told, _ = at("groups", "delete", "--json", group)
    assert (code, json.loads(told)) == (1, {"group": group, "deleted": False})


@pytest.mark.parametrize("verb", ["describe", "lag", "offsets"])
def test_a_group_that_is_not_there(at: Terminal, verb: str) -> None:
    assert at.bad("groups", verb, "absent") == "there is no group absent; barnabas groups list shows those there are"


def test_offsets_are_shown_and_forgotten(at: Terminal) -> None:
    topic = at.topic()
    group = at.group(topic, OffsetAndMetadata(3, "half-way"), 4)
    head = ["partition", "committed", "metadata"]
    assert at.good("groups", "offsets", group) == [head, [f"{topic}-0", "3", "half-way"], [f"{topic}-1", "4", "-"]]
    assert at.good("groups", "offsets", group, "--topic", f"{topic}:1") == [head, [f"{topic}-1", "4", "-"]]
    both = ("--topic", f"{topic}:0", "--topic", f"{topic}:1")
    assert len(at.good("groups", "offsets", group, *both)) == 3
    one = {"topic": topic, "partition": 0, "committed": 3, "metadata": "half-way"}
    told = json.loads(at("groups", "offsets", group, "--topic", f"{topic}:0", "--json")[1])
    assert told == {"group": group, "offsets": [one]}
    forget = ("groups", "offsets", group, "--delete", "--topic")
    assert at.bad(*forget, "absent") == (
        f"group {group} has committed nothing of that; barnabas groups offsets {group} shows what it has"
    )
    assert at(*forget, f"{topic}:0")[1] == f"forgot what {group} committed of {topic}-0\n"
    assert at.committed(group) == {TopicPartition(topic, 1): 4}


def test_a_member_prints_goes_on_and_commits_what_was_printed(at: Terminal) -> None:
    topic = at.topic()
    consume = ("consume", topic, "--group", f"of-{topic}", "--exit")
    first = at.good(*consume, "--count", "4")
    assert sum(at.committed(f"of-{topic}").values()) == len(first) == 4
    rest = at.good(*consume)
    assert sorted(first + rest) == [[str(value)] for value in range(10)]
    assert at.good(*consume) == []
    assert at.good("groups", "lag", f"of-{topic}")[-1] == ["total", "lag", "0"]


def test_a_member_commits_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was given is committed once it is printed, and not with time, or when it leaves."""
    asked: list[dict[str, Any]] = []

    def opened(*, config: dict[str, Any]) -> Any:
        asked.append(config)
        raise ConfigError("seen")

    monkeypatch.setattr(consume, "_check_topics", lambda given: [])
    monkeypatch.setattr("barnabas.client.consumer.Consumer", opened)
    assert call("consume", "t", "--group", "g", "-X", "enable.auto.commit=true")[0] == 2
    assert [(one["group.id"], one["enable.auto.commit"]) for one in asked] == [("g", False)]


def test_what_nobody_could_read_is_not_committed(at: Terminal) -> None:
    topic = at.topic()
    reading, writing = os.pipe()
    os.close(reading)  # as `| head` that has left
    command = "import sys; from barnabas.cli import main; sys.exit(main())"
    arguments = ("consume", topic, "--group", f"of-{topic}", "--exit", "--server", at.server)
    with os.fdopen(writing, "wb") as nobody:
        ended = subprocess.run(
            [sys.executable, "-c", command, *arguments],
            stdout=nobody,
            stderr=subprocess.PIPE,
            timeout=BOUND_S,
            env=clean_environment(),
            check=False,
        )
    assert (ended.returncode, b"barnabas: " in ended.stderr) == (0, False)
    assert at.committed(f"of-{topic}") == {}


def test_consume_makes_no_topic(at: Terminal) -> None:
    for also in ((), ("--group", "early")):
        told = at.bad("consume", "misspelt", "--exit", *also)
        assert told == "there is no topic misspelt; make it: barnabas topics create misspelt"
    assert ["misspelt"] not in at.good("topics", "list")


@pytest.mark.parametrize("also", [(), ("--group", "late")])
def test_a_topic_that_goes_once_it_was_looked_for_is_not_made_anew(
    at: Terminal, monkeypatch: pytest.MonkeyPatch, also: tuple[str, ...]
) -> None:
    topic = at.topic()
    look = consume._check_topics

    def gone(given: Namespace) -> list[TopicPartition]:
        found = look(given)
        at.good("topics", "delete", topic)
        return found

    monkeypatch.setattr(consume, "_check_topics", gone)
    at("consume", topic, "--exit", "-X", "default.api.timeout.ms=1000", *also)
    assert [topic] not in at.good("topics", "list")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (["groups", "reset", "g"], "one of the arguments --to --shift-by --by-duration --from-file is required"),
        (
            ["groups", "reset", "g", "--from-file", "f", "--topic", "t"],
            "--from-file says which partitions, too; leave --topic out",
        ),
        (
            ["groups", "reset", "g", "--to", "1", "--export", "--json"],
            "--export and --json are two forms of the same; take one of them",
        ),
        (["groups", "reset", "g", "--to", "soon"], "argument --to: soon: write earliest, latest, an offset such as 42"),
        (["groups", "reset", "g", "--to", "1969-12-31"], "argument --to: 1969-12-31: write earliest"),
        (["groups", "reset", "g", "--to", "9" * 19], "argument --to: 9999999999999999999: write earliest"),
        (["groups", "reset", "g", "--shift-by", "x"], "argument --shift-by: x: write how many records further"),
        (["groups", "reset", "g", "--by-duration", "1"], "argument --by-duration: 1: write how long ago, such as 90s"),
        (["groups", "reset", "g", "--to", "1", "--shift-by", "1"], "argument --shift-by: not allowed with"),
        (
            ["groups", "reset", "g", "--to-latest"],
            "one of the arguments --to --shift-by --by-duration --from-file is required; --to",
        ),
        (["groups", "reset", "g", "--to", "1", "--topic", ":1"], "argument --topic: :1: write TOPIC, TOPIC:PARTITION"),
        (["groups", "reset", "g", "--to", "1", "--topic", "t:"], "argument --topic: t:: write TOPIC, TOPIC:PARTITION"),
        (["groups", "reset", "g", "--to", "1", "--topic", "t:x"], "argument --topic: t:x: write TOPIC"),
        (["groups", "offsets", "g", "--delete"], "--delete wants --topic TOPIC; barnabas groups delete forgets"),
        (["groups", "lag", ""], "argument GROUP: a group's name cannot be empty"),
        (["consume", "t", "--group", ""], "argument --group/-g: a group's name cannot be empty"),
    ],
)
def test_a_wrong_call_asks_no_broker(call: list[str], sentence: str) -> None:
    code, told, wrong = Terminal("127.0.0.1:1")(*call)
    assert (code, told) == (2, "")
    (line,) = wrong.splitlines()
    assert line.startswith(f"barnabas: {sentence}")


def test_times_are_utc_unless_they_name_a_zone() -> None:
    assert target("1970-01-02") == target("1970-01-02T02:00+02:00") == target("@86400000")
    assert target("@86400000") == Target("timestamp", 86_400_000)
    assert target("86400000") == Target("offset", 86_400_000)


@pytest.mark.parametrize(
    ("text", "found"),
    [("90s", 90_000), ("1h30m", 5_400_000), ("PT1H30M", 5_400_000), ("7d", 604_800_000), ("P1DT2H", 93_600_000)],
)
def test_durations_are_as_in_kafkas_tool_or_shorter(text: str, found: int) -> None:
    assert duration_ms(text) == found


@pytest.mark.parametrize("text", ["", "P", "PT", "T", "1", "h", "1.5h", "-1h", "1h1h", "1s1h", "P1Y", "1h 30m"])
def test_what_is_no_duration(text: str) -> None:
    assert duration_ms(text) is None


def test_many_groups_are_looked_at_together(at: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are there are told in the order that was asked for, up to the first that is not."""
    topic = at.topic()
    names = [at.group(topic, 1) for _ in range(3)]
    asked: list[Any] = []
    send = Client.send

    async def counted(client: Client, node: int, request: Any, **how: Any) -> Any:
        asked.append(request)
        return await send(client, node, request, **how)

    monkeypatch.setattr(Client, "send", counted)
    for verb in ("lag", "describe"):
        asked.clear()
        shown = at.good("groups", verb, *reversed(names))
        assert [line[0] for line in shown if line[0] in names] == names[::-1]
        assert len(asked) <= 8, (
            "who coordinates, who is in it, of either protocol; who coordinates, offsets; topics, ends"
        )
    for many in (names, [at.group(topic, 1) for _ in range(9)]):
        asked.clear()
        assert {row[0] for row in at.good("groups", "list")} >= set(many)
        assert len(asked) <= 6
    code, told, wrong = at("groups", "lag", names[0], "nobody", names[1])
    assert code == 1
    assert [name for name in names if name in told] == names[:1]
    assert "there is no group nobody" in wrong
    asked.clear()
    code, told, wrong = at("groups", "delete", *names, "nobody")
    assert (code, told.strip()) == (1, f"deleted {', '.join(names)}")
    assert "there is no group nobody" in wrong
    assert len(asked) <= 3


class Newer:
    """An admin client at a broker whose group `g` is of KIP-848, and has committed of a topic that is no more."""

    def describe_groups(self, name: str) -> Any:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, name)

    def list_groups(self) -> Any:
        return [SimpleNamespace(name="g", state="Stable", protocol_type="consumer", kind="consumer")]

    def offsets_of_groups(self, name: str) -> Any:
        return {name: {TopicPartition("gone", 0): OffsetAndMetadata(3), TopicPartition("t", 0): OffsetAndMetadata(3)}}

    def describe_topics(self, *names: str) -> Any:
        if "gone" in names:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
        return {name: SimpleNamespace(partitions=[SimpleNamespace(partition=0)]) for name in names}

    def lag(self, positions: dict[TopicPartition, int]) -> Any:
        return {where: 5 - position for where, position in positions.items()}


def test_a_group_whose_members_cannot_be_asked_for_and_a_topic_that_is_gone() -> None:
    admin = cast("Admin", Newer())
    assert find(admin, "other") is None
    group = find(admin, "g")
    assert group is not None
    assert (group.state, group.members) == ("Stable", None)
    (rows,) = standings(admin, group)
    assert [(row.where.topic, row.committed, row.end, row.lag) for row in rows] == [
        ("gone", 3, None, None),
        ("t", 3, 5, 2),
    ]
    assert total_lag(rows) == 2
