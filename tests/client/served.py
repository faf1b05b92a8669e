"""A cluster that clients are tried on, in one of the settings that must make no difference, and names nobody used."""

from __future__ import annotations

from itertools import count
from typing import Any

from barnabas import Admin, Producer

WAIT = 40
"""Below a session of 45 s, after which a broker misses whoever did not leave."""
_numbers = count(1)

BARNABAS = ("kafka", "native")
"""This broker in both dialects."""
APACHE = "Apache Kafka"

_OFTEN: dict[str, Any] = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 100, "fetch_max_wait_ms": 50}
QUICK: dict[str, dict[str, Any]] = {
    "classic": {"heartbeat_interval_ms": 50, **_OFTEN},
    "consumer": {"group_protocol": "consumer", **_OFTEN},
}
"""Members of either protocol that are heard often; of the newer one the broker says how often."""

SETTINGS = {
    "num.partitions": "4",
    "log.message.timestamp.after.max.ms": str(2**62),
    "group.consumer.heartbeat.interval.ms": "50",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
"""Of every cluster: topics that are used before they are made have 4 partitions, and records may be of the future."""


class Served:
    """How to reach it: settings for clients, and those of a group's member beside them."""

    def __init__(self, servers: str, setting: str, protocol: str = "classic") -> None:
        self.apache = setting == APACHE
        self.protocol = protocol
        self.servers = servers
        self.dialect = "kafka" if self.apache else setting
        self.settings: dict[str, Any] = {
            "bootstrap_servers": servers,
            "dialect": self.dialect,
            "retry_backoff_max_ms": 50,
        }
        self.quick = QUICK[protocol]

    def topic(self, partitions: int, records: int = 0) -> str:
        name = self.name("topic")
        with Admin(**self.settings) as admin, Producer(**self.settings) as producer:
            admin.create_topic(name, partitions=partitions)
            sent = [producer.send(name, b"%d" % n, partition=n % partitions) for n in range(records)]
            for each in sent:
                each.result(WAIT)
        return name

    def name(self, kind: str) -> str:
        return f"{kind}{next(_numbers)}"

    def group(self) -> str:
        return self.name("group")
