"""`barnabas cluster grow`: three controllers of one, under load; what cuts it short, and what it refuses."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from barnabas import Admin
from barnabas.cli import cluster_grow
from barnabas.cli.cluster_files import GROWING, controllers_of, controllers_settings, plan_for
from barnabas.cli.cluster_verbs import Refused, steer
from barnabas.client.async_admin import NewTopic
from tests.cli.process import run
from tests.cli.test_cluster_up import PARTITIONS, Sent, Up, all_in_sync, read


def quorum(servers: str, without: int = 0) -> dict[str, Any]:
    """What the quorum tells once somebody else leads it."""
    for _ in range(60):
        told = run("cluster", "-b", servers, "--json")
        if not told.returncode:
            found: dict[str, Any] = json.loads(told.stdout)["quorum"]
            if found["leader_id"] != without:
                return found
    raise AssertionError(told.stdout + told.stderr)


def voters(told: dict[str, Any]) -> list[int]:
    return [one["replica_id"] for one in told["voters"]]


@pytest.mark.slow
def test_one_broker_becomes_three_controllers_under_load(tmp_path: Path) -> None:
    up = Up(tmp_path / "c", "--brokers", "1", "--port", "0")
    sent, over = Sent(up.servers), threading.Event()
    try:
        with Admin(bootstrap_servers=up.servers) as admin:
            admin.create_topics(NewTopic("t", PARTITIONS, 1))

        def go_on() -> None:
            while not over.is_set():
                sent.send(5)

        load = threading.Thread(target=go_on)
        load.start()
        grown = run("cluster", "grow", "--dir", str(up.directory))
        over.set()
        load.join()
        assert not grown.returncode, grown.stderr
        assert "brokers 1, 2, 3 are the controllers now" in grown.stdout
        sent.send(10)
        assert not sent.failed
        assert up.popen.poll() is None, "`up` goes on"
        with Admin(bootstrap_servers=up.servers) as admin:
            servers = ",".join(f"{host}:{port}" for _, host, port in admin.describe_cluster().brokers)
            assert admin.create_topics("new") == {"new": None}
        (new,) = all_in_sync(servers, "new")
        assert sorted(new["replicas"]) == [1, 2, 3]
        before = quorum(servers)
        assert voters(before) == [1, 2, 3]
        said = (up.directory / "broker-1.log").read_text(encoding="utf-8")
        assert "the node id 1 is in use" not in said, "nobody waited for the session of who decided alone"
        assert read(servers, len(sent.acknowledged)) == sent.acknowledged
        steer("kill", up.directory, before["leader_id"])
        assert voters(quorum(servers, without=before["leader_id"])) == [1, 2, 3], "another one decides"
        with pytest.raises(Refused, match="brokers 1, 2, 3 are controllers already"):
            steer("grow", up.directory, None)
    finally:
        over.set()
        sent.close()
        if up.popen.poll() is not None:  # nobody else ends what `grow` has started
            run("cluster", "stop", "--dir", str(up.directory))
        up.end()


@pytest.mark.slow
def test_what_was_cut_short_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    up = Up(tmp_path / "c", "--brokers", "2", "--port", "0")
    try:
        with Admin(bootstrap_servers=up.servers) as admin:
            admin.create_topics(NewTopic("t", 1, 2))
        assert not run("cluster", "add", "--dir", str(up.directory)).returncode
    finally:
        up.end()

    def cut(*_told: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cluster_grow, "with_controllers", cut)
        with pytest.raises(KeyboardInterrupt):
            steer("grow", up.directory, None)
    assert controllers_of(up.directory) == [1]
    assert not (up.directory / GROWING).exists()
    with pytest.raises(Refused, match="two quorums could decide at once"):
        steer("start", up.directory, 1)
    steer("grow", up.directory, None)
    assert controllers_of(up.directory) == [1, 2, 3]
    assert controllers_settings(up.directory)["default.replication.factor"] == "2", "nobody could be told of another"
    again = Up(up.directory)
    try:
        assert voters(quorum(again.servers)) == [1, 2, 3]
        with Admin(bootstrap_servers=again.servers) as admin:
            assert "t" in admin.list_topics()
    finally:
        again.end()


@pytest.mark.slow
def test_one_that_cannot_start_again_leaves_the_other_two(tmp_path: Path) -> None:
    up = Up(tmp_path / "c", "--brokers", "2", "--port", "0")
    try:
        assert not run("cluster", "add", "--dir", str(up.directory)).returncode
        with open(up.directory / "broker-3.properties", "a", encoding="utf-8") as out:
            out.write("controler=1\n")
        grown = run("cluster", "grow", "--dir", str(up.directory))
        assert grown.returncode
        assert "broker 3 cannot serve: controler" in grown.stderr
        assert voters(quorum(up.servers)) == [1, 2, 3]
    finally:
        run("cluster", "stop", "--dir", str(up.directory))
        up.end()


def test_where_brokers_are_missing_the_controller_must_run(tmp_path: Path) -> None:
    plan_for(tmp_path, 2, 0)
    with pytest.raises(Refused, match="2 brokers of 3 are there, and the controller, 1, does not run; start it first"):
        steer("grow", tmp_path, None)
    assert controllers_of(tmp_path) == [1]


def test_three_controllers_are_enough(tmp_path: Path) -> None:
    plan_for(tmp_path, 3, 0)
    with pytest.raises(Refused, match="brokers 1, 2, 3 are controllers already"):
        steer("grow", tmp_path, None)
