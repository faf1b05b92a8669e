"""The commands a person types, against a broker of this process."""

from __future__ import annotations

import argparse
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import barnabas
from barnabas.cli import COMMANDS
from barnabas.cli.cluster_files import plan_for
from barnabas.cli.explain import WALKS
from barnabas.cli.options import address
from barnabas.cli.sections import render
from barnabas.cli.speak import fail, say, say_json, table
from barnabas.explain.stage import Stage, one_record
from barnabas.plain import plain
from tests.cli.process import broker, run


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with barnabas.Broker(topics={"ready": 1}) as broker:
        yield broker.bootstrap_servers


def test_topics_are_created_listed_described_and_deleted(server: str) -> None:
    made = run("topics", "--server", server, "create", "flights", "--partitions", "2", "--set", "retention.ms=60000")
    assert (made.returncode, made.stdout) == (0, "created flights with 2 partitions\n"), made.stderr
    assert "flights" in run("topics", "-b", server, "list").stdout.split()
    told = run("topics", "-b", server, "describe", "flights").stdout.splitlines()
    assert told[0].startswith("flights  id ")
    assert [line.split() for line in told[2:4]] == [["0", "1", "1", "1", "0", "0"], ["1", "1", "1", "1", "0", "0"]]
    assert "  retention.ms=60000" in told
    ended = run("topics", "-b", server, "delete", "absent", "flights")  # each for itself
    assert (ended.returncode, ended.stdout) == (1, "deleted flights\n")
    assert ended.stderr.startswith("barnabas: UNKNOWN_TOPIC_OR_PARTITION(3): absent")
    assert "flights" not in run("topics", "-b", server, "list").stdout.split()


def test_an_error_of_the_broker_is_one_line_and_exit_code_1(server: str) -> None:
    ended = run("topics", "-b", server, "create", "not a name")
    assert ended.returncode == 1
    assert ended.stderr.startswith("barnabas: INVALID_TOPIC_EXCEPTION(17)")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["health", "top"])
def test_what_is_no_address_is_a_wrong_call(command: str) -> None:
    ended = run(command, "nowhere")
    assert ended.returncode == 2
    assert ended.stderr.startswith("barnabas: 'nowhere' is no address; write host:port")


@pytest.mark.parametrize("command", ["health", "top", "topics"])
def test_what_is_no_port_is_told_as_such(command: str) -> None:
    """It was a connection that was refused."""
    ended = run(command, *(["list", "-b"] if command == "topics" else []), "localhost:70000")
    assert ended.returncode == 2
    assert "'localhost:70000': 70000 is no port; ports go from 1 to 65535" in ended.stderr


def test_a_topic_without_settings_of_its_own_says_so(server: str) -> None:
    told = run("configs", "get", "topic", "ready", "-b", server)
    assert (told.returncode, told.stdout) == (0, "topic ready has defaults alone; --all shows them\n")


def test_lines_go_in_and_come_out(server: str) -> None:
    sent = run("produce", "-b", server, "-K", ":", "lines", text="a:one\nb:two\nthree\n")
    assert sent.returncode == 0, sent.stderr
    read = run("consume", "-b", server, "--exit", "lines")
    assert sorted(read.stdout.splitlines()) == ["one", "three", "two"]
    read = run("consume", "-b", server, "--exit", "--json", "--count", "1", "lines")
    (entry,) = map(json.loads, read.stdout.splitlines())
    assert (entry["topic"], entry["offset"]) == ("lines", 0)


