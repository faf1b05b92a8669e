"""The clients that the tests of this folder try, and with what: the tests take it from here, and so does a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.oracle.kafka import VERSION

HERE = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _of_go(module: str) -> Callable[[str], str]:
    """The version of a Go module, from the go.mod of the client's program."""

    def version(folder: str) -> str:
        found = re.search(rf"{re.escape(module)} v(\S+)", (HERE / "clients" / folder / "go.mod").read_text())
        assert found, module
        return found[1]

    return version


def _of_npm(folder: str) -> str:
    locked = json.loads((HERE / "clients" / folder / "package-lock.json").read_text())
    return str(locked["packages"][f"node_modules/{folder}"]["version"])


def _of_pip(_: str) -> str:
    return "the newest"  # what pip finds when the environment is made


@dataclass(frozen=True, slots=True)
class Client:
    """A client, and what is tried with it.

    Args:
        name: as its users call it.
        folder: of its program in `clients/`; empty if it needs none.
        version: how its version is found, given the folder.
        classic: its assignors in groups of the classic protocol.
        consumer: the server's assignors, in groups of the consumer protocol (KIP-848); none if it does not know that.
        deletes_offsets: whether it can delete what a group has committed for a partition.
        arguments: what its program is told beside the broker's address.
    """

    name: str
    folder: str
    version: Callable[[str], str]
    classic: tuple[str, ...]
    consumer: tuple[str, ...] = ()
    codecs: tuple[str, ...] = CODECS
    deletes_offsets: bool = True
    arguments: tuple[str, ...] = ()

    @property
    def groups(self) -> list[tuple[str, str]]:
        """The protocols and assignors that its groups are tried with."""
        return [("classic", one) for one in self.classic] + [("consumer", one) for one in self.consumer]


EAGER = ("range", "roundrobin", "sticky")
OF_SERVER = ("uniform", "range")
FRANZ_GO = Client("franz-go", "franz_go", _of_go("github.com/twmb/franz-go"), (*EAGER, "cooperative-sticky"), OF_SERVER)
SARAMA = Client(
    "sarama, for Kafka 2.8 (its default)", "sarama", _of_go("github.com/IBM/sarama"), (*EAGER, "cooperative-sticky")
)
SARAMA_NEWEST = replace(SARAMA, name="sarama, for the newest Kafka", arguments=("newest",))
KAFKAJS = Client("kafkajs", "kafkajs", _of_npm, ("roundrobin",), deletes_offsets=False)
JAVA = Client("Apache Kafka's Java client", "java", lambda _: VERSION, (*EAGER, "cooperative-sticky"), OF_SERVER)
KCAT = Client(
    "kcat", "", lambda _: "1.7 or later", ("range", "roundrobin", "cooperative-sticky"), deletes_offsets=False
)
CONFLUENT = Client(
    "confluent-kafka",
    "",
    _of_pip,
    ("range", "roundrobin", "cooperative-sticky"),
    ("uniform", "range"),
    deletes_offsets=False,
)
AIOKAFKA = Client("aiokafka", "", _of_pip, EAGER, deletes_offsets=False)
KAFKA_PYTHON = Client("kafka-python", "", _of_pip, (*EAGER, "cooperative-sticky"))

CLIENTS = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KCAT, FRANZ_GO, SARAMA, SARAMA_NEWEST, KAFKAJS, JAVA)
"""Those whose tests take what they try from here."""

STREAMS = Client("Kafka Streams", "streams", lambda _: VERSION, ())
"""Not of the matrix: one application, `test_kafka_streams.py`."""

TOOLS = "org.apache.kafka.tools."
SCRIPTS = {
    "kafka-acls": TOOLS + "AclCommand",
    "kafka-broker-api-versions": TOOLS + "BrokerApiVersionsCommand",
    "kafka-client-metrics": TOOLS + "ClientMetricsCommand",
    "kafka-cluster": TOOLS + "ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": TOOLS + "consumer.ConsoleConsumer",
    "kafka-console-producer": TOOLS + "ConsoleProducer",
    "kafka-consumer-groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": TOOLS + "ConsumerPerformance",
    "kafka-delete-records": TOOLS + "DeleteRecordsCommand",
    "kafka-features": TOOLS + "FeatureCommand",
    "kafka-get-offsets": TOOLS + "GetOffsetShell",
    "kafka-groups": TOOLS + "GroupsCommand",
    "kafka-leader-election": TOOLS + "LeaderElectionCommand",
    "kafka-log-dirs": TOOLS + "LogDirsCommand",
    "kafka-metadata-quorum": TOOLS + "MetadataQuorumCommand",
    "kafka-producer-perf-test": TOOLS + "ProducerPerformance",
    "kafka-reassign-partitions": TOOLS + "reassign.ReassignPartitionsCommand",
    "kafka-topics": TOOLS + "TopicCommand",
    "kafka-transactions": TOOLS + "TransactionsCommand",
    "kafka-verifiable-consumer": TOOLS + "VerifiableConsumer",
    "kafka-verifiable-producer": TOOLS + "VerifiableProducer",
}
"""Apache Kafka's command line tools that are run: a script, and the main class behind it."""
