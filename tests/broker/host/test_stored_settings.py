"""Settings that would lock everybody out: refused when set, ignored aloud when stored, passed over when told so."""

from __future__ import annotations

import socket
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
