"""`barnabas cluster up`: three real processes, which are killed under a real producer; nothing acknowledged is lost."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas import Admin, Consumer, Producer
from barnabas.cli import cluster, cluster_files, cluster_processes
from barnabas.cli.cluster_files import plan_for, plan_of
from barnabas.cli.cluster_up import Cluster
from barnabas.client.async_admin import NewTopic
from barnabas.protocol.errors import ConfigError
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import BOUND_S, clean_environment, run

SETTINGS = ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
PARTITIONS = 3


class Up:
    """`barnabas cluster up` in a directory; `servers` is known once it serves."""

    def __init__(self, directory: Path, *options: str, settings: tuple[str, ...] = SETTINGS) -> None:
        self.directory = directory
        words = [word for one in settings for word in ("--set", one)]
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "cluster", "up", "--dir", str(directory), *options, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        self.errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        watchdog = threading.Timer(BOUND_S, self.popen.kill)
        watchdog.start()
        assert self.popen.stdout is not None
        self.banner = self.popen.stdout.readline()
        watchdog.cancel()
        self.servers = self.banner.partition(" on ")[2].partition(";")[0]

    def _read_errors(self) -> None:
        assert self.popen.stderr is not None
        self.errors += self.popen.stderr

    def kill(self, node_id: int) -> None:
        """SIGKILL to one broker."""
        os.kill(self.pid(node_id), signal.SIGKILL)

    def pid(self, node_id: int) -> int:
        return int((self.directory / f"broker-{node_id}.pid").read_text())

    def end(self) -> int:
        """Ctrl-C, and its exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGINT)
        code = self.popen.wait(BOUND_S)
        self._reader.join(BOUND_S)
        for pipe in (self.popen.stdout, self.popen.stderr):
            assert pipe is not None
            pipe.close()
        return code


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path / "trio", "--brokers", "3", "--port", "0")
    try:
        yield cluster
    finally:
        cluster.end()


