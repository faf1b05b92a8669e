"""`cluster stop`, `start`, `kill`, `pause`, `resume` and `add`: what they do to processes, and what they refuse."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas import Admin, NewTopic
from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept
from barnabas.cli import cluster, cluster_processes, cluster_verbs
from barnabas.cli.cluster import BROKERS_MAX
from barnabas.cli.cluster_files import Place, Plan, grown, plan_for, plan_of, settings_of, write_settings
from barnabas.cli.cluster_processes import find, stem
from barnabas.cli.cluster_up import Cluster
from barnabas.cli.cluster_verbs import Refused, steer
from barnabas.cli.look import state
from barnabas.protocol.errors import ConfigError
from tests.cli.process import BOUND_S, run
from tests.cli.test_cluster_up import Up, all_in_sync

Stands = Callable[[int], subprocess.Popen[bytes]]


@pytest.fixture
def stands(tmp_path: Path) -> Iterator[Stands]:
    """Starts what looks as a broker does: a process whose command line names the broker's settings."""
    made: list[subprocess.Popen[bytes]] = []

    def start(node_id: int) -> subprocess.Popen[bytes]:
        words = ["--config", f"{stem(tmp_path, node_id)}.properties", "--log-format", "text"]
        code = "import signal; print(1, flush=True); signal.pause()"
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        Path(f"{stem(tmp_path, node_id)}.pid").write_text(f"{process.pid}\n")
        made.append(process)
        return process

    yield start
    for process in made:
        process.kill()
        process.wait(BOUND_S)
        assert process.stdout is not None
        process.stdout.close()


def test_a_number_that_another_process_has_by_now_is_no_brokers(tmp_path: Path, stands: Stands) -> None:
    plan_for(tmp_path, 2, 0)
    assert find(tmp_path, 1) is None, "no file"
    process = stands(1)
    assert find(tmp_path, 1) == (process.pid, False)
    Path(f"{stem(tmp_path, 2)}.pid").write_text(f"{process.pid}\n")
    assert find(tmp_path, 2) is None, "the process is broker 1"
    Path(f"{stem(tmp_path, 2)}.pid").write_text(f"{os.getpid()}\n")
    assert find(tmp_path, 2) is None, "the process is this one"
    for odd in ("", "0\n", "-1\n", "word\n", f"{2**22 + 1}\n"):
        Path(f"{stem(tmp_path, 2)}.pid").write_text(odd)
        assert find(tmp_path, 2) is None
    process.kill()
    process.wait(BOUND_S)
    assert find(tmp_path, 1) is None


def test_who_was_killed_and_not_yet_waited_for_does_not_run(tmp_path: Path, stands: Stands) -> None:
    plan_for(tmp_path, 1, 0)
    process = stands(1)
    assert not steer("kill", tmp_path, 1)
    assert process.returncode is None, "nobody asked for its code yet"
    assert find(tmp_path, 1) is None
    assert process.wait(BOUND_S) == -9


def test_pause_and_resume(tmp_path: Path, stands: Stands, capsys: pytest.CaptureFixture[str]) -> None:
    plan_for(tmp_path, 2, 0)
    process = stands(2)
    with pytest.raises(Refused, match="broker 2 is not paused"):
        steer("resume", tmp_path, 2)
    assert not steer("pause", tmp_path, 2)
    assert find(tmp_path, 2) == (process.pid, True)
    with pytest.raises(Refused, match=r"broker 2 is paused already$"):
        steer("pause", tmp_path, 2)
    again = f"barnabas cluster resume 2 --dir {tmp_path}"
    with pytest.raises(Refused, match=f"broker 2 is paused already; {re.escape(again)} lets it go on"):
        steer("start", tmp_path, 2)
    assert not steer("resume", tmp_path, 2)
    assert find(tmp_path, 2) == (process.pid, False)
    assert capsys.readouterr().out == f"broker 2 is paused; {again} lets it go on\nbroker 2 goes on\n"


def test_what_to_type_next_names_a_directory_that_is_not_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    usual, odd = cluster._directory(cluster.parser().read(["stop"])), tmp_path / "my trio"
    for directory, where in ((usual, ""), (odd, f" --dir '{odd}'")):
        plan_for(directory, 1, 0)
        with pytest.raises(Refused, match=rf"does not run; barnabas cluster start 1{re.escape(where)} starts it$"):
            steer("kill", directory, 1)


