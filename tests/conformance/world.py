"""What a scenario may use: one broker (`World`), short forms of the requests, and facts in words that compare.

A fact is a short string. Errors read `NONE` or `NAME(n)`, a fetched partition reads `NONE, 0-2 as sent, HW 3`, a time
reads as the time that was expected when it lies within the tolerance, else as what was measured. Topic ids, producer
ids and session ids are random: only their shape becomes a fact.
"""

import contextvars
import dataclasses
import itertools
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from barnabas.broker.introduction import Introduction
from tests.conformance.batches import Batch, Record, batch, parse, same_bytes
from tests.conformance.raw import Connection, Reply

PRODUCE, FETCH, FETCH_IDS, LIST, METADATA = 9, 12, 13, 9, 12

# Real clocks and real processes on a shared machine: early is never right, late is right up to this.
EARLY_MS_MAX = 5.0
LATE_MS_MAX = 200.0
HURRIED_MS_MAX = 100.0
"""As `EARLY_MS_MAX`, where the broker's clock began to run before ours did."""
_late_ms: contextvars.ContextVar[float] = contextvars.ContextVar("late_ms", default=LATE_MS_MAX)


class Late(AssertionError):
    """We ourselves were too late for what was to be seen: it says nothing of the broker."""


@contextmanager
def bearing(late_ms: float) -> Iterator[None]:
    """Within the block, in this thread, so much lateness (ms) is right."""
    token = _late_ms.set(late_ms)
    try:
        yield
    finally:
        _late_ms.reset(token)


def now_ms() -> int:
    """Wall clock, as producers stamp records with it."""
    return int(time.time() * 1000)


def error(code: Any) -> str:
    """An error code in words: `NONE` or `NAME(number)`."""
    return "NONE" if int(code) == 0 else f"{code.name.upper()}({int(code)})"


def after(ms: float, expected: float, late: float = 0.0, early: float = EARLY_MS_MAX) -> str:
    """`1000 ms` when the measured time is that within the tolerance, `at once` for 0; else what was measured."""
    if expected - early <= ms <= expected + max(late, _late_ms.get()):
        return f"{expected:.0f} ms" if expected else "at once"
    return f"{ms:.0f} ms (measured)"


def records(count: int, size: int = 1, prefix: bytes = b"") -> list[Record]:
    """Records without keys whose values have `size` bytes."""
    return [Record(value=prefix + bytes([97 + number % 26]) * size) for number in range(count)]


@dataclasses.dataclass(frozen=True, slots=True)
class Fetched:
    """One partition of a Fetch answer."""

    code: str
    high_watermark: int
    log_start: int
    last_stable: int
    payload: bytes
    batches: list[Batch]


@dataclasses.dataclass(frozen=True, slots=True)
class Produced:
    """One partition of a Produce answer."""

    code: str
    base_offset: int
    append_time: int
    log_start: int
    errors: list[int]
    message: str | None
    ms: float


