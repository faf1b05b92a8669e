"""`barnabas topics`, `configs` and `cluster`: what is made, shown, changed and deleted, in words and as JSON."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any, cast

import pytest

from barnabas import Broker, Producer
from barnabas.cli import cluster
from barnabas.cli.configs import change
from barnabas.cli.near import MEANT_MAX
from barnabas.client.cluster_views import ClusterDescription, Features, QuorumDescription
from barnabas.net.errors import ClientTimeout, FeatureMissing
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.cli.terminal import Terminal


def lines(at: Terminal, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in at.raw(*words, "--json").splitlines()]


def one(at: Terminal, *words: str) -> dict[str, Any]:
    (found,) = lines(at, *words)
    return found


# ---- topics ----------------------------------------------------------------------------------------------------------


def test_topics_are_made_together_and_each_has_its_answer(at: Terminal) -> None:
    a, b = at.name(), at.name()
    assert at.raw("topics", "create", a, "-p", "2") == f"created {a} with 2 partitions\n".encode()
    code, told, wrong = at("topics", "create", a, b)
    assert (code, told) == (1, f"created {b} with 1 partition\n")
    assert wrong.startswith(f"barnabas: TOPIC_ALREADY_EXISTS(36): {a}")
    assert at.raw("topics", "create", a, "-p", "5", "--if-absent") == f"{a} has 2 partitions\n".encode()
    code, told, _ = at("topics", "create", a, b, "--json")
    assert (code, [json.loads(line)["created"] for line in told.splitlines()]) == (1, [False, False])


def test_a_topic_is_made_on_the_brokers_that_are_named(at: Terminal) -> None:
    name, node = at.name(), one(at, "cluster")["brokers"][0]["id"]
    made = at.raw("topics", "create", name, "--replica-assignment", f"{node},{node}")
    assert made == f"created {name} with 2 partitions\n".encode()
    assert [part["replicas"] for part in one(at, "topics", "describe", name)["partitions"]] == [[node], [node]]
    said = at.bad("topics", "create", at.name(), "--replica-assignment", f"{node}:77")
    assert "includes broker 77, but no such broker is registered" in said
    assert said.endswith("; barnabas cluster shows the brokers there are")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1:x"], "1:x: write the brokers of each partition, such as 1:2,2:3 for two"),
        (["1,"], "1,: write the brokers"),
        (["1:2", "-p", "1"], "--replica-assignment says how many partitions and replicas there are: drop -p and -r"),
        (["1:2", "-r", "2"], "drop -p and -r"),
    ],
)
def test_an_assignment_that_is_none(at: Terminal, words: list[str], said: str) -> None:
    code, told, wrong = at("topics", "create", "t", "--replica-assignment", *words)
    assert (code, told) == (2, "")
    assert said in wrong


def test_a_dry_run_makes_and_changes_nothing(at: Terminal) -> None:
    name = at.name()
    assert at.raw("topics", "create", name, "--dry-run") == f"{name} would be created\n".encode()
    assert [name] not in at.good("topics", "list")
    at.good("topics", "create", name)
    dry = ("topics", "alter", name, "-p", "3", "--set", "retention.ms=1", "--dry-run")
    assert at.raw(*dry) == f"{name} would be altered\n".encode()
    assert at.raw("configs", "set", "topic", name, "retention.ms=1", "--dry-run") == (
        f"topic {name}: would be changed: retention.ms\n".encode()
    )
    found = one(at, "topics", "describe", name)
    assert (len(found["partitions"]), found["settings"]["retention.ms"]) == (1, "604800000")
    assert at.bad("topics", "alter", name, "--set", "retention.ms=soon", "--dry-run").startswith("INVALID_CONFIG(40)")


def test_topics_are_altered_described_and_deleted(at: Terminal) -> None:
    name = at.topic()
    altered = (
        "topics",
        "alter",
        name,
        "--partitions",
        "3",
        "--set",
        "segment.bytes=2000000",
        "--unset",
        "retention.ms",
    )
    assert at.raw(*altered) == f"altered {name}\n".encode()
    found = one(at, "topics", "describe", name)
    assert [(each["partition"], each["first_offset"], each["end_offset"]) for each in found["partitions"]] == [
        (0, 0, 5),
        (1, 0, 5),
        (2, 0, 0),
    ]
    assert (found["settings"]["segment.bytes"], found["settings"]["retention.ms"]) == ("2000000", "604800000")
    first, head, *rows = at.good("topics", "describe", name)
    assert first == [name, "id", found["id"]]
    assert (head[0], rows[0]) == ("partition", ["0", "1", "1", "1", "0", "5"])
    assert ["segment.bytes=2000000"] in rows
    assert {"topic": name} in lines(at, "topics", "list")
    code, told, _ = at("topics", "delete", "--json", name, "absent")
    assert (code, [json.loads(line)["deleted"] for line in told.splitlines()]) == (1, [True, False])


@pytest.mark.parametrize(
    ("before", "only", "firsts"),
    [
        ("2", [], [2, 2]),
        ("-1", [], [4, 4]),
        ("s@1003", [], [3, 0]),
        ("end", [], [5, 5]),
        ("5", [], [5, 5]),
        ("end", ["--partition", "1"], [0, 5]),
    ],
)
def test_the_oldest_records_are_deleted(at: Terminal, before: str, only: list[str], firsts: list[int]) -> None:
    name = at.topic()
    told = lines(at, "topics", "delete-records", name, "--before", before, *only)
    assert [each["first_offset"] for each in told] == [each for each in firsts if not only or each]
    found = one(at, "topics", "describe", name)["partitions"]
    assert [each["first_offset"] for each in found] == firsts


@pytest.mark.parametrize(("before", "lies"), [("6", 6), ("+99", 99)])
def test_records_beyond_the_end_are_not_deleted_and_no_others_in_their_place(
    at: Terminal, before: str, lies: int
) -> None:
    """All there is was deleted, in silence; Kafka refuses such an offset."""
    name = at.topic()
    said = at.bad("topics", "delete-records", name, "--before", before)
    assert said.startswith(f"OFFSET_OUT_OF_RANGE(1): {name}-0 ends at offset 5, and {lies} lies beyond it; write end")
    assert [each["first_offset"] for each in one(at, "topics", "describe", name)["partitions"]] == [0, 0]


def test_the_topic_setting_or_group_that_may_have_been_meant_is_named(at: Terminal) -> None:
    name = at.topic()
    near, group = f"{name}x", f"{name}-group"
    at.group(name, 1)
    at.good("groups", "reset", group, "--to", "earliest", "--topic", name, "--execute")
    meant = f"did you mean {name}?"
    for words in (
        ["topics", "describe", near],
        ["topics", "alter", name, near, "-p", "3"],
        ["topics", "delete", near],
        ["topics", "delete-records", near, "--before", "end"],
        ["configs", "get", "topic", near],
        ["configs", "set", "topic", near, "retention.ms=1"],
        ["consume", near, "-e"],
        ["groups", "reset", group, "--to", "earliest", "--topic", near],
    ):
        assert at.bad(*words).endswith(f"; {meant}"), words
    assert at.bad("topics", "delete", near, "very-other").count("; did you mean") == 1
    assert at.bad("configs", "get", "topic", name, "retenton.ms").endswith("; did you mean retention.ms?")
    for verb in ("describe", "lag", "delete", "offsets"):
        assert at.bad("groups", verb, f"{group}x").endswith(f"; did you mean {group}?")


def test_of_many_that_are_not_there_some_are_looked_for(at: Terminal) -> None:
    """Each asked for all names, and went through them: 200 topics that were deleted before took minutes of 10,000."""
    name = at.topic()
    at.group(name, 1)
    at.good("groups", "reset", f"{name}-group", "--to", "earliest", "--topic", name, "--execute")
    for verb, meant in (("topics", name), ("groups", f"{name}-group")):
        said = at.bad(verb, "delete", *(f"{meant}{number}" for number in range(20)))
        assert said.count(f"; did you mean {meant}?") == MEANT_MAX
        assert said.count(f"{meant}19") == 1


def test_produce_makes_a_topic_and_says_so_where_another_may_have_been_meant(at: Terminal) -> None:
    """It makes it as Kafka's own producer does; nobody heard of a topic with a slip in its name."""
    name = at.topic()
    code, _, wrong = at("produce", f"{name}x", "-X", "retry.backoff.ms=500", given=b"1\n")
    assert (code, wrong) == (0, f"barnabas: made topic {name}x; did you mean {name}?\n")
    assert at.raw("produce", f"{name}x", given=b"2\n") == b"", "it is there now"
    assert at.raw("produce", "quite-other", given=b"1\n") == b""
    assert at.raw("consume", f"{name}x", "-e") == b"1\n2\n"