def test_one_that_is_paused_goes_on_to_end(tmp_path: Path, stands: Stands, capsys: pytest.CaptureFixture[str]) -> None:
    plan_for(tmp_path, 2, 0)
    process = stands(1)
    steer("pause", tmp_path, 1)
    assert not steer("stop", tmp_path, 1)
    assert process.wait(BOUND_S) == -15
    assert "broker 1 is stopped, it was paused" in capsys.readouterr().out


def test_the_whole_cluster_is_stopped(tmp_path: Path, stands: Stands, capsys: pytest.CaptureFixture[str]) -> None:
    plan_for(tmp_path, 3, 0)
    made = [stands(node_id) for node_id in (1, 3)]
    assert not steer("stop", tmp_path, None)
    assert [one.wait(BOUND_S) for one in made] == [-15, -15]
    assert capsys.readouterr().out == f"2 of 3 brokers were running, all are stopped; data: {tmp_path}\n"
    with pytest.raises(Refused, match=r"no broker of the cluster in .* runs"):
        steer("stop", tmp_path, None)


@pytest.mark.parametrize(
    ("told", "last"),
    [
        ({}, 1),
        ({1: Kept(4, 1, 2), 2: Kept(4, 2, 2), 3: Kept(3, 3, 3)}, 2),
        ({1: Kept(4, 1, 1), 2: Kept(5, 2, 3), 3: Kept(5, 3, 3)}, 3),
        ({1: Kept(4, 1, 1), 2: Kept(5, 2)}, 1),  # nobody was elected in epoch 5, and 3 has no file
    ],
)
def test_the_active_controller_is_stopped_last(
    tmp_path: Path, stands: Stands, monkeypatch: pytest.MonkeyPatch, told: dict[int, Kept], last: int
) -> None:
    plan_for(tmp_path, 3, 0)
    for node_id, each in told.items():
        file = tmp_path / f"broker-{node_id}" / kept.FILE
        file.parent.mkdir(parents=True)
        file.write_bytes(kept.dump(each, [1, 2, 3]))
    made = {stands(node_id).pid: node_id for node_id in (1, 2, 3)}
    ended: list[int] = []

    def tell(pid: int, number: int) -> None:
        ended.append(made[pid])
        os.kill(pid, number)

    monkeypatch.setattr(cluster_processes, "tell", tell)
    assert not steer("stop", tmp_path, None)
    assert ended == [*(one for one in (1, 2, 3) if one != last), last]


