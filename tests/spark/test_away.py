"""Brokers that go and come back under planner and tasks, without a JVM."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas import Broker, Consumer, Producer
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.spark_bridge import brokers as brokers_module
from barnabas.spark_bridge.errors import remedy_for
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.patience import BrokersAway
from barnabas.spark_bridge.source import BatchReader, StreamReader

ALL = ReadAllAvailable()
TOPIC = "kept"


class Said(logging.Handler):
    """Lets a test wait until the bridge has said that it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.waits = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        if "gives no answer" in self.texts[-1]:
            self.waits.set()


@pytest.fixture
def said() -> Iterator[Said]:
    handler = Said()
    logger = logging.getLogger("barnabas.spark_bridge")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, int]:
    """A data directory with ten records in one partition, and the port of the broker that wrote them and is gone."""
    with Broker(data_dir=tmp_path, topics={TOPIC: 1}) as broker:
        put(broker, range(10))
        return tmp_path, broker.port


def put(broker: Broker, values: range) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(TOPIC, b"%d" % value).result()


def options(port: int, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": f"127.0.0.1:{port}", "subscribe": TOPIC, "startingOffsets": "earliest", **more}


def values(reader: StreamReader | BatchReader, tasks: Any) -> list[int]:
    return [int(value) for task in tasks for found in reader.read(task) for value in found.column("value").to_pylist()]


def test_the_planner_waits_for_a_broker(place: tuple[Path, int], said: Said) -> None:
    directory, port = place
    reader = StreamReader(read_options(options(port, **{"kafka.default.api.timeout.ms": "1000"}), "stream"))
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(reader.latestOffset, reader.initialOffset(), ALL)
        assert said.waits.wait(30)
        with Broker(data_dir=directory, port=port):
            assert planned.result(30)[TOPIC] == {"0": 10}
            reader.stop()
    away, back = said.texts
    assert away.startswith(f"127.0.0.1:{port} gives no answer (no metadata from ")
    assert back.startswith(f"127.0.0.1:{port} answers again after ")


def test_a_running_planner_waits_as_well(place: tuple[Path, int], said: Said) -> None:
    directory, port = place
    reader = StreamReader(read_options(options(port), "stream"))
    with Broker(data_dir=directory, port=port):
        end = reader.latestOffset(reader.initialOffset(), ALL)
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(reader.latestOffset, end, ALL)
        assert said.waits.wait(30)
        with Broker(data_dir=directory, port=port) as broker:
            put(broker, range(10, 12))
            later = planned.result(30)
            while later == end:  # it looked before they came
                later = reader.latestOffset(end, ALL)
            assert values(reader, reader.partitions(end, later)) == [10, 11]
            reader.stop()


def test_a_task_waits_for_a_broker(place: tuple[Path, int], said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers_module, "CHECK_MS", 100)
    directory, port = place
    reader = BatchReader(read_options(options(port, **{"kafka.default.api.timeout.ms": "1000"}), "batch"))
    with Broker(data_dir=directory, port=port):
        tasks = reader.partitions()
        assert values(reader, tasks) == list(range(10))  # its connection is kept, for the next task
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(values, reader, tasks)
        assert said.waits.wait(30)
        with Broker(data_dir=directory, port=port):
            assert found.result(30) == list(range(10))
    assert said.texts[0].startswith(f"reading {TOPIC}-0 at offset 0: 127.0.0.1:{port} gives no answer (")
    assert "answers again after" in said.texts[-1]
    assert len(said.texts) == 2


class Late:
    """Hands on to a broker what it is sent, and its answers so many seconds after they came."""

    def __init__(self, port: int, late_s: float) -> None:
        self._port, self._late_s = port, late_s
        self._serving: Future[int] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(),))
        self._thread.start()
        self.port = self._serving.result(30)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self._serving.set_result(server.sockets[0].getsockname()[1])
            await self._stop.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self._port)
        with closing(writer), closing(here):
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, here, 0))
                both.create_task(self._pass(there, writer, self._late_s))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late_s: float) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                self._loop.call_later(late_s, writer.write, data)
        await asyncio.sleep(late_s)
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def test_who_answers_late_is_not_away(place: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A call may take a tenth of what the broker needs, at first: planner and task ask with ever more time."""
    monkeypatch.setattr(brokers_module, "CHECK_MS", 100)
    directory, port = place
    with (
        closing(Late(port, 0.1)) as late,
        Broker(data_dir=directory, port=port, config={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{late.port}"}),
    ):
        given = options(late.port, brokerTimeout="60s", **{"kafka.default.api.timeout.ms": "10"})
        reader = BatchReader(read_options(given, "batch"))
        assert values(reader, reader.partitions()) == list(range(10))


def test_a_new_task_waits_as_well(place: tuple[Path, int], said: Said) -> None:
    directory, port = place
    reader = BatchReader(read_options(options(port, **{"kafka.default.api.timeout.ms": "1000"}), "batch"))
    with Broker(data_dir=directory, port=port):
        tasks = reader.partitions()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(values, reader, tasks)
        assert said.waits.wait(30)
        with Broker(data_dir=directory, port=port):
            assert found.result(30) == list(range(10))


@pytest.mark.parametrize("kind", ["planner", "task"])
def test_who_stays_away_ends_it_with_one_sentence(
    place: tuple[Path, int], said: Said, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers_module, "CHECK_MS", 100)
    directory, port = place
    reader = BatchReader(read_options(options(port, brokerTimeout="300ms"), "batch"))
    with Broker(data_dir=directory, port=port):
        tasks = reader.partitions()
    doing = "" if kind == "planner" else f"reading {TOPIC}-0 at offset 0: "
    sentence = rf"^{doing}127\.0\.0\.1:{port} gave no answer for .* option brokerTimeout"
    with pytest.raises(BrokersAway, match=sentence) as told:
        values(reader, reader.partitions() if kind == "planner" else tasks)
    assert "Connection refused" in str(told.value)
    assert "\n" not in str(told.value)


def test_an_error_of_a_task_names_topic_partition_offset_and_option(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, topics={TOPIC: 1}) as broker:
        put(broker, range(10))
    (log,) = tmp_path.glob(f"**/{TOPIC}-0/*.log")
    written = bytearray(log.read_bytes())
    written[-1] ^= 1
    log.write_bytes(written)
    with Broker(data_dir=tmp_path) as broker:
        reader = BatchReader(read_options(options(broker.port), "batch"))
        told = rf"^reading {TOPIC}-0 at offset \d, asked for by the option subscribe: CORRUPT_MESSAGE.*kafka.check.crcs"
        with pytest.raises(brokers_module.ReadFailed, match=told):
            values(reader, reader.partitions())


def test_what_is_corrupt_but_for_its_sum_gets_no_advice_about_sums() -> None:
    """Records that unpack to more than a batch may hold: to read on without sums would bring them again."""
    bomb = KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-0, at or after offset 7: more than 134217728 bytes")
    assert remedy_for(bomb) == ". Begin behind it, from a new checkpoint with startingOffsets"
    broken = KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-0: the batch at offset 7 does not match its checksum")
    assert "kafka.check.crcs=false reads on; else begin behind it" in remedy_for(broken)
    assert remedy_for(BrokersAway("h:1")) == ""


def test_an_error_by_accident_keeps_its_traceback_and_says_what_was_read(
    place: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, port = place
    monkeypatch.setattr(Consumer, "poll_columns", lambda *_, **__: 1 // 0)
    with Broker(data_dir=directory, port=port):
        reader = BatchReader(read_options(options(port), "batch"))
        with pytest.raises(ZeroDivisionError) as raised:
            values(reader, reader.partitions())
    assert raised.value.__notes__ == [f"barnabas was reading {TOPIC}-0 at offset 0"]
