"""The settings of a bridge, as its file gives them (`reading`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any, Final

from barnabas.mqtt import templates
from barnabas.mqtt.mapping import Rules
from barnabas.net.config import ClientConfig
from barnabas.protocol.errors import ConfigError

OUT_BRACES: Final = ("topic", "key", "partition", "offset")
_CLIENT: Final = frozenset(each.name for each in fields(ClientConfig))


@dataclass(slots=True)
class Tls:
    """TLS to the MQTT broker; files in PEM. Without `ca_file` the system's authorities are trusted."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True


@dataclass(slots=True)
class Mqtt:
    """The MQTT side. `retained`: once (MQTT 5), at each start, or never; `fresh`: end an earlier session first."""

    host: str = "localhost"
    port: int = 1883
    client_id: str = ""
    version: str = "5"
    username: str = ""
    password: str = ""
    keepalive_s: int = 30
    session_expiry_s: int = 7 * 24 * 3600
    receive_maximum: int = 1000
    payload_bytes_max: int = 1024 * 1024
    qos: int = 1
    share: str = ""
    subscribe: tuple[str, ...] = ()
    retained: str = "once"
    tls: Tls | None = None
    fresh: bool = False

    @property
    def five(self) -> bool:
        """Whether MQTT 5 is spoken."""
        return self.version == "5"


@dataclass(slots=True, eq=False)
class OutRule:
    """Records of one topic as messages. `from_mqtt`: those that a bridge brought from MQTT, too."""

    place: str
    topic: str
    to: str
    qos: int = 1
    retain: bool = False
    from_mqtt: bool = False
    count: int = 0
    make: templates.Template = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the template.

        Raises:
            ConfigError: it names what there is not, or a wildcard.
        """
        if re.search(r"[+#]", self.to):
            raise ConfigError(f"to: {self.to!r}: messages are published to a topic; + and # stand in filters alone")
        try:
            self.make = templates.compiled(self.to, 0, (), OUT_BRACES)
        except ConfigError as error:
            raise ConfigError(f"to: {error}") from None


@dataclass(slots=True)
class Settings:
    """All of a bridge."""

    place: str
    mqtt: Mqtt
    kafka: dict[str, Any]
    rules: Rules
    out: tuple[OutRule, ...] = ()
    group: str = "barnabas-mqtt"
    dead_letter: str = "mqtt.dead-letter"
    open_bytes_max: int = 64 * 1024 * 1024
    listen: str = "127.0.0.1:9095"
    hosts: tuple[str, ...] = ()

    def producer(self) -> dict[str, Any]:
        """The producer's settings."""
        return {
            "client.id": f"barnabas-mqtt-{self.mqtt.client_id}",
            "linger.ms": 5,
            "max.block.ms": 10_000,
        } | self.kafka

    def consumer(self) -> dict[str, Any]:
        """The consumer's, for records that go out: what it shares with the producer, and a group."""
        shared = {key: value for key, value in self.kafka.items() if key.replace(".", "_") in _CLIENT}
        name = re.sub(r"[^A-Za-z0-9._-]", "-", f"barnabas-mqtt-{self.mqtt.client_id}-out")
        # A static member (KIP-345): a bridge that was killed goes on at once, and not when its session is over.
        own = {"group.id": self.group, "group.instance.id": name, "enable.auto.commit": False}
        return {"client.id": name, "auto.offset.reset": "earliest"} | shared | own


def address(listen: str) -> tuple[str, int]:
    """Host and port of `[web] listen`; the host is empty for every address of this machine, both for no pages.

    Raises:
        ConfigError: it is none.
    """
    host, colon, port = listen.rpartition(":")
    if listen and not (colon and port.isascii() and port.isdigit() and int(port) <= 65_535 and host.count(":") != 1):
        raise ConfigError(f'{listen!r}: write HOST:PORT such as 127.0.0.1:9095, or "" for no pages')
    return host.strip("[]"), int(port or 0)
