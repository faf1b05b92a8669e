"""A log that was set aside comes back by the three steps of docs/DURABILITY.md, which are run as they stand there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from tests.cli.process import broker, run

DOCS = Path(__file__).parents[3] / "docs" / "DURABILITY.md"
VALUES = [b"one", b"two"]


def steps() -> list[str]:
    block = DOCS.read_text().partition("comes back in three steps")[2].partition("```sh\n")[2].partition("```")[0]
    return [line.partition("#")[0].strip() for line in block.splitlines()]


def test_a_stray_log_comes_back_as_the_docs_say(tmp_path: Path) -> None:
    create, move, start = steps()
    data_dir = tmp_path / "data"
    options = ("--port", "0", "--data-dir", str(data_dir))
    with broker(*options, "--topic", "orders:1") as process:
        with Producer(bootstrap_servers=f"127.0.0.1:{process.port}") as producer:
            for value in VALUES:
                producer.send("orders", value).result(60)
        assert process.end() == 0
    away = tmp_path / "orders-0"
    (data_dir / "orders-0").rename(away)
    with broker(*options) as process:  # the topic is deleted, and its directory comes back under its name
        assert run("topics", "-b", f"127.0.0.1:{process.port}", "delete", "orders").returncode == 0
        assert process.end() == 0
    away.rename(data_dir / "orders-0")
    with broker(*options) as process:
        assert process.end() == 0
    assert len(list(data_dir.glob("orders-0.*-stray"))) == 1

    with broker(*options) as process:
        command = create.split()[1:]
        made = run(command[0], "-b", f"127.0.0.1:{process.port}", *command[1:])
        assert made.returncode == 0, made.stderr
        assert process.end() == 0
    subprocess.run(["/bin/sh", "-c", move.replace("DATA_DIR", str(data_dir))], check=True)
    assert start == "barnabas broker --data-dir DATA_DIR"
    with broker(*options) as process:
        server = f"127.0.0.1:{process.port}"
        with Producer(bootstrap_servers=server) as producer:
            assert producer.send("orders", b"three").result(60).offset == len(VALUES)
        with Consumer("orders", bootstrap_servers=server, auto_offset_reset="earliest") as consumer:
            found: list[bytes] = []
            while len(found) < 3:
                records = consumer.poll(60)
                assert records
                found += [bytes(record.value) for record in records]
        assert found == [*VALUES, b"three"]
        assert process.end() == 0
    assert not list(data_dir.glob("*-stray"))
