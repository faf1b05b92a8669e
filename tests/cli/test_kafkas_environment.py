"""A broker under the environment of Kafka's own compose example: what is opened, and what each side is told."""

from __future__ import annotations

import re

from barnabas import Producer
from barnabas.cli.look import state
from tests.broker.config.test_kafkas_own import SINGLE, environment
from tests.cli.process import broker, run


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
