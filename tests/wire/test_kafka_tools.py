"""Apache Kafka's own command line tools, by the main classes that its scripts run, all in one virtual machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracle.kafka import run_tool
from tests.wire.programs import Program
from tests.wire.tried import JAVA, SCRIPTS


class TestKafkaTools:
    tried = JAVA

    @pytest.fixture
    def tool(self, client: Program, address: str) -> Callable[..., str]:
        """Runs a script: what it printed. Its ending and what it says of a fault can be asked for."""

        def run(script: str, *arguments: str, stdin: str = "", code: int = 0, fault: str = "") -> str:
            command = ["--bootstrap-server", address, *arguments]
            if script == "kafka-cluster":  # a sub-command, and its options behind it
                command = [*arguments, *command[:2]]
            told = client.ask("tool", main=SCRIPTS[script], arguments=command, input=stdin)
            said: str = told["out"]
            assert told["code"] == code, (script, command, told)
            assert fault in said + told["err"]
            return said

        return run

    @pytest.fixture
    def topic(self, tool: Callable[..., str], fresh: Callable[[], str]) -> str:
        """Two partitions, with three records in the second."""
        name = fresh()
        tool("kafka-topics", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=600000")
        keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
        tool("kafka-console-producer", "--topic", name, *keyed, stdin="a:1\na:2\na:3\n")
        return name

    def test_topics_are_listed_described_grown_and_deleted(self, tool: Callable[..., str], topic: str) -> None:
        assert topic in tool("kafka-topics", "--list").split()
        fault = f"Topic '{topic}' already exists."
        tool("kafka-topics", "--create", "--topic", topic, code=1, fault=fault)
        tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "3")
        head, *partitions = tool("kafka-topics", "--describe", "--topic", topic).splitlines()
        assert "PartitionCount: 3\tReplicationFactor: 1" in head
        assert "retention.ms=600000" in head
        assert ["Leader: 1\tReplicas: 1\tIsr: 1" in line for line in partitions] == [True] * 3
        assert tool("kafka-topics", "--describe", "--under-replicated-partitions") == ""
        assert tool("kafka-topics", "--describe", "--unavailable-partitions") == ""
        tool("kafka-topics", "--delete", "--topic", topic)
        tool("kafka-topics", "--describe", "--topic", topic, code=1, fault="does not exist as expected")

    def test_settings_are_altered_and_described_with_where_they_come_from(
        self, tool: Callable[..., str], topic: str
    ) -> None:
        entity = ["--entity-type", "topics", "--entity-name", topic]
        tool(
            "kafka-configs",
            *entity,
            "--alter",
            "--add-config",
            "max.message.bytes=20000,cleanup.policy=[compact,delete]",
        )
        said = tool("kafka-configs", *entity, "--describe")
        assert (
            "max.message.bytes=20000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=20000, " in said
        )
        assert "cleanup.policy=compact,delete" in said
        tool("kafka-configs", *entity, "--alter", "--delete-config", "max.message.bytes")
        said = tool("kafka-configs", *entity, "--describe")
        assert "max.message.bytes" not in said
        fault = "Unknown topic config name: no.such.setting"
        tool("kafka-configs", *entity, "--alter", "--add-config", "no.such.setting=1", code=1, fault=fault)
        broker = tool("kafka-configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
        assert "log.retention.check.interval.ms=500 " in broker
        for kind in ("users", "client-metrics"):
            assert tool("kafka-configs", "--entity-type", kind, "--describe") == ""
        group = ["--entity-type", "groups", "--entity-name", f"{topic}-group"]
        tool("kafka-configs", *group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
        assert "consumer.session.timeout.ms=50000 " in tool("kafka-configs", *group, "--describe")
        tool("kafka-configs", *group, "--alter", "--delete-config", "consumer.session.timeout.ms")
        assert "consumer.session.timeout.ms" not in tool("kafka-configs", *group, "--describe")
        tool("kafka-configs", "--entity-type", "groups", "--describe")

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_console_consumer_reads_in_a_group(self, tool: Callable[..., str], topic: str, protocol: str) -> None:
        group = f"{topic}-group"
        until = ["--max-messages", "3", "--timeout-ms", "20000"]
        shown = ["--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"]
        how = [
            "--topic",
            topic,
            "--group",
            group,
            "--from-beginning",
            "--command-property",
            f"group.protocol={protocol}",
        ]
        said = tool("kafka-console-consumer", *how, *until, *shown)
        assert said == "Offset:0\ta\t1\nOffset:1\ta\t2\nOffset:2\ta\t3\n"
        line = next(line for line in tool("kafka-consumer-groups", "--list", "--state").splitlines() if group in line)
        assert line.split() == [group, "Empty"]
        kind = [group, protocol.title(), "consumer"]
        assert kind in [line.split() for line in tool("kafka-groups", "--list").splitlines()]

        def offsets() -> list[list[str]]:
            lines = tool("kafka-consumer-groups", "--describe", "--group", group).splitlines()
            return sorted(line.split()[2:6] for line in lines if line.startswith(group))

        read = offsets()
        assert [lag for *_, lag in read] == ["0", "0"]
        assert sorted(end for _, _, end, _ in read) == ["0", "3"]
        of = ["--group", group, "--topic", topic]
        tool("kafka-consumer-groups", "--reset-offsets", "--to-earliest", "--execute", *of)
        assert sorted(lag for *_, lag in offsets()) == ["0", "3"]
        said = tool("kafka-consumer-groups", "--delete-offsets", *of)
        assert said.count("Successful") == 2
        assert offsets() == []
        tool("kafka-consumer-groups", "--delete", "--group", group)
        fault = f"Group {group} not found"
        tool("kafka-consumer-groups", "--describe", "--group", group, fault=fault)

    def test_offsets_by_time_the_log_and_its_cutting(
        self, tool: Callable[..., str], topic: str, tmp_path: Path
    ) -> None:
        def offsets(time: str) -> list[int]:
            lines = tool("kafka-get-offsets", "--topic", topic, "--time", time).split()
            return sorted(int(line.rpartition(":")[2]) for line in lines)

        assert offsets("latest") == offsets("-1") == [0, 3]
        assert offsets("earliest") == offsets("earliest-local") == [0, 0]
        assert len(offsets("max-timestamp")) == 1, "the three may be of one millisecond"
        assert offsets("0") == [0], "no offset is told where there is no record"
        (full,) = [part for part in (0, 1) if f"{topic}:{part}:3" in tool("kafka-get-offsets", "--topic", topic)]
        wanted = tmp_path / "cut.json"
        wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": full, "offset": 2}], "version": 1}))
        said = tool("kafka-delete-records", "--offset-json-file", str(wanted))
        assert f"partition: {topic}-{full}\tlow_watermark: 2" in said
        assert offsets("earliest") == [0, 2]
        said = tool("kafka-log-dirs", "--describe", "--topic-list", topic)
        (broker,) = json.loads(said.splitlines()[-1])["brokers"]
        sizes = {one["partition"]: one["size"] for one in broker["logDirs"][0]["partitions"]}
        assert set(sizes) == {f"{topic}-0", f"{topic}-1"}
        assert sizes[f"{topic}-{full}"] > 0

    def test_the_cluster_is_described(self, tool: Callable[..., str]) -> None:
        features = tool("kafka-features", "describe")
        assert "Feature: metadata.version" in features
        assert "Feature: group.version" in features
        eligible = "eligible.leader.replicas.version"
        said = tool("kafka-features", "downgrade", "--feature", f"{eligible}=0")
        assert f"{eligible} was downgraded to 0." in said
        (line,) = [one for one in tool("kafka-features", "describe").splitlines() if eligible in one]
        assert "FinalizedVersionLevel: 0" in line
        assert f"{eligible} was upgraded to 1." in tool("kafka-features", "upgrade", "--feature", f"{eligible}=1")
        fault = "Refusing to perform the requested downgrade because it might delete metadata information"
        tool("kafka-features", "downgrade", "--feature", "metadata.version=29", code=1, fault=fault)
        status = tool("kafka-metadata-quorum", "describe", "--status")
        assert "LeaderId:               1\n" in status
        _, *voters = tool("kafka-metadata-quorum", "describe", "--replication").splitlines()
        assert [(line.split()[0], line.split()[-1]) for line in voters] == [("1", "Leader")]
        name = tool("kafka-cluster", "cluster-id").split()[-1]
        assert name == status.split("\n")[0].split()[-1]
        assert "Fetch(1): 4 to 18 [usable: 18]" in tool("kafka-broker-api-versions")

    def test_what_is_not_there_is_told_as_empty_or_disabled(self, tool: Callable[..., str], topic: str) -> None:
        assert tool("kafka-transactions", "list").splitlines()[1:] == []
        producers = [
            line.split()
            for partition in "01"
            for line in tool(
                "kafka-transactions", "describe-producers", "--topic", topic, "--partition", partition
            ).splitlines()[1:]
        ]
        assert [(epoch, last, open_) for _, epoch, _, last, _, open_ in producers] == [("0", "2", "None")]
        tool("kafka-acls", "--list", code=1, fault="SecurityDisabledException")
        assert "No partition reassignments found." in tool("kafka-reassign-partitions", "--list")
        tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
        assert tool("kafka-client-metrics", "--list").strip() == ""

    def test_the_testers_of_speed_and_of_truth(self, tool: Callable[..., str], address: str, topic: str) -> None:
        sent = ["--num-records", "500", "--record-size", "100", "--throughput", "-1"]
        assert tool("kafka-producer-perf-test", "--topic", topic, *sent).startswith("500 records sent, ")
        read = tool("kafka-consumer-perf-test", "--topic", topic, "--num-records", "503", "--timeout", "20000")
        assert read.splitlines()[1].split(", ")[4] == "503"
        # This one ends with its process alone, and says then what came of it.
        main, count = SCRIPTS["kafka-verifiable-producer"], ["--max-messages", "20"]
        said = run_tool(main, "--bootstrap-server", address, "--topic", topic, *count)
        acked = [json.loads(line) for line in said.splitlines()]
        assert sum(one["name"] == "producer_send_success" for one in acked) == 20
        of = ["--topic", topic, "--group-id", f"{topic}-group", "--max-messages", "523", "--reset-policy", "earliest"]
        told = [json.loads(line) for line in tool("kafka-verifiable-consumer", *of).splitlines()]
        assert sum(one["count"] for one in told if one["name"] == "records_consumed") == 523
        assert [one["success"] for one in told if one["name"] == "offsets_committed"]
        assert told[-1]["name"] == "shutdown_complete"

    def test_every_script_is_run(self) -> None:
        text = Path(__file__).read_text()
        assert [name for name in SCRIPTS if f'"{name}"' not in text] == []
