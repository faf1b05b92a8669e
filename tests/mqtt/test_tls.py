"""TLS to the MQTT broker, both ways: its certificate and the bridge's own; what does not fit says what to do."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiomqtt
import pytest

from barnabas import Producer
from barnabas.cli.look import get
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto, until
from tests.mqtt.test_inward import publish, read

pytestmark = [needs_mosquitto, pytest.mark.slow]

Make = Callable[..., Bridge]


class Authority:
    """Signs certificates with OpenSSL; `ca` is its own, the others are pairs of a certificate and its key."""

    def __init__(self, directory: Path) -> None:
        assert shutil.which("openssl"), "openssl comes with what ./dev tools brings"
        directory.mkdir()
        self._directory = directory
        self.ca, key = self._files("authority")
        self._openssl(
            f"req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {self.ca} -subj /CN={directory.name}"
        )

    def _files(self, name: str) -> tuple[Path, Path]:
        return self._directory / f"{name}.pem", self._directory / f"{name}.key"

    def _openssl(self, command: str) -> None:
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True)

    def signed(self, name: str) -> tuple[Path, Path]:
        """For 127.0.0.1, and good for a broker or a client."""
        certificate, key = self._files(name)
        request, names = self._directory / f"{name}.csr", self._directory / "names"
        names.write_text("subjectAltName=IP:127.0.0.1\n")
        self._openssl(f"req -newkey rsa:2048 -nodes -keyout {key} -out {request} -subj /CN={name}")
        _, ca_key = self._files("authority")
        self._openssl(
            f"x509 -req -days 2 -in {request} -CA {self.ca} -CAkey {ca_key} -CAcreateserial -extfile {names} "
            f"-out {certificate}"
        )
        return certificate, key


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
async def strict(tmp_path: Path, ours: Authority) -> AsyncIterator[Mosquitto]:
    """Takes those alone who show a certificate of ours, and one user of it alone."""
    certificate, key = ours.signed("broker")
    users = tmp_path / "users"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(users), "bridge", "right"], check=True, capture_output=True)
    files = f"cafile {ours.ca}", f"certfile {certificate}", f"keyfile {key}", f"password_file {users}"
    server = Mosquitto(tmp_path / "mosquitto", *files, "require_certificate true", anonymous=False)
    await server.start()
    yield server
    server.end()


def text(name: str, version: str, tls: str, password: str = "right") -> str:
    return f"""
[mqtt]
client_id = "{name}"
version = "{version}"
username = "bridge"
password = "{password}"
[mqtt.tls]
{tls}
[bridge]
group = "{name}"
[[rules]]
filter = "{name}/in"
topic = "{name}.in"
[[out]]
topic = "{name}.out"
to = "{name}/out"
"""


def files(ca: Path, certificate: Path, key: Path) -> str:
    return f'ca_file = "{ca}"\ncert_file = "{certificate}"\nkey_file = "{key}"'


async def why(one: Bridge, so: Callable[[str], bool]) -> str:
    """What /health says keeps it, once it says what it should."""

    async def told() -> str:
        _, body = await asyncio.to_thread(get, one.address, "/health")
        found: str = json.loads(body).get("why", "")
        return found if so(found) else ""

    found: str = await until(told, one.said)
    return found


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_both_directions_with_a_certificate_of_the_bridges_own(
    strict: Mosquitto, ours: Authority, kafka: str, bridge: Make, version: str
) -> None:
    name, (certificate, key) = f"tls{version[0]}", ours.signed("bridge")
    one = bridge(text(name, version, files(ours.ca, certificate, key)), strict.port)
    await one.start()
    shown = aiomqtt.TLSParameters(ca_certs=str(ours.ca), certfile=str(certificate), keyfile=str(key))
    client = {"username": "bridge", "password": "right", "tls_params": shown}
    many = [b"%d" % number for number in range(200)]  # TLS gives several packets in one record of its own
    await publish(strict, f"{name}/in", *many, client=client)
    assert [record.value for record in await read(kafka, f"{name}.in", 200)] == many
    await one.counted("acknowledged", 200)
    async with aiomqtt.Client("127.0.0.1", strict.port, **client) as subscriber:  # type: ignore[arg-type]
        await subscriber.subscribe(f"{name}/out", qos=1)
        with Producer(kafka) as producer:
            for value in many:
                producer.send(f"{name}.out", value)
        came = [bytes((await anext(subscriber.messages)).payload) for _ in many]
    assert came == many
    sides = {side["direction"]: side["connections"] for side in (await one.state())["sides"]}
    assert sides == {"in": 1, "out": 1}


@pytest.mark.parametrize(
    ("fault", "version"),
    [
        ("no certificate", "5"),
        ("another's", "5"),
        ("ca", "5"),
        ("no ca", "5"),
        ("password", "5"),
        ("password", "3.1.1"),
    ],
)
async def test_what_does_not_fit_says_what_to_do_about_it(
    strict: Mosquitto, ours: Authority, tmp_path: Path, bridge: Make, fault: str, version: str
) -> None:
    certificate, key = ours.signed("bridge")
    theirs = Authority(tmp_path / "theirs")
    tls, password, told = {
        "no certificate": (f'ca_file = "{ours.ca}"', "right", "write as cert_file (and key_file) of [mqtt.tls]"),
        "another's": (files(ours.ca, *theirs.signed("stranger")), "right", "write as cert_file (and key_file) of"),
        "ca": (files(theirs.ca, certificate, key), "right", "as ca_file of [mqtt.tls] write the authority that signed"),
        "no ca": (f'cert_file = "{certificate}"\nkey_file = "{key}"', "right", "as ca_file of [mqtt.tls] write the"),
        "password": (files(ours.ca, certificate, key), "wrong", "look at username and password (or password_file)"),
    }[fault]
    one = bridge(text("unfit", version, tls, password), strict.port)
    await one.start(connected=False)
    found = await why(one, lambda found: told in found)
    assert f"127.0.0.1:{strict.port}: " in found