class World:
    """One running broker and the topics made on it; used by many scenarios at once."""

    def __init__(self, name: str, port: int, data_dir: Path, peer_port: int = 0, secret: bytes = b"") -> None:
        self.name = name
        self.port = port
        self.data_dir = data_dir
        self._peer_port = peer_port
        self._secret = secret
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, int, int], bytes] = {}

    def connect(self, **options: Any) -> Connection:
        """A new connection; the caller closes it."""
        return Connection(self.port, **options)

    def connect_as(self, broker_id: int, **options: Any) -> Connection:
        """A new connection of another broker of the cluster; the caller closes it."""
        connection = Connection(self._peer_port, **options)
        if self._secret:
            cluster_id = self.call("metadata", METADATA, {"topics": []}).body.cluster_id
            side = Introduction(self._secret, cluster_id, broker_id, os.urandom(32))
            said = side.answered(connection.call("sasl_handshake", 1, {"mechanism": side.first().mechanism}).body)
            while said is not None:
                said = side.answered(connection.call("sasl_authenticate", 2, {"auth_bytes": said.auth_bytes}).body)
        return connection

    def http(self, path: str) -> str:
        """The answer of the broker's own HTTP side (ours only)."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    def call(self, api: str, version: int, body: dict[str, Any], **options: Any) -> Reply:
        """One request on a connection of its own."""
        with self.connect(**options) as connection:
            return connection.call(api, version, body)

    def fresh(self) -> str:
        """A topic name that nobody used."""
        with self._lock:
            return f"t{next(self._numbers):05}"  # so that the order of names is that in which they were made

    def create(self, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> str:
        """CreateTopics; the error in words. Configuration keys write `_` for `.`."""
        reply = self.call(
            "create_topics", 7, {"topics": [topic_body(name, partitions, replicas, configs)], "timeout": 10000}
        )
        return error(reply.body.topics[0].error_code)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A fresh topic that has its leaders."""
        name = self.fresh()
        code = self.create(name, partitions, 1, **configs)
        assert code == "NONE", f"CreateTopics {name}: {code}"
        self.wait(lambda: self.led(name, partitions), f"leaders of {name}")
        return name

    def led(self, name: str, partitions: int) -> bool:
        """Whether every partition is really served: Metadata may know a leader before the broker has become it."""
        found = self.metadata(name)
        if error(found.error_code) != "NONE" or len(found.partitions) != partitions:
            return False
        asked = [{"partition_index": index, "timestamp": -2} for index in range(partitions)]
        answer = self.call("list_offsets", LIST, list_body(name, asked)).body.topics[0].partitions
        return all(error(partition.error_code) == "NONE" for partition in answer)

    def delete(self, name: str) -> str:
        """DeleteTopics; the error in words."""
        reply = self.call("delete_topics", 6, {"topics": [{"name": name}], "timeout": 10000})
        return error(reply.body.responses[0].error_code)

    def metadata(self, name: str, *, create: bool = False) -> Any:
        """The topic's part of a Metadata answer."""
        body = {"topics": [{"name": name}], "allow_auto_topic_creation": create}
        return self.call("metadata", METADATA, body).body.topics[0]

    def leader_epoch(self, name: str, partition: int = 0) -> int:
        """The partition's leader epoch, from Metadata."""
        found = next(each for each in self.metadata(name).partitions if each.partition_index == partition)
        return int(found.leader_epoch)

    def produce(self, name: str, data: bytes | int, **options: Any) -> Produced:
        """Produce to one partition on a connection of its own; see `produce_on`."""
        with self.connect() as connection:
            return self.produce_on(connection, name, data, **options)

    def produce_on(
        self,
        connection: Connection,
        name: str,
        data: bytes | int,
        *,
        partition: int = 0,
        acks: int = 1,
        timeout: int = 10000,
    ) -> Produced:
        """Produce one batch (bytes, or this many small records stamped now) and remember it if it was taken."""
        payload = batch(records(data), timestamp=now_ms()) if isinstance(data, int) else data
        body = produce_body({name: {partition: payload}}, acks=acks, timeout=timeout)
        reply = connection.call("produce", PRODUCE, body)
        out = produced(reply)[name, partition]
        if out.base_offset >= 0:  # also where it waited for followers too long
            self._sent[name, partition, out.base_offset] = payload
        return out

    def fetch(self, name: str, offset: int, **options: Any) -> tuple[Fetched, float]:
        """Fetch one partition on a connection of its own; the partition and the time in ms."""
        with self.connect() as connection:
            reply = connection.call(
                "fetch", FETCH, fetch_body([(name, options.pop("partition", 0), offset)], **options)
            )
        return next(iter(fetched(reply).values())), reply.ms

    def list_offset(self, name: str, timestamp: int, *, version: int = LIST, partition: int = 0) -> str:
        """ListOffsets of one partition: the error, or `offset n, timestamp t`."""
        asked = [{"partition_index": partition, "timestamp": timestamp}]
        answer = self.call("list_offsets", version, list_body(name, asked)).body.topics[0].partitions[0]
        code = error(answer.error_code)
        return code if code != "NONE" else f"offset {answer.offset}, timestamp {answer.timestamp}"

    def producer_id(self) -> int:
        """A fresh producer id; a broker that has no block of ids yet is asked again, as clients do."""
        for _ in range(600):
            reply = self.call("init_producer_id", 4, {"transactional_id": None, "transaction_timeout": 60000})
            if error(reply.body.error_code) != "COORDINATOR_LOAD_IN_PROGRESS(14)":
                break
            pause(50)
        assert error(reply.body.error_code) == "NONE", error(reply.body.error_code)
        return int(reply.body.producer_id)

    def tell(self, name: str, got: Fetched, partition: int = 0) -> str:
        """A fetched partition in words; its batches are compared with the bytes that were sent."""
        if not got.batches:
            return f"{got.code}, {'empty' if not got.payload else 'a cut batch'}, HW {got.high_watermark}"
        parts = []
        for each in got.batches:
            sent = self._sent.get((name, partition, each.base_offset))
            same = sent is not None and same_bytes(sent, each.raw)
            parts.append(f"{each.base_offset}-{each.last_offset}{' as sent' if same else ' changed'}")
        return f"{got.code}, {' '.join(parts)}, HW {got.high_watermark}"

    def directory(self, name: str, partition: int = 0) -> Path:
        """The partition's log directory."""
        return next(path for path in self.data_dir.rglob(f"{name}-{partition}") if path.is_dir())

    def files(self, name: str, suffix: str, partition: int = 0) -> list[str]:
        """Names of the partition's files with this suffix, in order."""
        return sorted(path.name for path in self.directory(name, partition).glob(f"*{suffix}"))

    def wait(self, holds: Callable[[], bool], what: str, seconds_max: float = 30.0) -> None:
        """Ask again and again until it holds.

        Raises:
            AssertionError: it never did.
        """
        deadline = time.monotonic() + seconds_max
        while not holds():
            assert time.monotonic() < deadline, f"{self.name}: never came: {what}"
            pause(20)