@pytest.mark.parametrize("partition", [(), ("-p", "0")])
def test_a_topic_that_the_cluster_will_not_make_is_not_waited_for(partition: tuple[str, ...]) -> None:
    """It was waited for until the time was over, 10 s."""
    with Broker(auto_create_topics_enable=False) as broker:
        at = Terminal(broker.bootstrap_servers)
        there_is_none = "there is no topic {}, and the cluster makes none on first use; "
        said = at.bad("produce", "other", *partition, given=b"1\n")
        assert said == there_is_none.format("other") + "make it: barnabas topics create other"
        at.good("topics", "create", "orders")
        said = at.bad("produce", "orderz", *partition, given=b"1\n")
        assert said == there_is_none.format("orderz") + "did you mean orders?"


def test_a_topic_that_comes_late_is_waited_for(at: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cluster makes it, or does not say whether it does."""

    def in_vain(producer: Producer, topic: str, timeout: float) -> None:
        raise ClientTimeout(f"topic {topic} is not in the metadata: UNKNOWN_TOPIC_OR_PARTITION(3)")

    name = at.topic()
    monkeypatch.setattr(Producer, "partitions_for", in_vain)
    said = at.bad("produce", f"{name}x", "-X", "max.block.ms=200", given=b"1\n", code=3)
    assert said == (f"topic {name}x is not known after 200 ms: UNKNOWN_TOPIC_OR_PARTITION(3); did you mean {name}?")


def test_of_topics_that_are_not_there(at: Terminal) -> None:
    for words in (["describe", "nope"], ["alter", "nope", "-p", "3"], ["delete", "nope"]):
        assert at.bad("topics", *words).startswith("UNKNOWN_TOPIC_OR_PARTITION(3): nope")
    assert at.bad("topics", "delete-records", "nope", "--before", "end").startswith(
        "UNKNOWN_TOPIC_OR_PARTITION(3): nope"
    )
    name = at.topic()
    said = at.bad("topics", "delete-records", name, "--before", "end", "--partition", "9")
    assert said == f"topic {name} has 2 partitions, counted from 0; there is no {name}-9"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["create", "x", "-p", "2147483648"],
            2,
            "argument --partitions/-p: 2147483648: write a whole number from 1 to",
        ),
        (["create", "x", "-r", "32768"], 2, "argument --replication-factor/-r: 32768: write a whole number from 1 to"),
        (["create", "x", "-p", "0"], 2, "argument --partitions/-p: 0: write a whole number from 1 to"),
        (["create", "not a name"], 1, "INVALID_TOPIC_EXCEPTION(17)"),
        (["create", "x", "--set", "a=1"], 1, "INVALID_CONFIG(40)"),
        (["alter", "x"], 2, "nothing to alter: give --partitions, --set or --unset"),
        (["delete-records", "x", "--before", "e@5"], 2, "--before e@TIME: write s@TIME"),
    ],
)
def test_topics_that_cannot_be(at: Terminal, words: list[str], code: int, said: str) -> None:
    told = at.bad("topics", *words, code=code)
    assert told.startswith(said)
    assert code == 2 or "; " in told  # what to do about it


def test_internal_topics_are_listed_when_asked_for(at: Terminal) -> None:
    at.group(at.topic(), 1)
    assert ["__consumer_offsets"] not in at.good("topics", "list")
    assert ["__consumer_offsets"] in at.good("topics", "list", "--internal")


# ---- settings --------------------------------------------------------------------------------------------------------


def test_settings_of_a_topic_are_set_shown_and_given_up(at: Terminal) -> None:
    name = at.name()
    at.good("topics", "create", name)
    get = ("configs", "get", "topic", name)
    assert b"retention.ms" not in at.raw(*get)
    assert at.raw("configs", "set", "topic", name, "retention.ms=60000", "cleanup.policy+=compact") == (
        f"topic {name}: changed: retention.ms, cleanup.policy\n".encode()
    )
    at.good("configs", "set", "topic", name, "cleanup.policy-=delete")
    rows = at.good(*get)
    assert [row for row in rows if row[-1] == "topic"] == [  # Kafka says min.insync.replicas, of all brokers, besides
        ["cleanup.policy", "compact", "topic"],
        ["retention.ms", "60000", "topic"],
    ]
    assert len(at.good(*get, "--all")) > 20
    only = {each["key"]: each for each in lines(at, *get, "segment.bytes", "retention.ms")}
    assert (only["retention.ms"]["source"], only["segment.bytes"]["source"]) == ("topic", "default")
    assert only["segment.bytes"]["synonyms"][-1]["name"] == "log.segment.bytes"
    at.good("configs", "delete", "topic", name, "retention.ms", "cleanup.policy")
    assert b"retention.ms" not in at.raw(*get)


def test_settings_of_brokers_say_where_they_come_from(at: Terminal) -> None:
    at.good("configs", "set", "broker", "all", "log.retention.ms=123456789")
    try:
        assert ["log.retention.ms", "123456789", "all", "brokers"] in at.good("configs", "get", "broker", "all")
        told = one(at, "configs", "get", "broker", "1", "log.retention.ms")
        assert (told["value"], told["source"], told["read_only"]) == ("123456789", "all brokers", False)
        assert one(at, "configs", "get", "broker", "1", "log.dirs")["read_only"]
    finally:
        at.good("configs", "delete", "broker", "all", "log.retention.ms")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["get", "topic", "nope"], 1, "UNKNOWN_TOPIC_OR_PARTITION(3): nope"),
        (["get", "broker", "99"], 1, "there is no broker 99; the cluster has 1"),
        (["get", "broker", "one"], 2, "broker one: write its node id, such as 1, or all for all together"),
        (["get", "broker", "-1"], 2, "broker -1: write its node id"),
        (["set", "broker", "1", "broker.id=2"], 1, "INVALID_REQUEST(42): 1: Cannot update these configs dynamically"),
        (["set", "broker", "all", "node.id=2"], 1, "INVALID_REQUEST(42): Cannot update these configs dynamically"),
        (["set", "topic", "t", "retention.ms"], 2, "argument KEY=VALUE: retention.ms: write KEY=VALUE, KEY+=VALUE or"),
        (["set", "topic", "t", "=1"], 2, "argument KEY=VALUE: =1: write KEY=VALUE"),
        (["get", "user", "t"], 2, "argument KIND: invalid choice: 'user' (choose from"),
        (["get", "topic", ""], 2, "a topic's name cannot be empty; all brokers together are called all"),
    ],
)
def test_settings_that_cannot_be(at: Terminal, words: list[str], code: int, said: str) -> None:
    assert at.bad("configs", *words, code=code).startswith(said)


def test_a_setting_that_does_not_exist(at: Terminal) -> None:
    name = at.name()
    at.good("topics", "create", name)
    for verb in ("get", "delete"):
        said = at.bad("configs", verb, "topic", name, "retention.m")
        assert said == f"topic {name} has no setting retention.m; did you mean retention.ms?"
        said = at.bad("configs", verb, "topic", name, "quite.other")
        assert said == f"topic {name} has no setting quite.other; configs get --all shows those it has"
    for words in (
        ["configs", "set", "topic", name, "retention.m=1"],
        ["configs", "set", "topic", name, "log.retention.ms=1"],
        ["topics", "alter", name, "--set", "retention.m=1"],
        ["topics", "create", at.name(), "--set", "retention.m=1"],
    ):
        said = at.bad(*words)
        assert said.startswith("INVALID_CONFIG(40)")
        assert said.endswith("; did you mean retention.ms?"), words
    said = at.bad("configs", "set", "group", "g", "consumer.sesion.timeout.ms=45000")
    assert said.endswith("; did you mean consumer.session.timeout.ms?")
    said = at.bad("topics", "create", at.name(), "--set", "quite.other=1")
    assert said.endswith("; barnabas configs get --all shows settings and their values")


def test_changes_as_they_are_typed() -> None:
    typed = ("a=1", "a=", "a+=1,2", "a-=1", "a=b=c", "a=+1")
    assert [change(each) for each in typed] == [
        ("=", "a", "1"),
        ("=", "a", ""),
        ("+", "a", "1,2"),
        ("-", "a", "1"),
        ("=", "a", "b=c"),
        ("=", "a", "+1"),
    ]


# ---- the cluster -----------------------------------------------------------------------------------------------------


def test_a_cluster_is_shown(at: Terminal) -> None:
    told = one(at, "cluster")
    (broker,) = told["brokers"]
    assert (broker["id"], f"{broker['host']}:{broker['port']}") == (told["controller"], at.server)
    (voter,) = told["quorum"]["voters"]
    assert voter["replica_id"] == told["quorum"]["leader_id"] == 1
    level = told["features"]["metadata.version"]["level"]
    assert level > 20
    first, *rest = at.good("cluster")
    assert first == ["cluster", told["cluster_id"]]
    assert [str(broker["id"]), at.server, "controller"] in rest
    assert ["replica", "end", "offset", "lag"] in rest
    assert any(row[:2] == ["1", "voter"] for row in rest)
    assert any(row[:2] == ["metadata.version", str(level)] for row in rest)


def test_levels_of_features_are_shown_raised_and_lowered(at: Terminal) -> None:
    """That nothing changes where one of them cannot is the broker's doing: `broker/node/test_cluster_features.py`."""
    name = "eligible.leader.replicas.version"
    first, *rest = at.good("cluster", "features")
    assert first == ["feature", "level", "supported"]
    assert [name, "1", "0", "to", "1"] in rest
    assert at.good("cluster", "features", f"{name}=0", "--downgrade", "--dry-run") == [
        [name, "would", "be", "at", "0,", "was", "at", "1"]
    ]
    assert one(at, "cluster", "features")["features"][name] == {"level": 1, "supported": [0, 1]}
    assert at.good("cluster", "features", f"{name}=0", "--downgrade") == [[name, "is", "at", "0,", "was", "at", "1"]]
    assert one(at, "cluster", "features")["features"][name]["level"] == 0
    assert "INVALID_UPDATE_VERSION" in at.bad("cluster", "features", f"{name}=2", code=1)
    assert one(at, "cluster", "features", "--latest")["changes"] == {name: 1}
    assert at.good("cluster", "features", "--latest") == [["all", "are", "there", "already"]]
    assert "such as metadata.version=30" in at.bad("cluster", "features", f"{name}=x", code=2)


@pytest.mark.parametrize(("kraft", "controller"), [(True, 2), (False, 3)])
def test_the_controller_is_who_leads_the_quorum(
    kraft: bool, controller: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brokers of a quorum name anyone of them to clients, and a Kafka without one its only controller."""

    class Trio:
        def describe_cluster(self) -> ClusterDescription:
            return ClusterDescription("c", 3, ((1, "a", 9092), (2, "b", 9092), (3, "c", 9092)))

        def describe_features(self) -> Features:
            return Features(0, {}, {})

        def describe_quorum(self) -> QuorumDescription:
            if not kraft:
                raise FeatureMissing("DescribeQuorum")
            return QuorumDescription(2, 5, 71, (), ())

    cluster._show(cast("Any", Trio()), Namespace(json=False))
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.splitlines() if line.endswith("controller")] == [str(controller)]
    cluster._show(cast("Any", Trio()), Namespace(json=True))
    assert json.loads(capsys.readouterr().out)["controller"] == controller


def test_a_cluster_that_nobody_leads_is_shown_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    class Trio:
        def describe_cluster(self) -> ClusterDescription:
            return ClusterDescription("c", 3, ((1, "a", 9092), (3, "c", 9092)))

        def describe_features(self) -> Features:
            return Features(0, {}, {})

        def describe_quorum(self) -> QuorumDescription:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the quorum")

    assert cluster._show(cast("Any", Trio()), Namespace(json=False)) == 1
    told = capsys.readouterr()
    assert [line.split()[:2] for line in told.out.splitlines()[2:4]] == [["1", "a:9092"], ["3", "c:9092"]]
    assert "controller" not in told.out
    assert "no controller can be asked" in told.err
    assert cluster._show(cast("Any", Trio()), Namespace(json=True)) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["controller"], shown["quorum"]) == (-1, None)