class Sent:
    """A producer with acks=all, and what of it was acknowledged, by partition and offset."""

    def __init__(self, servers: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[Exception] = []
        self._number = 0
        self._producer = Producer(bootstrap_servers=servers, acks="all", linger_ms=0, delivery_timeout_ms=50_000)

    def send(self, count: int) -> None:
        """Send so many to each partition, and wait for what becomes of them."""
        for _ in range(count):
            for partition in range(PARTITIONS):
                value = b"record %d" % self._number
                self._number += 1
                self._producer.send("t", value, partition=partition, on_delivery=self._told(value))
        self._producer.flush(BOUND_S)
        assert not self.failed, self.failed[0]
        assert len(self.acknowledged) == self._number

    def _told(self, value: bytes) -> Callable[[Any, Exception | None], None]:
        def told(metadata: Any, error: Exception | None) -> None:
            if error is not None:
                self.failed.append(error)
            else:
                self.acknowledged[metadata.partition, metadata.offset] = value

        return told

    def close(self) -> None:
        self._producer.close()


def read(servers: str, count: int) -> dict[tuple[int, int], bytes]:
    """All there is in the topic, at least `count` records."""
    found: dict[tuple[int, int], bytes] = {}
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", number) for number in range(PARTITIONS)])
        while len(found) < count:
            records = consumer.poll(BOUND_S)
            assert records, f"{len(found)} of {count} are there"
            found |= {(one.partition, one.offset): bytes(one.value) for one in records}
    return found


def all_in_sync(servers: str, topic: str = "t") -> list[dict[str, Any]]:
    """The partitions of a topic, as `cluster status` tells them once all replicas are in sync."""
    for _ in range(60):
        status = run("cluster", "status", "-b", servers, "--json")
        if not status.returncode:
            return [one for one in map(json.loads, status.stdout.splitlines()) if one.get("topic") == topic]
    raise AssertionError(status.stdout + status.stderr)


def checksum(records: dict[tuple[int, int], bytes]) -> int:
    return zlib.crc32(b"".join(b"%d-%d:%b;" % (*at, value) for at, value in sorted(records.items())))


@pytest.mark.slow
def test_whoever_is_killed_nothing_acknowledged_is_lost(up: Up) -> None:
    assert up.banner.startswith("barnabas: 3 brokers serve on 127.0.0.1:"), up.errors
    with Admin(bootstrap_servers=up.servers) as admin:
        admin.create_topics(NewTopic("t", PARTITIONS, 3, {"min.insync.replicas": 2}))
        leaders = {one.partition: one.leader for one in admin.describe_topics("t")["t"].partitions}
    assert sorted(leaders.values()) == [1, 2, 3]
    sent = Sent(up.servers)
    sent.send(50)
    up.kill(3)  # it leads one partition, and follows the two others
    sent.send(50)
    options = [word for one in SETTINGS for word in ("--set", one)]
    back = subprocess.Popen(
        [sys.executable, "-m", "barnabas.broker", "--config", str(up.directory / "broker-3.properties"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
    )
    try:
        assert back.stdout is not None
        assert back.stdout.readline(), "it does not come back"
        sent.send(50)
        found = all_in_sync(up.servers)
        assert sorted(one["partition"] for one in found) == [0, 1, 2]
        assert all(sorted(one["isr"]) == [1, 2, 3] for one in found)
        up.kill(2)
        sent.send(50)
        sent.close()
        records = read(up.servers, len(sent.acknowledged))
        assert checksum({at: records[at] for at in sent.acknowledged}) == checksum(sent.acknowledged)
        assert len(set(records.values())) == len(records), "each is there once"
    finally:
        back.terminate()
        back.wait(BOUND_S)
        assert back.stdout is not None
        back.stdout.close()
    assert up.end() == 0
    assert any("broker 3 has ended (-9), the others go on" in line for line in up.errors)


@pytest.mark.slow
def test_another_controller_decides_once_the_active_one_is_killed(up: Up) -> None:
    with Admin(bootstrap_servers=up.servers) as admin:
        admin.create_topics(NewTopic("t", PARTITIONS, 3, {"min.insync.replicas": 2}))
        before = admin.describe_quorum()
        assert [one.replica_id for one in before.voters] == [1, 2, 3]
        sent = Sent(up.servers)
        sent.send(10)
        up.kill(before.leader_id)
        sent.send(10)
        sent.close()
        admin.create_topics(NewTopic("after", 1, 2))
        after = admin.describe_quorum()
        assert (after.leader_id != before.leader_id, after.leader_epoch > before.leader_epoch) == (True, True)
    records = read(up.servers, len(sent.acknowledged))
    assert {at: records[at] for at in sent.acknowledged} == sent.acknowledged


@pytest.mark.slow
def test_a_wiped_disk_rejoins(up: Up) -> None:
    with Admin(bootstrap_servers=up.servers) as admin:
        admin.create_topics(NewTopic("t", PARTITIONS, 3, {"min.insync.replicas": 2}))
    sent = Sent(up.servers)
    sent.send(20)
    up.kill(3)
    properties = up.directory / "broker-3.properties"
    (place,) = (line for line in properties.read_text().splitlines() if line.startswith("log.dirs="))
    shutil.rmtree(place.partition("=")[2])
    sent.send(20)
    options = [word for one in SETTINGS for word in ("--set", one)]
    back = subprocess.Popen(
        [sys.executable, "-m", "barnabas.broker", "--config", str(properties), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
    )
    try:
        assert back.stdout is not None
        assert back.stdout.readline(), "it does not come back"
        assert all(sorted(one["isr"]) == [1, 2, 3] for one in all_in_sync(up.servers))
        up.kill(2)
        sent.send(20)
        sent.close()
        records = read(up.servers, len(sent.acknowledged))
        assert {at: records[at] for at in sent.acknowledged} == sent.acknowledged
    finally:
        back.kill()
        back.wait(BOUND_S)
        assert back.stdout is not None
        back.stdout.close()


@pytest.mark.slow
def test_whoever_may_lead_is_told(tmp_path: Path) -> None:
    pair = Up(tmp_path / "pair", "--brokers", "2", "--port", "0")
    try:
        with Admin(bootstrap_servers=pair.servers) as admin:
            admin.create_topics(NewTopic("t", PARTITIONS, 2, {"min.insync.replicas": 2}))
        pair.kill(2)
        assert {each["partition"]: (each["in_sync"], each["eligible"]) for each in may_lead(pair.servers)} == {
            number: ([1], [2]) for number in range(PARTITIONS)
        }
    finally:
        pair.end()


def may_lead(servers: str) -> list[dict[str, Any]]:
    """The partitions of the topic, once who was killed has left every ISR."""
    for _ in range(60):
        described = run("topics", "describe", "t", "-b", servers, "--json")
        assert described.returncode == 0, described.stderr
        found: list[dict[str, Any]] = json.loads(described.stdout)["partitions"]
        if all(len(each["in_sync"]) == 1 for each in found):
            return found
    raise AssertionError(found)


@pytest.mark.slow
def test_a_cluster_comes_up_again_where_it_was(tmp_path: Path) -> None:
    first = Up(tmp_path / "pair", "--brokers", "2", "--port", "0")
    try:
        assert first.servers.count(",") == 1, first.errors
        secret = tmp_path / "pair" / "secret"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert secret.read_text().strip() not in "".join(path.read_text() for path in (tmp_path / "pair").glob("*.log"))
        with Admin(bootstrap_servers=first.servers) as admin:
            admin.create_topics(NewTopic("t", 1, 2))
    finally:
        assert first.end() == 0
    second = Up(tmp_path / "pair", "--brokers", "2")
    try:
        third = run("cluster", "up", "--dir", str(tmp_path / "pair"), "--brokers", "2")
        assert third.returncode == 2
        assert "its cluster is up already" in third.stderr
        assert "--data-dir" not in third.stderr, "that is no option of this command"
        assert second.servers == first.servers
        with Admin(bootstrap_servers=second.servers) as admin:
            (one,) = admin.describe_topics("t")["t"].partitions
            assert sorted(one.replicas) == [1, 2]
    finally:
        assert second.end() == 0


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, 3, 0)
    assert plan_for(tmp_path, 3, None) == plan
    assert len({port for one in plan.brokers for port in (one.port, one.broker_port)}) == 6
    with pytest.raises(ConfigError, match="is of a cluster of 3, not of 2; write --brokers 3"):
        plan_for(tmp_path, 2, None)
    with pytest.raises(ConfigError, match=f"has port {plan.brokers[0].port}, not 1"):
        plan_for(tmp_path, 3, 1)
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(ConfigError, match="is not what `cluster up` wrote"):
        plan_for(tmp_path, 3, None)


def test_ports_follow_the_first_and_settings_go_by_the_number_of_brokers(tmp_path: Path) -> None:
    plan = plan_for(tmp_path / "five", 5, 20_000)
    assert [one.port for one in plan.brokers] == [20_000, 20_001, 20_002, 20_003, 20_004]
    lines = (tmp_path / "five" / "broker-5.properties").read_text().splitlines()
    replicas = {"default.replication.factor=3", "offsets.topic.replication.factor=3"}
    assert {"node.id=5", "min.insync.replicas=2", *replicas} <= set(lines)
    plan_for(tmp_path / "one", 1, 20_000)
    lines = (tmp_path / "one" / "broker-1.properties").read_text().splitlines()
    assert {"min.insync.replicas=1", "offsets.topic.replication.factor=1"} <= set(lines)


def test_its_files_are_their_owners_alone_in_any_directory_and_no_link_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, other = tmp_path / "shared", tmp_path / "somebodys"
    directory.mkdir()
    directory.chmod(0o755)
    other.write_text("as it was")
    before = os.umask(0)
    try:
        plan = plan_for(directory, 1, 0)
        cluster_files.write_settings(directory, SETTINGS)
        monkeypatch.setattr(sys, "executable", shutil.which("true"))
        one = cluster_processes.launch(directory, plan.brokers[0], ())
        one.communicate()
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}
    assert {"broker-1.log", "broker-1.pid", "broker-1.properties", "cluster.json", "secret"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes
    (directory / "broker-1.log").unlink()
    (directory / "broker-1.log").symlink_to(other)
    with pytest.raises(OSError, match=r"broker-1\.log"):
        cluster_processes.launch(directory, plan.brokers[0], ())
    (directory / "broker-1.tmp").symlink_to(other)
    (directory / "cluster.json").unlink()
    with pytest.raises(OSError, match=r"broker-1\.tmp"):
        plan_for(directory, 1, 0)
    assert other.read_text() == "as it was"


class Dies:
    """A process that ends without a word, a look after its output has ended."""

    def __init__(self) -> None:
        self.stdout = io.StringIO("")
        self.codes = [None, None, 1]

    def poll(self) -> int | None:
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]


def test_who_ends_without_its_line_does_not_serve(tmp_path: Path) -> None:
    one = Cluster(tmp_path, plan_for(tmp_path, 1, 0), ())
    (tmp_path / "broker-1.log").write_text("barnabas: no room\n")
    one._processes[1] = cast("Any", Dies())
    assert one._wait_ready() == "broker 1 cannot serve: no room"


@pytest.mark.parametrize("name", ["with,comma", "with\\backslash", "with\nline", "with\udcffbytes"])
def test_a_directory_whose_name_no_properties_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name one of printable characters, without commas and backslashes"):
        plan_for(tmp_path / name, 1, 0)
    assert not list(tmp_path.iterdir())


def test_a_port_for_brokers_is_none_of_those_for_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [[20_001, 30_000], [30_001, 20_000], [30_002, 30_003]]
    monkeypatch.setattr(cluster_files, "_free_ports", lambda count: drawn.pop(0)[:count])
    plan = plan_for(tmp_path, 2, 20_000)
    assert [one.broker_port for one in plan.brokers] == [30_002, 30_003]


def test_every_broker_there_may_be_has_a_port() -> None:
    most = cluster.parser().read(["up", "--brokers", "16", "--port", "65520"])
    assert most.port + most.brokers - 1 == 65_535
    for words in (["--brokers", "17"], ["--brokers", "0"], ["--port", "65521"]):
        with pytest.raises(SystemExit):
            cluster.parser().read(["up", *words])


def test_no_cluster_begins_in_the_data_directory_of_a_broker(tmp_path: Path) -> None:
    """It would serve under the same name, and have none of the broker's topics."""
    (tmp_path / "meta.properties").touch()
    for look in (lambda: plan_for(tmp_path, 3, 0), lambda: plan_of(tmp_path)):
        with pytest.raises(ConfigError, match=r"is the data directory of a broker .* name another with --dir"):
            look()
    assert [one.name for one in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.parametrize("setting", ["node.id=4", " listeners = PLAINTEXT://:0", "log.dirs=/data", "broker.id=4"])
def test_what_is_each_brokers_own_is_not_set_for_all(setting: str, tmp_path: Path) -> None:
    """They would wait for each other, and be ended after a minute."""
    done = run("cluster", "up", "--dir", str(tmp_path / "c"), "--set", setting)
    name = setting.partition("=")[0].strip()
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--set {name}: cluster up sets it for each broker itself; leave it out" in done.stderr
    assert not (tmp_path / "c").exists()
