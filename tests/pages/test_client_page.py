"""The programs of docs/CLIENT.md run, one after the other, and print what they should."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import Admin, Broker, Producer, TopicPartition
from barnabas.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "CLIENT.md").read_text()
PROGRAMS = dict(re.findall(r"^##+ ([^\n]+)\n(?:(?!^#).)*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
PRINTS = {
    "One shape": "",
    "Wait for many records": "10 0\n",
    "Callbacks": "0\n",
    "A poison pill": "poisoned 0 1\n[1, 2]\n",
    "Columns": "3\n3\n",
    "How far behind": "15\n",
    "Figures": "1.0 True\n",
    "A group": "True\n2 partitions go to others\n0\n",
    "Forking": "[['orders', 'orders'], ['orders']]\n",
    "On asyncio": "3 0\norders\n",
}
TWO_LINES = "Ending"
COMMANDS = [line.partition("  #")[0].split() for line in re.findall(r"^barnabas .+", PAGE, re.MULTILINE)]
LOOK = """
from barnabas import Consumer
with Consumer("orders", config="localhost:9092", auto_offset_reset="earliest") as consumer:
    print(any(record.value == b"last words" for record in consumer.poll(10, max_records=10_000)))
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(auto_create_topics_enable=False) as broker:
        with Admin(
            broker.bootstrap_servers
        ) as admin:  # what a program waits for too long it says: here, the topic of groups
            admin.group_offsets("billing")
        yield broker.bootstrap_servers


def start(program: str, servers: str, folder: Path) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(program.replace("localhost:9092", servers))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-W", "ignore", "program.py"]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_every_program_is_known() -> None:
    assert sorted(PROGRAMS) == sorted([*PRINTS, TWO_LINES])


@pytest.mark.slow
def test_the_programs_run_one_after_the_other(servers: str, tmp_path: Path) -> None:
    for name, printed in PRINTS.items():
        if name == "Columns":
            pytest.importorskip("pyarrow")
        told, said = start(PROGRAMS[name], servers, tmp_path).communicate(timeout=120)
        wrong = [line for line in said.splitlines() if "no answer yet" not in line]  # a busy machine takes its time
        assert (name, told, wrong) == (name, printed, [])


@pytest.mark.slow
def test_two_lines_make_sigterm_a_normal_exit(servers: str, tmp_path: Path) -> None:
    assert len(ast.parse(PROGRAMS[TWO_LINES]).body) == 2
    with Admin(servers) as admin:
        admin.create_topics("orders")  # unless the other programs have it already
    rest = """
import time
from barnabas import Consumer, Producer
producer = Producer("localhost:9092", linger_ms=60_000, delivery_timeout_ms=120_000)
producer.send("orders", b"last words", key=b"sigterm")
print("handed over", flush=True)
signal.pause()
"""
    process = start(PROGRAMS[TWO_LINES] + rest, servers, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "handed over\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    told, said = start(LOOK, servers, tmp_path).communicate(timeout=60)
    assert (told, said) == ("True\n", "")


def test_the_commands_run_one_after_the_other(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Broker(topics={"billed": 2}) as broker:
        with Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("billed", b"%d" % number, partition=number % 2).result(30)
            admin.alter_group_offsets("billing", {TopicPartition("billed", partition): 5 for partition in range(2)})
        told = []
        for _, *words in COMMANDS:
            arguments = [word for word in words if not word.startswith(">")]
            assert main([*arguments, "--server", broker.bootstrap_servers]) == 0, arguments
            out = capfd.readouterr().out
            for file in words[len(arguments) :]:
                Path(file.removeprefix(">")).write_text(out)
            told.append(out.splitlines())
        with Admin(broker.bootstrap_servers) as admin:
            assert admin.list_groups() == []
    listed, described, lag, offsets, shown, reset, exported, read_again, consumed, deleted = told
    assert listed[1].split() == ["billing", "Empty", "classic", "-", "0"]
    assert described[-1] == "total lag 0"
    assert '"total_lag": 0' in lag[0]
    assert offsets[1].split() == ["billed-0", "5", "-"]
    assert shown[-1] == "nothing was changed: --execute does it"
    assert reset[-1] == "billing goes on there"
    assert sorted(exported) == ["billed,0,3", "billed,1,5"]
    assert read_again[-1] == "billing goes on there"
    assert consumed == ["6", "8"]
    assert deleted == ["deleted billing"]
