"""Who the controllers are, asked at addresses before a start: of whom it is learnt, and who refuses."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

import barnabas.aio
from barnabas.broker.config import BrokerConfig, load
from barnabas.broker.host.assemble import Assembly
from barnabas.broker.host.voters import find_voters
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ConfigError
from tests.broker.host.test_peer_channel import SECRET, one_broker, port_between
from tests.cli.process import run

if TYPE_CHECKING:
    from barnabas.broker.host.several import Several

DEAD = "127.0.0.1:1"


class AskedAgain(Exception):
    """Nobody has told."""


async def once() -> None:
    raise AskedAgain


def asker(assembly: Assembly, *servers: str, node_id: int = 2, cluster: str = "") -> BrokerConfig:
    settings = {
        "node.id": str(node_id),
        "process.roles": "broker",
        "controller.quorum.bootstrap.servers": ",".join(servers),
        "listeners": "PLAINTEXT://:0,BROKERS://:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "barnabas.cluster.secret.file": "secret",
        "barnabas.cluster.id": cluster or assembly.host.core.services.cluster_id,
    }
    return load(overrides=settings).config


async def test_the_first_that_can_be_reached_tells(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly:
        at = f"127.0.0.1:{port_between(assembly)}"
        config = asker(assembly, DEAD, at)
        await find_voters(config, SECRET, once)
        assert config.controller_quorum_voters == (f"1@{at}",)


async def test_any_broker_of_the_cluster_tells() -> None:
    async with barnabas.aio.Broker(brokers=4) as broker:
        nodes = cast("Several", broker._assembly).nodes
        told = tuple(f"{one}@127.0.0.1:{nodes[one].between}" for one in (1, 2, 3))
        for node in nodes.values():
            assert node._assembly is not None
            config = asker(node._assembly, f"127.0.0.1:{node.between}", node_id=5)
            await find_voters(config, node._secret, once)
            assert config.controller_quorum_voters == told


@pytest.mark.parametrize(
    ("node_id", "cluster", "secret", "told"),
    [
        (2, "", b"another secret", "it says that it is broker 2 and does not know the secret; give all brokers"),
        (2, "another", SECRET, "broker 2 is of cluster 'another', this one is of "),
        (1, "", SECRET, "it has the node id of this broker, 1; give each broker a node.id of its own"),
    ],
)
async def test_who_is_refused_does_not_start(
    tmp_path: Path, node_id: int, cluster: str, secret: bytes, told: str
) -> None:
    async with one_broker(tmp_path) as assembly:
        at = f"127.0.0.1:{port_between(assembly)}"
        config = asker(assembly, DEAD, at, node_id=node_id, cluster=cluster)
        with pytest.raises(ConfigError) as caught:
            await find_voters(config, secret, once)
        assert str(caught.value).startswith(f"controller.quorum.bootstrap.servers: {at}: the broker there refuses ")
        assert told in str(caught.value)
        assert not config.controller_quorum_voters


async def test_who_does_not_tell_is_asked_again_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with one_broker(tmp_path) as assembly:
        between = port_between(assembly)
        clients = next(one.endpoint.port for one in assembly.listening if one.endpoint.port != between)
        config = asker(assembly, DEAD, f"127.0.0.1:{clients}")
        rounds = 0

        async def pause() -> None:
            nonlocal rounds
            rounds += 1
            if rounds == 3:
                config.controller_quorum_bootstrap_servers = (f"127.0.0.1:{between}",)

        await find_voters(config, SECRET, pause)
        assert rounds == 3
    said = [one.getMessage() for one in caplog.records if one.name.endswith("host.voters")]
    assert said == [
        f"who the controllers are cannot be asked yet: {DEAD}: Connection refused (nothing listens there); "
        f"127.0.0.1:{clients}: it hangs up; is it the listener between brokers?"
    ]


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ((0, 1), "it does not know who the controllers are"),
        ((3, 4), "it serves DESCRIBE_QUORUM at versions 3 to 4, and this release speaks 0 to 2: it is newer"),
    ],
)
async def test_one_of_another_release_is_asked_in_what_it_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, served: tuple[int, int], told: str
) -> None:
    """Before version 2 nobody says where controllers are."""
    async with one_broker(tmp_path) as assembly:
        assembly.host.core.peer_versions[ApiKey.DESCRIBE_QUORUM] = served
        at = f"127.0.0.1:{port_between(assembly)}"
        with pytest.raises(AskedAgain):
            await find_voters(asker(assembly, at), SECRET, once)
    assert f"who the controllers are cannot be asked yet: {at}: {told}" in caplog.messages


def command(tmp_path: Path, assembly: Assembly, server: str) -> list[str]:
    config = asker(assembly, server)
    told = {
        "node.id": 2,
        "process.roles": "broker",
        "controller.quorum.bootstrap.servers": server,
        "listeners": "PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "barnabas.cluster.secret.file": tmp_path / "secret",
        "barnabas.cluster.id": config.barnabas_cluster_id,
    }
    words = [word for name, value in told.items() for word in ("--set", f"{name}={value}")]
    return [sys.executable, "-m", "barnabas.broker", "--data-dir", str(tmp_path / "two"), *words]


@pytest.mark.slow
async def test_a_process_asks_before_it_opens_anything_and_then_serves(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly:
        pipe = asyncio.subprocess.PIPE
        waits = await asyncio.create_subprocess_exec(*command(tmp_path, assembly, DEAD), stdout=pipe, stderr=pipe)
        assert waits.stdout is not None
        assert waits.stderr is not None
        assert b"who the controllers are cannot be asked yet: 127.0.0.1:1: " in await waits.stderr.readline()
        waits.terminate()
        assert await waits.stdout.read() == b"", "it serves nobody"
        assert await waits.wait() == 0
        assert not (tmp_path / "two").exists()
        at = f"127.0.0.1:{port_between(assembly)}"
        serves = await asyncio.create_subprocess_exec(*command(tmp_path, assembly, at), stdout=pipe)
        assert serves.stdout is not None
        assert (await serves.stdout.readline()).startswith(b"barnabas: serving on 127.0.0.1:")
        assert [one.broker_id for one in assembly.host.core.image.alive_brokers()] == [1, 2]
        serves.terminate()
        await serves.stdout.read()
        assert await serves.wait() == 0


def test_a_process_whose_secret_cannot_be_used_says_that_alone(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a" * 64)
    secret.chmod(0o644)
    config = tmp_path / "broker.properties"
    config.write_text(
        "node.id=2\nprocess.roles=broker\n"
        f"controller.quorum.bootstrap.servers={DEAD}\n"
        "listeners=PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT\n"
        "inter.broker.listener.name=BROKERS\n"
        f"barnabas.cluster.id=c\nbarnabas.cluster.secret.file={secret}\nlog.dirs={tmp_path / 'data'}\n"
    )
    ended = run("broker", "--config", str(config))
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "others may use it (mode 0644); make it yours alone: chmod 600" in ended.stderr


async def test_a_broker_inside_a_program_asks_nobody(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly:
        config = asker(assembly, DEAD)
        config.barnabas_cluster_secret_file = str(tmp_path / "secret")
        with pytest.raises(ConfigError, match=r"write controller\.quorum\.voters=ID@HOST:PORT"):
            await asyncio.to_thread(Assembly, config, None)