def pause(ms: float) -> None:
    """Let real time pass: the broker under test is another process with a clock of its own."""
    threading.Event().wait(ms / 1000)


@contextmanager
def later(ms: float, action: Callable[[], object], late: float = 0.0) -> Iterator[None]:
    """Run `action` after `ms` on another thread; at the end of the block it is done, and its error is raised.

    Raises:
        Late: it was done too late to be what was asked for.
    """
    failures: list[BaseException] = []
    began, ended = time.monotonic(), 0.0

    def run() -> None:
        nonlocal ended
        pause(ms)
        try:
            action()
        except BaseException as caught:
            failures.append(caught)
        ended = time.monotonic()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()
    if failures:
        raise failures[0]
    if (ended - began) * 1000 > ms + max(late, _late_ms.get()):
        raise Late(f"what was to happen after {ms:.0f} ms took {(ended - began) * 1000:.0f} ms")


def topic_body(name: str, partitions: int, replicas: int, configs: dict[str, str]) -> dict[str, Any]:
    """One topic of CreateTopics v7."""
    pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": pairs}


def produce_body(
    payloads: dict[str, dict[int, bytes | None]],
    *,
    acks: int = 1,
    timeout: int = 10000,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """A Produce request up to v12 (topics by name)."""
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": timeout,
        "topic_data": [
            {"name": name, "partition_data": [{"index": index, "records": data} for index, data in parts.items()]}
            for name, parts in payloads.items()
        ],
    }


def produced(reply: Reply) -> dict[tuple[str, int], Produced]:
    """The partitions of a Produce answer up to v12, by name and index."""
    out = {}
    for topic in reply.body.responses:
        for part in topic.partition_responses:
            stamp = -1 if part.log_append_time is None else round(part.log_append_time.timestamp() * 1000)
            errors = [each.batch_index for each in part.record_errors]
            found = Produced(
                error(part.error_code),
                part.base_offset,
                stamp,
                part.log_start_offset,
                errors,
                part.error_message,
                reply.ms,
            )
            out[str(topic.name), int(part.index)] = found
    return out


def fetch_body(
    partitions: list[tuple[Any, int, int]],
    *,
    wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    forget: list[tuple[Any, int]] | None = None,
    epoch: int = -1,
    last_epoch: int = -1,
    isolation: int = 0,
    key: str = "topic",
) -> dict[str, Any]:
    """A Fetch request for (topic, partition, offset) in this order; with `key="topic_id"` for v13 and later."""
    topics: list[dict[str, Any]] = []
    for name, partition, offset in partitions:
        if not topics or topics[-1][key] != name:
            topics.append({key: name, "partitions": []})
        topics[-1]["partitions"].append(
            {
                "partition": partition,
                "fetch_offset": offset,
                "partition_max_bytes": partition_max,
                "current_leader_epoch": epoch,
                "last_fetched_epoch": last_epoch,
            }
        )
    return {
        "max_wait": wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": topics,
        "forgotten_topics_data": [{key: name, "partitions": [partition]} for name, partition in forget or []],
    }


def fetched(reply: Reply) -> dict[tuple[Any, int], Fetched]:
    """The partitions of a Fetch answer, by topic (name up to v12, id from v13) and index, in the answer's order."""
    out = {}
    for topic in reply.body.responses:
        for part in topic.partitions:
            name = getattr(topic, "topic", None) or getattr(topic, "topic_id", None)
            payload = part.records or b""
            out[name, int(part.partition_index)] = Fetched(
                error(part.error_code),
                part.high_watermark,
                part.log_start_offset,
                part.last_stable_offset,
                bytes(payload),
                parse(payload),
            )
    return out


def list_body(name: str, partitions: list[dict[str, int]]) -> dict[str, Any]:
    """A ListOffsets request of one topic."""
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": partitions}]}