@pytest.mark.parametrize("verb", ["stop", "kill", "pause", "resume"])
def test_what_is_not_there_is_refused(tmp_path: Path, verb: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no cluster in .*; barnabas cluster up --dir makes one"):
        steer(verb, tmp_path, 1)
    plan_for(tmp_path, 3, 0)
    with pytest.raises(ConfigError, match="the cluster has no broker 7, it has 1, 2 and 3"):
        steer(verb, tmp_path, 7)
    with pytest.raises(Refused, match=r"broker 2 does not run; barnabas cluster start 2 --dir .+ starts it"):
        steer(verb, tmp_path, 2)


def test_who_does_not_serve_though_its_controllers_run_is_sent_to_its_log(
    tmp_path: Path, stands: Stands, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_for(tmp_path, 3, 0)
    for node_id in (1, 3):
        stands(node_id)
    waits = [sys.executable, "-c", "import signal; signal.pause()"]
    monkeypatch.setattr(cluster_verbs, "launch", lambda *_: subprocess.Popen(waits, stdout=subprocess.PIPE, text=True))
    monkeypatch.setattr(cluster_verbs, "READY_S_MAX", 0.05)
    with pytest.raises(Refused) as told:
        steer("start", tmp_path, 2)
    assert str(told.value) == (
        "broker 2 did not serve within 0.05 s and was ended, and of the controllers (1, 2, 3) enough others run (2): "
        f"see {tmp_path / 'broker-2.log'} for why"
    ), "such as another secret, of which its log tells"


def test_one_more_that_waits_for_a_majority_in_vain_is_told_of_it(
    tmp_path: Path, stands: Stands, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_for(tmp_path, 3, 0)
    stands(1)
    waits = [sys.executable, "-c", "import signal; signal.pause()"]
    monkeypatch.setattr(cluster_verbs, "launch", lambda *_: subprocess.Popen(waits, stdout=subprocess.PIPE, text=True))
    monkeypatch.setattr(cluster_verbs, "READY_S_MAX", 0.05)
    with pytest.raises(Refused) as told:
        cluster_verbs.start(tmp_path, [Place(4, 0, 0)])
    assert str(told.value) == (
        "broker 4 did not serve within 0.05 s and was ended: of the controllers (1, 2, 3) 1 others run, and nobody "
        f"serves without a majority of them; once none runs, barnabas cluster up --dir {tmp_path} starts all"
    )


def test_up_leaves_brokers_alone_that_run_without_it(
    tmp_path: Path, stands: Stands, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_for(tmp_path, 2, 0)
    process = stands(2)
    assert Cluster(tmp_path, plan, ()).run() == 1
    assert "broker 2 runs already, without its `cluster up`; barnabas cluster stop --dir" in capsys.readouterr().err
    assert process.poll() is None
    assert find(tmp_path, 1) is None


def test_one_more_broker_has_the_controllers_settings_and_its_own(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, 2, 0)
    with open(tmp_path / "broker-1.properties", "a") as file:
        file.write("# ours\nnum.partitions=4\n")
    place = grown(tmp_path, plan)
    assert place.node_id == 3
    now = plan_of(tmp_path)
    assert now == Plan(plan.cluster_id, (*plan.brokers, place))
    assert plan_for(tmp_path, None, None) == now, "a later `up` has three without being told"
    first = (tmp_path / "broker-1.properties").read_text().splitlines()
    lines = (tmp_path / "broker-3.properties").read_text().splitlines()
    own = {"node.id=3", f"log.dirs={tmp_path}/broker-3"}
    assert set(lines) - set(first) == {*own, next(one for one in lines if one.startswith("listeners="))}
    assert "num.partitions=4" in lines
    assert len([one for one in lines if one.startswith(("node.id", "log.dirs", "listeners"))]) == 3
    most = Plan("c", tuple(Place(number, 20_000 + number, 30_000 + number) for number in range(1, BROKERS_MAX + 1)))
    with pytest.raises(ConfigError, match="no more than 16"):
        grown(tmp_path, most)


def test_settings_of_all_are_kept_for_those_who_are_started_later(tmp_path: Path) -> None:
    assert settings_of(tmp_path) == []
    write_settings(tmp_path, ["num.partitions=2", "log.retention.ms=5"])
    assert settings_of(tmp_path) == ["num.partitions=2", "log.retention.ms=5"]


def test_a_node_is_a_number() -> None:
    assert cluster.parser().read(["kill", "2"]).node_id == 2
    assert cluster.parser().read(["stop"]).node_id is None
    for words in (["kill"], ["kill", "one"], ["kill", "-1"], ["add", "1"], ["pause", "12345678901"]):
        with pytest.raises(SystemExit):
            cluster.parser().read(words)


@pytest.mark.slow
def test_brokers_come_and_go_by_command(tmp_path: Path) -> None:
    where = tmp_path / "trio"
    up = Up(where, "--brokers", "2", "--port", "0")

    def told(verb: str, *words: str) -> str:
        done = run("cluster", verb, *words, "--dir", str(where))
        assert not done.returncode, done.stderr
        return done.stdout

    try:
        assert "broker 2 is killed" in told("kill", "2")
        assert "broker 2 serves on 127.0.0.1:" in told("start", "2")
        again = run("cluster", "start", "2", "--dir", str(where))
        assert again.returncode == 1
        assert "broker 2 is running already" in again.stderr
        assert "broker 3 serves on 127.0.0.1:" in told("add")
        described = run("cluster", "-b", up.servers, "--json").stdout
        assert described.count('"port"') == 3
        assert "broker 2 is stopped" in told("stop", "2")
        assert "2 of 3 brokers were running, all are stopped" in told("stop")
        assert up.popen.wait(BOUND_S) == 0
    finally:
        up.end()
    assert sum("broker 2 has ended (-9), the others go on" in line for line in up.errors) == 1
    assert [find(where, node_id) for node_id in (1, 2, 3)] == [None, None, None]


def test_who_is_started_before_a_majority_of_the_controllers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_for(tmp_path, 3, 0)
    made: list[subprocess.Popen[str]] = []

    def launch(code: str) -> None:
        words = [sys.executable, "-c", code]

        def one(*_: object) -> subprocess.Popen[str]:
            made.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            return made[-1]

        monkeypatch.setattr(cluster_verbs, "launch", one)

    launch("import signal; signal.pause()")
    monkeypatch.setattr(cluster_verbs, "EARLY_S", 0.0)
    try:
        assert not steer("start", tmp_path, 2)
        assert capsys.readouterr().out == (
            "broker 2 runs, and serves once a majority of the controllers (1, 2, 3) does; "
            f"barnabas cluster start 1 --dir {tmp_path} is next\n"
        )
    finally:
        made[0].kill()
        made[0].wait(BOUND_S)
    launch("")
    monkeypatch.setattr(cluster_verbs, "EARLY_S", BOUND_S)
    Path(f"{stem(tmp_path, 2)}.log").write_text("barnabas: its port is in use\n")
    with pytest.raises(Refused, match="broker 2 cannot serve: its port is in use"):
        steer("start", tmp_path, 2)


@pytest.mark.slow
def test_brokers_that_were_all_killed_are_started_one_after_the_other(tmp_path: Path) -> None:
    where = tmp_path / "trio"
    up = Up(where, "--brokers", "3", "--port", "0")

    def told(verb: str, *words: str) -> str:
        done = run("cluster", verb, *words, "--dir", str(where))
        assert not done.returncode, done.stderr
        return done.stdout

    try:
        for node_id in ("1", "2", "3"):
            told("kill", node_id)
        assert up.popen.wait(BOUND_S) == 0, "nobody is left to look after"
        assert told("start", "1").startswith("broker 1 runs, and serves once a majority")
        assert "broker 2 serves on 127.0.0.1:" in told("start", "2")
        assert "broker 3 serves on 127.0.0.1:" in told("start", "3")
        all_in_sync(up.servers)
        assert "3 of 3 brokers were running, all are stopped" in told("stop")
    finally:
        up.end()


@pytest.mark.slow
def test_the_nine_steps_by_hand(tmp_path: Path) -> None:
    """docs/STORIES.md, "By hand": what stands there, command by command, and who waits at the leader after each."""
    page = (Path(__file__).parents[2] / "docs" / "STORIES.md").read_text(encoding="utf-8")
    found = re.findall(r"barnabas (?:cluster up|produce|consume) (.*?)(?: &)?\n", page)
    begins, first, reads, second = (shlex.split(words) for words in found[:4])
    settings = tuple(word for word in begins if "=" in word)
    where = tmp_path / "four"
    up = Up(where, "--brokers", "4", "--port", "0", settings=settings)
    try:
        with Admin(bootstrap_servers=up.servers) as admin:
            admin.create_topics(NewTopic("story", 2, 4))
            one = admin.describe_topics("story")["story"].partitions[0]
        leader = up.servers.split(",")[one.leader - 1]

        def typed(verb: str, words: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
            return run(verb, *(leader if word == "$L" else word for word in words), text=text)

        followers = [node_id for node_id in one.replicas if node_id != one.leader]
        for follower in followers:
            steer("pause", where, follower)
        with ThreadPoolExecutor() as beside:
            try:
                sent = beside.submit(typed, "produce", first, "one\n")
                until_there_wait(leader, produces=1, fetches=0)
                assert "Produce" in run("top", leader, "--once").stdout
                read = beside.submit(typed, "consume", reads)
                until_there_wait(leader, produces=1, fetches=1)
                for number, follower in enumerate(followers, 1):
                    assert not sent.done()
                    steer("resume", where, follower)
                    until_there_wait(leader, produces=int(number < len(followers)), fetches=1 + number)
            finally:
                for follower in followers:
                    with suppress(Refused):
                        steer("resume", where, follower)
            assert not sent.result(BOUND_S).returncode
            assert high_watermark(leader) == 1
            assert not read.done()
            assert not typed("produce", second, f"{2:0400}\n").returncode
            assert read.result(BOUND_S).stdout.split() == ["one", f"{2:0400}"]
    finally:
        up.end()


def until_there_wait(leader: str, *, produces: int, fetches: int) -> None:
    """Until so many wait at story-0; each look is a connection, of which one address has so many a second."""
    until_s = time.monotonic() + BOUND_S
    while (found := (parked(leader, "Produce"), parked(leader, "Fetch"))) != (produces, fetches):
        assert time.monotonic() < until_s, found
        time.sleep(0.1)


def parked(server: str, name: str) -> int:
    """How many wait at story-0 in one purgatory of a broker."""
    operations = next(each["operations"] for each in state(server)["purgatories"] if each["name"] == name)
    return sum("story-0" in each["keys"] for each in operations)


def high_watermark(server: str) -> int:
    """Of story-0, as a broker has it."""
    parts = state(server)["partitions"]
    return next(int(each["high_watermark"]) for each in parts if (each["topic"], each["partition"]) == ("story", 0))


def test_who_was_just_launched_is_not_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command line comes a moment later than its number."""
    place = plan_for(tmp_path, 3, 0).place(2)
    monkeypatch.setattr(cluster_verbs, "find", lambda _, one: cluster_processes.Running(1, False) if one == 1 else None)
    process: Any = None
    assert not cluster_verbs._is_early(tmp_path, place, process), "with the first it is a majority"
