"""A broker under the environment of Kafka's own compose example: what is opened, and what each side is told."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas import Producer
from barnabas.cli.look import state
from tests.broker.config.test_kafkas_own import SINGLE, environment
from tests.cli.process import broker, run, tree


def test_the_single_node_example_serves_its_clients_and_opens_nothing_for_controllers() -> None:
    any_port = {
        **SINGLE,
        "listeners": "CONTROLLER://127.0.0.1:0,PLAINTEXT_HOST://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT_HOST://localhost:0,PLAINTEXT://127.0.0.1:0",
    }
    with broker("--memory", environment=environment(any_port)) as process:
        outside, inside = re.findall(r"127\.0\.0\.1:(\d+)", process.banner)
        with Producer(bootstrap_servers=f"localhost:{outside}", value_serializer="string") as producer:
            producer.send("t", "from the host").result()
        sent = run("produce", "--server", f"127.0.0.1:{inside}", "t", text="from a container\n")
        assert sent.returncode == 0, sent.stderr
        (partition,) = state(f"127.0.0.1:{outside}")["partitions"]
        assert partition["log_end_offset"] == 2
        assert process.end() == 0
    warnings = [line for line in process.errors if '"warning"' in line]
    assert len(warnings) == 2, warnings
    assert "CONTROLLER://127.0.0.1:0 of listeners is for controllers and not opened" in warnings[1]


def test_another_cluster_id_than_the_directorys_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--data-dir", str(data), "--port", "0")
    first = {"CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"}
    with broker(*options, environment=first) as process:
        assert process.end() == 0
    assert "cluster.id=4L6g3nShT-eMCtK--X86sw" in (data / "meta.properties").read_text()
    before = tree(data)
    refused = run("broker", *options, environment={"CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk"})
    assert refused.returncode == 2
    assert "belongs to cluster 4L6g3nShT-eMCtK--X86sw" in refused.stderr
    assert "is to be of cluster MkU3OEVBNTcwNTJENDM2Qk (barnabas.cluster.id, or CLUSTER_ID in" in refused.stderr
    assert tree(data) == before
    with broker(*options, environment=first) as process:
        assert process.end() == 0
