"""`/metrics` is Prometheus text 0.0.4 to the letter, and pleases its linter; it is worked out for whoever asks.

The linter's rules are those of `promtool check metrics` (`./dev tools` brings it) and of Prometheus' page on naming.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import barnabas.aio
from barnabas.broker.host.meanings import MEANINGS
from barnabas.broker.host.prometheus import render
from barnabas.broker.metrics import MetricsRegistry
from tests.broker.host.fake_core import Raw, client
from tests.broker.host.test_real_core import PRODUCE, answer, fetch, produce
from tests.broker.node.controllers import Controllers

OF_VOTERS = {name for name in MEANINGS if name.startswith("raft-metrics.")}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = rf'{NAME}="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (-?[0-9.]+(?:e[+-]?[0-9]+)?|NaN)")
SUFFIXES = {"summary": ("", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def parse(text: str) -> Iterator[tuple[str, str, str]]:
    """(name, labels, value) of each sample; AssertionError where the format is broken."""
    family, kind, told, seen, helped = "", "", set(), set(), ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, helped, sentence = line.split(" ", 3)
            assert len(sentence) > 10, line
            continue
        declared = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|summary)", line)
        if declared:
            family, kind = declared.groups()
            assert family not in told, f"{family} is declared twice"
            assert helped == family, f"{family} has no HELP"
            told.add(family)
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        name, labels, value = sample[1], sample[2] or "", sample[3]
        assert name in [family + suffix for suffix in SUFFIXES[kind]], f"{name} stands under {family}"
        assert (name, labels) not in seen, f"{line} comes twice"
        seen.add((name, labels))
        yield name, labels, value


async def get(raw: Raw, path: str) -> str:
    raw.send(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    return (await raw.ended()).partition(b"\r\n\r\n")[2].decode()


def test_each_kind_has_its_lines_and_labels_are_escaped() -> None:
    registry = MetricsRegistry()
    registry.gauge("kafka.cluster:Partition", "AtMinIsr", {"topic": 'a"b\\c\nd', "client-id": "x"}, lambda: 1)
    registry.meter("BrokerTopicMetrics", "BytesInPerSec").mark(7)
    registry.meter("BrokerTopicMetrics", "BytesInPerSec", {"topic": "t"}).mark(5)
    registry.histogram("kafka.network:RequestMetrics", "TotalTimeMs", {"request": "Fetch"}).update(3)
    text = render(registry.collect(0))
    samples = list(parse(text))
    assert ("kafka_cluster_partition_atminisr", r'client_id="x",topic="a\"b\\c\nd"', "1") in samples
    assert ("kafka_server_brokertopicmetrics_bytesin_alltopics_total", "", "7") in samples
    assert ("kafka_server_brokertopicmetrics_bytesin_total", 'topic="t"', "5") in samples
    assert ("kafka_network_requestmetrics_totaltimems_count", 'request="Fetch"', "1") in samples
    assert text.count("# TYPE kafka_server_brokertopicmetrics_bytesin_total counter\n") == 1
    assert "# TYPE kafka_network_requestmetrics_totaltimems summary\n" in text


async def test_a_broker_s_page_parses_and_counts_what_happened() -> None:
    async with barnabas.aio.Broker(topics={"t": 1, "u": 2}) as broker:
        async with client(broker.port) as raw:
            raw.send(produce(1, b"value"))
            await answer(raw, PRODUCE, 3)
        async with client(broker.port) as raw:
            samples = {(name, labels): value for name, labels, value in parse(await get(raw, "/metrics"))}
    assert samples["kafka_server_brokertopicmetrics_messagesin_total", 'topic="t"'] == "1"
    assert samples["kafka_server_brokertopicmetrics_messagesin_alltopics_total", ""] == "1"
    assert samples["kafka_server_replicamanager_partitioncount", ""] == "3"
    assert samples["kafka_log_log_logendoffset", 'partition="0",topic="t"'] == "1"
    assert samples["kafka_server_kafkaserver_brokerstate", ""] == "3"


async def busy_page() -> str:
    """A page with something of every kind on it."""
    async with barnabas.aio.Broker(topics={"t": 1, "u": 2}) as broker:
        async with client(broker.port) as raw:
            raw.send(produce(1, b"value"))
            await answer(raw, PRODUCE, 3)
        registry = broker._assembly.host.registry
        registry.meter("DelayedProduceMetrics", "ExpiresPerSec", {"topic": "t", "partition": "0"}).mark()
        registry.histogram("kafka.network:RequestMetrics", "TotalTimeMs", {"request": "Fetch"}).update(3)
        async with client(broker.port) as raw:
            return await get(raw, "/metrics")


def promtool() -> str | None:
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas" / "promtool"
    return shutil.which("promtool") or (str(kept) if kept.exists() else None)


@pytest.mark.skipif(promtool() is None, reason="promtool is not here: ./dev tools")
async def test_prometheus_own_linter_has_nothing_to_say() -> None:
    command = promtool()
    assert command is not None
    page = await busy_page()
    run = subprocess.run([command, "check", "metrics"], input=page, capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def lint(text: str) -> list[str]:
    """What the linter would say of each family."""
    faults = []
    samples = list(parse(text))
    for name, kind in re.findall(rf"^# TYPE ({NAME}) (\w+)$", text, re.MULTILINE):
        if (kind == "counter") != name.endswith("_total"):
            faults.append(f"{name}: counters, and only they, end in _total")
        if re.search(r"_(count|sum|bucket)$", name):
            faults.append(f"{name}: only a summary's samples end so")
        if re.search(r"[A-Z:]", name) or re.search(r"counter|gauge|summary|histogram", name):
            faults.append(f"{name}: snake case, and no type in the name")
        if re.search(r"_(ms|us|ns|s|sec|h|m|d|kb|mb|gb|milliseconds|kilobytes|bits)(_total)?$", name):
            faults.append(f"{name}: base units, in full")
        labels = [set(re.findall(rf"({NAME})=", labels)) - {"quantile"} for one, labels, _ in samples if one == name]
        if any(found != labels[0] for found in labels):
            faults.append(f"{name}: labels differ, so that a sum counts twice")
        if any(re.search("[A-Z]", label) for found in labels for label in found):
            faults.append(f"{name}: labels in snake case")
    return faults


async def test_the_rules_of_the_linter_hold_and_no_sum_counts_twice() -> None:
    assert lint(await busy_page()) == []


def test_the_rules_bite() -> None:
    registry = MetricsRegistry()
    registry.gauge("Bad", "connections-total", None, lambda: 1)
    registry.gauge("Bad", "Held-kb", None, lambda: 1)
    registry.meter("Bad", "EventsPerSec", {"topic": "t"})
    registry.meter("Bad", "EventsPerSec")
    faults = "\n".join(lint(render(registry.collect(0))))
    assert faults.count("only they, end in _total") == 1
    assert faults.count("base units") == 1
    assert faults.count("counts twice") == 1


async def test_every_metric_of_a_broker_says_what_it_means() -> None:
    """And every sentence belongs to a metric."""
    page = await busy_page()
    told = set(re.findall(r"type=([\w-]+),name=([\w-]+)\)$", page, re.MULTILINE))
    beans = set(re.findall(r"type=([\w-]+),name=([\w-]+)\)?$", page, re.MULTILINE))
    assert beans - told == {("RequestMetrics", "TotalTimeMs")}
    of_followers = {"FetcherLagMetrics.ConsumerLag"}
    assert {f"{kind}.{name}" for kind, name in told} == set(MEANINGS) - of_followers - OF_VOTERS


def test_every_metric_of_a_voter_says_what_it_means() -> None:
    readings = Controllers()[1].core.registry.collect(0)
    assert {f"{one.type}.{one.name}" for one in readings if one.type == "raft-metrics"} == OF_VOTERS


def test_what_grows_with_the_broker_is_a_counter() -> None:
    registry = MetricsRegistry()
    registry.counter("socket-server-metrics", "request-total", None, lambda: 7)
    registry.counter("kafka.log:LogManager", "LostBytes", None, lambda: 9)
    registry.gauge("socket-server-metrics", "connection-count", {"listener": "X"}, lambda: 2)
    text = render(registry.collect(0))
    assert "# TYPE kafka_server_socket_server_metrics_request_total counter\n" in text
    assert "# TYPE kafka_log_logmanager_lostbytes_total counter\n" in text
    assert list(parse(text)) == [
        ("kafka_server_socket_server_metrics_request_total", "", "7"),
        ("kafka_log_logmanager_lostbytes_total", "", "9"),
        ("kafka_server_socket_server_metrics_connectioncount", 'listener="X"', "2"),
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what a process holds")
async def test_resident_memory_and_what_of_it_is_the_process_own(tmp_path: Path) -> None:
    """Pages of mapped files are resident as long as they are cached, and are not the process' own."""
    size = 32 << 20
    (tmp_path / "segment").write_bytes(b"x" * size)

    async def told() -> tuple[int, int]:
        async with client(broker.port) as raw:
            samples = {name: value for name, _, value in parse(await get(raw, "/metrics"))}
        return int(samples["process_resident_memory_bytes"]), int(samples["process_private_memory_bytes"])

    async with barnabas.aio.Broker() as broker:
        await told()  # what a first answer loads
        resident, private = await told()
        with (tmp_path / "segment").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            assert sum(mapped[:: mmap.PAGESIZE]) > 0
            then_resident, then_private = await told()
    assert then_resident - resident > 0.9 * size
    assert abs(then_private - private) < 0.1 * size


async def test_nothing_is_worked_out_while_nobody_looks() -> None:
    asked: list[int] = []

    def gauge() -> int:
        asked.append(1)
        return len(asked)

    async with barnabas.aio.Broker(topics={"t": 1}) as broker:
        broker._assembly.host.registry.gauge("Test", "Asked", None, gauge)
        async with client(broker.port) as raw:
            for number in range(50):
                raw.send(produce(number, b"value"))
                await answer(raw, PRODUCE, 3)
            raw.send(fetch(50, 0))
            await raw.frame()
        assert asked == []
        async with client(broker.port) as raw:
            assert "kafka_server_test_asked 1\n" in await get(raw, "/metrics")
        assert asked == [1]
