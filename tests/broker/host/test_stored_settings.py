"""Settings that would lock everybody out: refused when set, ignored aloud when stored, passed over when told so."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import barnabas
from barnabas.broker.cluster.dynamic import refresh
from barnabas.broker.cluster.image import BROKER_RESOURCE, Image
from barnabas.broker.config import BrokerConfig, ConfigError, load
from barnabas.client.admin import BROKER, Admin
from barnabas.protocol.errors import KafkaError
from tests.broker.host.test_process import ask
from tests.cli.process import broker, run

LOCKS = ["max.connections", "max.connections.per.ip", "max.connection.creation.rate"]


@pytest.mark.parametrize("name", LOCKS)
def test_they_are_refused_when_set_and_when_started_with(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=0"):
        load(overrides={name: "0"})
    with barnabas.Broker() as running, Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        with pytest.raises(KafkaError, match=f"{name}=0"):
            admin.alter_configs("1", {name: "0"}, kind=BROKER)
        admin.list_topics()


@pytest.mark.parametrize("name", LOCKS)
def test_they_are_ignored_aloud_when_an_older_release_stored_them(name: str, caplog: pytest.LogCaptureFixture) -> None:
    live, static, image = BrokerConfig(), BrokerConfig(), Image()
    image.configs[(BROKER_RESOURCE, "")] = {name: "0"}
    assert refresh(live, static, image) == []
    assert f"a stored setting is ignored, and should be deleted: {name}=0" in caplog.text


def test_what_is_ignored_leaves_the_next_in_the_order() -> None:
    """One stored for this broker alone hid what is stored for the cluster."""
    live, static, image = BrokerConfig(), BrokerConfig(max_connections=2000), Image()
    image.configs[(BROKER_RESOURCE, "")] = {"max.connections": "3000"}
    image.configs[(BROKER_RESOURCE, "1")] = {"max.connections": "0"}
    assert refresh(live, static, image) == ["max.connections"]
    assert live.max_connections == 3000


def test_a_start_can_pass_over_stored_settings(tmp_path: Path) -> None:
    options = ("--port", "0", "--data-dir", str(tmp_path))
    with broker(*options) as process:
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            admin.alter_configs("1", {"max.connections.per.ip": "10"}, kind=BROKER)
        assert process.end() == 0
    for more, answered in (((), False), (("--ignore-stored-settings",), True)):
        with broker(*options, *more) as process, ExitStack() as stack:
            for _ in range(10):
                ask(stack.enter_context(socket.create_connection(("127.0.0.1", process.port))))
            assert (run("health", f"127.0.0.1:{process.port}").returncode == 0) is answered
            assert run("topics", "--server", str(tmp_path), "list").returncode == 0
            assert process.end() == 0
            assert ("are ignored until the next start" in "".join(process.errors)) is answered


OLDER = """
import sys
from barnabas.broker.__main__ import main
from barnabas.broker.cluster import lock_out
from barnabas.broker.config import BrokerConfig, keys_of
keys = keys_of(BrokerConfig)
for name in ("max.connections", "max.connections.per.ip", "max.connection.creation.rate"):
    keys[name] = keys[name]._replace(check=None)
lock_out.check = lambda *arguments: None
sys.exit(main(sys.argv[4:]))
"""
"""`python -c OLDER python -m barnabas.broker OPTIONS`: a release that took whatever it was told."""


@pytest.mark.parametrize("resource", ["1", ""], ids=["for the broker", "for the cluster"])
@pytest.mark.parametrize("name", LOCKS)
def test_a_start_that_finds_one_stored_lets_everybody_in_and_says_so(name: str, resource: str, tmp_path: Path) -> None:
    """Nobody got in again, after a restart neither; and DescribeConfigs told what was ignored as what holds."""
    options = ("--port", "0", "--data-dir", str(tmp_path))
    with broker(*options, inside=(sys.executable, "-c", OLDER)) as process:
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            admin.alter_configs(resource, {name: "0"}, kind=BROKER)
        assert process.end() == 0
    ignored = f"a stored setting is ignored, and should be deleted: {name}=0"
    with broker(*options) as process, ExitStack() as stack:
        for _ in range(20):
            ask(stack.enter_context(socket.create_connection(("127.0.0.1", process.port))))
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            (entry,) = admin.config_entries("1", kind=BROKER, keys=[name])
            assert (entry.value, entry.source) == (str(getattr(BrokerConfig(), name.replace(".", "_"))), "default")
            assert entry.synonyms[-1] == (name, "0", "broker" if resource else "all brokers")
            admin.alter_configs(resource, reset=[name], kind=BROKER)
        assert process.end() == 0
        assert ignored in "".join(process.errors)
    with broker(*options) as process:
        assert process.end() == 0
        assert ignored not in "".join(process.errors)


def test_the_order_of_precedence_holds_through_starts(tmp_path: Path) -> None:
    """Stored for this broker, stored for the cluster, given to the start, the default: what counts is told first."""
    name, default = "message.max.bytes", (str(BrokerConfig().message_max_bytes), "default")
    static, cluster, own = ("1111111", "file"), ("2222222", "all brokers"), ("3333333", "broker")
    options = ("--port", "0", "--data-dir", str(tmp_path), "--topic", "t:1")
    given = ("--set", f"{name}={static[0]}")

    def found(*more: str, change: Callable[[Admin], None] = lambda _: None) -> list[tuple[str | None, str]]:
        """What a start has for the setting, what counts first; a topic has the same. Then something is changed."""
        with broker(*options, *more) as process:
            with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
                (entry,) = admin.config_entries("1", kind=BROKER, keys=[name])
                (topic,) = admin.config_entries("t", keys=["max.message.bytes"])
                change(admin)
            assert process.end() == 0
        assert (entry.value, entry.source) == entry.synonyms[0][1:]
        assert (topic.value, topic.synonyms) == (entry.value, entry.synonyms)
        return [one[1:] for one in entry.synonyms]

    def stored(resource: str, value: str) -> Callable[[Admin], None]:
        return lambda admin: admin.alter_configs(resource, {name: value}, kind=BROKER)

    def deleted(resource: str) -> Callable[[Admin], None]:
        return lambda admin: admin.alter_configs(resource, reset=[name], kind=BROKER)

    assert found() == [default]
    assert found(*given, change=stored("", cluster[0])) == [static, default]
    assert found(*given, change=stored("1", own[0])) == [cluster, static, default]
    assert found(*given) == [own, cluster, static, default]
    assert found(*given, "--ignore-stored-settings") == [static, default, own, cluster], "what is passed over is last"
    assert found(change=deleted("1")) == [own, cluster, default]
    assert found(change=deleted("")) == [cluster, default]
    assert found() == [default]
