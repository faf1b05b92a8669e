"""The image and the compose file, built and run for real."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from tests.conftest import NO_ENGINE

ROOT = Path(__file__).parents[2]
PROJECT = "barnabas-container-test"
IMAGE = "barnabas-container-test"
IMAGE_BYTES_MAX = 25_000_000
BOUND_S = 300


def docker(*arguments: str, text: str | None = None, check: bool = True) -> str:
    done = subprocess.run(
        ["docker", *arguments], input=text, capture_output=True, text=True, timeout=BOUND_S, cwd=ROOT, check=False
    )
    if check and done.returncode != 0:
        raise AssertionError(f"docker {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def missing() -> str | None:
    if shutil.which("docker") is None:
        return NO_ENGINE[0]
    try:
        answer = subprocess.run(["docker", "version"], capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return NO_ENGINE[1]
    return None if answer.returncode == 0 else NO_ENGINE[1]


REASON = missing()
pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.fixture(scope="module")
def image() -> str:
    docker("build", "-t", IMAGE, ".")
    return IMAGE


@pytest.fixture(scope="module")
def compose(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The compose file as it stands, up and healthy (its image under a name of the test's own)."""
    if in_use(9092):
        pytest.skip("port 9092 of this machine is in use")
    override = tmp_path_factory.mktemp("compose") / "override.yml"
    override.write_text(f"services:\n  broker:\n    image: {image}\n")
    call = ["compose", "-p", PROJECT, "-f", "docker-compose.yml", "-f", str(override)]
    try:
        docker(*call, "up", "--detach", "--wait", "--no-build")
        yield call
    finally:
        docker(*call, "down", "--volumes", "--timeout", "5")


def in_use(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def test_the_image_adds_little_to_its_base(image: str) -> None:
    sizes = [int(docker("image", "inspect", "-f", "{{.Size}}", name)) for name in (image, "python:3.12-slim")]
    assert sizes[0] - sizes[1] <= IMAGE_BYTES_MAX


def test_it_does_not_run_as_root_and_its_volume_is_writable(image: str) -> None:
    said = docker("run", "--rm", "--entrypoint", "sh", image, "-c", "id -u && touch /var/lib/barnabas/x && echo ok")
    user, written = said.split()
    assert user != "0"
    assert written == "ok"
    config = json.loads(docker("image", "inspect", "-f", "{{json .Config}}", image))
    assert config["Healthcheck"]["Test"] == ["CMD", "barnabas", "health"]


def test_a_bad_setting_ends_the_container_with_2(image: str) -> None:
    done = subprocess.run(
        ["docker", "run", "--rm", "-e", "BARNABAS_NUM_PARTITONS=3", image],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 2
    assert "did you mean num.partitions?" in done.stderr


def test_the_host_is_served_on_localhost_and_another_container_on_broker(compose: list[str], image: str) -> None:
    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topic("both-sides", partitions=2)
        assert [broker[1:] for broker in admin.describe_cluster().brokers] == [("localhost", 9092)]
    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("both-sides", b"from the host")
        producer.flush()
    inside = ["run", "--rm", "-i", "--network", f"{PROJECT}_default", image]
    docker(*inside, "produce", "--server", "broker:9092", "both-sides", text="from a container\n")
    read = docker(*inside, "consume", "--server", "broker:9092", "--exit", "both-sides")
    assert sorted(read.splitlines()) == ["from a container", "from the host"]
    with Consumer("both-sides", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        values: list[bytes] = []
        while len(values) < 2:
            records = consumer.poll(60)
            assert records
            values += [bytes(record.value) for record in records]
    assert sorted(values) == [b"from a container", b"from the host"]


def test_it_stops_cleanly_and_keeps_its_records(compose: list[str]) -> None:
    with Producer(bootstrap_servers="localhost:9092") as producer:
        kept = producer.send("kept", b"value").result(60)
    docker(*compose, "restart", "--timeout", "10")
    docker(*compose, "up", "--detach", "--wait", "--no-build")
    assert '"stopped"' in docker(*compose, "logs", "--no-log-prefix")
    with Consumer("kept", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        (record,) = consumer.poll(60)
    assert (record.offset, bytes(record.value)) == (kept.offset, b"value")


MOSQUITTO = "eclipse-mosquitto:2"


def need_mosquitto() -> None:
    """The image that the compose file names, and no other in its place: skip, which strict mode forbids, without it."""
    for ask in (["image", "inspect", MOSQUITTO], ["pull", "-q", MOSQUITTO]):
        if subprocess.run(["docker", *ask], capture_output=True, timeout=BOUND_S, check=False).returncode == 0:
            return
    pytest.skip(
        f"the engine has no {MOSQUITTO}, and no registry can be reached for it: "
        "CE_MOSQUITTO=1 ../shared/tools/container-engine up makes a stand-in"
    )


def test_an_engine_without_mosquittos_image_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def nothing(command: list[str], **_more: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[1])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", nothing)
    with pytest.raises(
        pytest.skip.Exception, match=r"no eclipse-mosquitto:2, .*: CE_MOSQUITTO=1 .*container-engine up"
    ):
        need_mosquitto()
    assert asked == ["image", "pull"]


def test_with_the_profile_mqtt_what_devices_publish_is_in_the_topic(
    compose: list[str], image: str, tmp_path: Path
) -> None:
    for port in (1883, 9095):
        if in_use(port):
            pytest.skip(f"port {port} of this machine is in use")
    import asyncio

    import aiomqtt

    need_mosquitto()
    override = tmp_path / "mqtt.yml"
    override.write_text(f"services:\n  mqtt:\n    image: {image}\n")
    call = [*compose, "-f", str(override), "--profile", "mqtt"]
    docker(*call, "up", "--detach", "--wait", "--no-build")
    try:

        async def publish() -> None:
            async with aiomqtt.Client("localhost", 1883) as client:
                await client.publish("sensors/attic/temperature", b"21.5", qos=2)

        asyncio.run(publish())
        with Consumer("temperature", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
            (record,) = consumer.poll(30)
        assert (record.key, bytes(record.value)) == (b"attic", b"21.5")
        assert "mqtt bridge barnabas-bridge" in docker(
            *call, "exec", "mqtt", "barnabas", "top", "localhost:9095", "--once"
        )
    finally:
        docker(*call, "stop", "mqtt", "mosquitto")
        docker(*call, "rm", "--force", "mqtt", "mosquitto")
        docker("volume", "rm", f"{PROJECT}_mosquitto")