@pytest.mark.parametrize(("status", "code"), [("200 OK", 0), ("503 Service Unavailable", 1)])
def test_health_asks_whether_the_broker_serves_not_whether_something_answers(status: str, code: int) -> None:
    """A broker that still recovers answers 503: a script that waits for it must not go on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_once() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

        answering = threading.Thread(target=answer_once, daemon=True)
        answering.start()
        where = f"127.0.0.1:{listening.getsockname()[1]}"
        ended = run("health", where)
        answering.join(60)
    assert ended.returncode == code
    assert ended.stderr == ("" if code == 0 else f"barnabas: {where} is starting or stopping\n")


def test_health_tells_a_broker_that_serves_from_none(server: str) -> None:
    assert run("health", server).returncode == 0
    ended = run("health", "127.0.0.1:1")
    assert ended.returncode == 1
    assert ended.stderr == (
        "barnabas: no broker answers on 127.0.0.1:1 (Connection refused); start one: barnabas broker\n"
    )


@pytest.mark.parametrize("command", ["health", "top"])
def test_a_broker_that_takes_no_more_says_so_and_is_asked_by_its_directory(tmp_path: Path, command: str) -> None:
    """`health` and `top` said that this was no Barnabas broker."""
    with broker("--port", "0", "--data-dir", str(tmp_path), "--set", "max.connections=1") as process:
        where = f"127.0.0.1:{process.port}"
        with socket.create_connection(("127.0.0.1", process.port)):
            refused = run(command, where)
            assert refused.returncode == 1
            assert "closed the connection without a word" in refused.stderr
            assert "one that takes no more (max.connections)" in refused.stderr
            beside = run(command, str(tmp_path))
            assert (beside.returncode, beside.stderr) == (0, "")


@pytest.mark.parametrize("command", ["health", "top"])
def test_a_broker_is_named_by_an_argument_or_by_the_option_that_all_commands_have(server: str, command: str) -> None:
    plain = run(command, server)
    for named in (("--server", server), ("-b", server), (server, "--server", server)):
        ended = run(command, *named)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.partition(" ")[0] == plain.stdout.partition(" ")[0]
    ended = run(command, server, "--server", "h:1")
    assert ended.returncode == 2
    assert f"{server} and --server h:1 are two brokers; drop one of them" in ended.stderr


def test_the_server_may_stand_behind_the_verb(server: str) -> None:
    for call in (("-b", server, "list"), ("list", "-b", server), ("describe", "--server", server, "ready")):
        ended = run("topics", *call)
        assert ended.returncode == 0, ended.stderr
        assert "ready" in ended.stdout


def test_top_piped_is_one_look(server: str) -> None:
    looked = run("top", server)
    assert looked.returncode == 0, looked.stderr
    assert looked.stdout.startswith(f"barnabas {server}: ")
    assert "ready-0" in looked.stdout
    assert "\x1b" not in looked.stdout


def test_top_shows_rates_parked_operations_and_the_wheel() -> None:
    def state(end: int, requests: int) -> dict[str, object]:
        partition = {"topic": "t", "partition": 0, "log_start_offset": 0, "high_watermark": end, "log_end_offset": end}
        connection = {
            "id": 1,
            "client_host": "127.0.0.1",
            "dialect": "kafka",
            "client_software_name": "x",
            "client_software_version": "1",
            "requests": requests,
            "parked_api_key": 1,
            "stalled": False,
            "muted": False,
        }
        operation = {"kind": "DelayedFetch", "age_ms": 20, "due_in_ms": 480, "keys": ["t-0"]}
        level = {"level": 1, "tick_ms": 1, "interval_ms": 20, "buckets": [{"index": 7, "tasks": 1}]}
        idle = {"level": 2, "tick_ms": 20, "interval_ms": 400, "buckets": []}
        return {
            "partitions": [{**partition, "isr": [1], "leader_epoch": 0}],
            "connections": [connection],
            "purgatories": [{"name": "Fetch", "operations": [operation], "wheel": [level, idle]}],
            "timer": [level],
            "fetch_sessions": [{}, {}],
        }

    lines = render("s", state(300, 30), state(100, 10), 2.0)
    assert lines[0] == "barnabas s: 1 partition, 1 connection, 1 parked operation, 2 fetch sessions"
    words = [line.split() for line in lines]
    assert ["t-0", "0", "300", "300", "100", "1", "0"] in words
    assert ["DelayedFetch", "20", "480", "t-0"] in words
    assert ["Fetch", "1", "1", "20", "1", "7:1"] in words
    assert ["(other)", "1", "1", "20", "1", "7:1"] in words
    assert not any(line.split()[:2] == ["Fetch", "2"] for line in lines)
    assert ["1", "127.0.0.1", "kafka", "x", "1", "30", "10", "parked", "(API", "1)"] in words


def aged(state: dict[str, Any]) -> dict[str, Any]:
    """With what the host knows of the time."""
    for purgatory in state["purgatories"]:
        for operation in purgatory["operations"]:
            operation |= {"age_ms": 0, "due_in_ms": 1}
    return state


def test_top_shows_the_lists_and_what_is_completed_and_not_purged() -> None:
    """After the eighth of the nine steps: one consumer waits on P1, three entries of followers are left on P2."""
    stage = Stage((1, 2), (1, 2, 3, 4))
    size = len(one_record()) + 1
    stage.produce(1, acks=1)
    stage.fetch({1: 0}, name="F1", min_bytes=size)
    for follower in (2, 3, 4):  # who came first is due last
        stage.fetch({1: 0, 2: 0}, name=f"F{follower}", replica=follower, min_bytes=size, wait_ms=900 - follower)
    stage.produce(1, acks=1)
    state = stage.core.snapshot(stage.now_ms)
    (fetches,) = [one for one in state["purgatories"] if one["name"] == "Fetch"]
    assert (fetches["watched"], fetches["delayed"], fetches["completed"]) == (4, 1, 3)
    assert [(one["key"], one["more"]) for one in fetches["lists"]] == [("t-1", 0), ("t-2", 0)]
    entries = [
        [(entry["kind"], entry["deadline_ms"] - stage.now_ms, entry["completed"]) for entry in one["entries"]]
        for one in fetches["lists"]
    ]
    kind = "DelayedFetch"
    assert entries == [[(kind, 500, False)], [(kind, 898, True), (kind, 897, True), (kind, 896, True)]]
    lines = render("s", aged(state), None, 0.0)
    assert "Fetch purgatory: 4 watched, 1 delayed, 3 completed and not purged (*)" in lines
    words = [line.split() for line in lines]
    assert ["t-1", "Fetch"] in words
    assert ["t-2", "Fetch*", "Fetch*", "Fetch*"] in words
    assert sum(line.split()[:1] == ["DelayedFetch"] for line in lines) == 1


def test_a_long_list_shows_its_beginning() -> None:
    stage = Stage((1,), (1,))
    for number in range(103):
        stage.fetch({1: 0}, name=str(number))
    lines = render("s", aged(stage.core.snapshot(0)), None, 0.0)
    (line,) = [line for line in lines if line.startswith("t-1  Fetch Fetch")]
    assert line.endswith(" Fetch and 3 more")


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_says_nothing_besides(walk: str) -> None:
    told = run("explain", walk)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout


def test_explain_asks_for_a_walk_alone() -> None:
    told = run("explain")
    assert told.returncode == 2
    assert "the following arguments are required: WALK (" in told.stderr


def test_explain_plays_a_walk() -> None:
    told = run("explain", "wheel", "450")
    assert told.returncode == 0
    assert "450, in 50 ms: wheel 2, bucket 2, until 440" in told.stdout
    assert run("explain", "wheel", "--", "-1").returncode == 2


def test_help_and_version() -> None:
    told = run("--help").stdout
    assert all(f"  {name} " in told for name in COMMANDS)
    assert run("--version").stdout == f"barnabas {barnabas.__version__}\n"
    assert run().returncode == 2


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str) -> None:
    told = run(command, "--help")
    assert told.returncode == 0
    assert told.stdout.startswith(f"usage: barnabas {command} ")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_wrong_call_is_one_sentence_and_exit_code_2(command: str) -> None:
    ended = run(command, "--no-such-option")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("barnabas: ")
    assert f"(barnabas {command} --help says more)" in line


def test_a_reader_that_leaves_early_is_no_error(server: str) -> None:
    run("produce", "-b", server, "many", text="x\n" * 20_000)
    read = run("consume", "-b", server, "--exit", "--count", "3", "many")
    assert read.stdout == "x\nx\nx\n"


def test_tables_put_numbers_to_the_right() -> None:
    assert table(("name", "n"), [("a", 10), ("long", "-")]).split("\n") == ["name   n", "a     10", "long   -"]


def test_names_from_strangers_say_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "g\x1b[2J\x9b1m\r\u202egone"
    assert plain(name) == r"g\x1b[2J\x9b1m\x0d\u202egone"
    assert table(("name",), [("one\ntwo\t",)]) == "name\none\\x0atwo\\x09"
    say(name)
    say_json(group=name)
    fail(f"{name} is not there", 1)
    told = capsys.readouterr()
    assert told.err == f"barnabas: {plain(name)} is not there\n"
    line, for_programs = told.out.splitlines()
    assert line == plain(name)
    assert json.loads(for_programs) == {"group": name}
    assert for_programs.isprintable()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        ("503 Service Unavailable", '{"status": "starting or stopping"}', "is starting or stopping"),
        ("503 Service Unavailable", "why", "is starting or stopping"),
        ("503 Service Unavailable", '["why"]', "is starting or stopping"),
        ("503 Service Unavailable", '{"status": "not carrying", "why": "no Kafka"}', "carries nothing: no Kafka"),
        ("421 Misdirected Request", "why", "answers with status 421: why"),
    ],
)
def test_health_is_1_for_a_broker_that_answers_and_does_not_serve(status: str, body: str, told: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            sock, _ = listening.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(f"HTTP/1.1 {status}\r\n\r\n{body}\n".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        ended = run("health", f"127.0.0.1:{listening.getsockname()[1]}")
        thread.join()
    assert ended.returncode == 1
    assert told in ended.stderr
    assert ended.stdout == ""


def test_top_shows_what_is_held_for_requests_of_which_kind_and_by_whom() -> None:
    mib = 1024 * 1024
    memory = {
        "held_bytes": 130 * mib,
        "limit_bytes": 160 * mib,
        "by_kind": {"received": 129 * mib, "requests": mib, "parked": 0},
        "largest": [
            {"connection": 0, "client_host": "", "held_bytes": 80 * mib},
            {"connection": 7, "client_host": "10.0.0.3", "held_bytes": mib},
        ],
        "waiting": 40,
        "ended": 1,
    }
    state = {"memory": memory, "counts": {"partitions": 12_000, "connections": 3}}
    lines = render("s", state, None, 0.0)
    assert lines[0] == "barnabas s: 12000 partitions, 3 connections, 0 parked operations, 0 fetch sessions"
    assert lines[1] == (
        "memory held for requests: 130.0 MiB of 160.0 MiB (received 129.0 MiB, requests 1.0 MiB); "
        "of it 80.0 MiB are free buffers for what comes next; "
        "most by 10.0.0.3 (connection 7), 1.0 MiB; 40 connections waiting for memory; 1 connection ended for memory"
    )
    memory["largest"][1]["held_bytes"] -= 1  # type: ignore[index]
    assert "most by" not in render("s", state, None, 0.0)[1]


def test_top_says_of_what_a_connection_is_muted() -> None:
    connection = {
        "id": 7,
        "client_host": "10.0.0.3",
        "dialect": "kafka",
        "client_software_name": "",
        "client_software_version": "",
        "requests": 3,
        "parked_api_key": None,
        "stalled": False,
        "muted": True,
        "short_of_memory": False,
    }
    (line,) = [one for one in render("s", {"connections": [connection]}, None, 0.0) if "10.0.0.3" in one]
    assert line.endswith("muted: over its quota")


def test_an_address_may_say_that_it_is_plain() -> None:
    assert address("PLAINTEXT://localhost:9092") == address("localhost:9092") == "localhost:9092"
    for text in ("SSL://localhost:9092", "http://localhost:9092"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"write host:port, without (SSL|http)://"):
            address(text)


def test_the_directory_of_a_cluster_stands_for_all_of_its_brokers(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, 2, 0)
    assert address(str(tmp_path)) == ",".join(f"127.0.0.1:{one.port}" for one in plan.brokers)
    assert address(f"{tmp_path}/broker-1") == f"{tmp_path}/broker-1"
    for command in ("top", "health"):
        ended = run(command, str(tmp_path))
        assert ended.returncode, ended.stdout
        assert f"{tmp_path} is of several brokers; name one: {tmp_path}/broker-1" in ended.stderr
