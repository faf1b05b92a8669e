"""Clients that work as long as they are let, each in a thread of its own, and what they were told.

All ask for acks=all. A round is some records to each partition, or a commit, and the answers to it. What was not
acknowledged may be there or not; whoever is idempotent has nothing twice, and each partition in its order.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import threading
from typing import Any, Final, Protocol

from barnabas import Admin, Consumer, Producer
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import BOUND_S
from tests.wire.test_kcat import KCAT

PARTITIONS: Final = 3
COUNT: Final = 5
"""Records to each partition in a round."""
TIMEOUT_MS: Final = 60_000


class Wrong(AssertionError):
    """A promise was broken."""


class Worker(Protocol):
    """What one client does."""

    name: str

    def round(self) -> None:
        """Once more, to the end."""

    def close(self) -> None:
        """Let go of everything."""


class Sender:
    """What a producer sent, and what it was told. Records of a partition carry rising numbers."""

    once = True
    """Whether it is idempotent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.present: set[tuple[int, int]] = set()
        """Partition and number of what was acknowledged by a client that tells no offsets."""
        self.number = 0
        self.failures: list[str] = []

    def told(self, partition: int, offset: int, number: int) -> None:
        before = self.acknowledged.setdefault((partition, offset), number)
        if before != number:
            raise Wrong(f"{self.name}: {before} and {number} are both acknowledged at {partition}-{offset}")

    def check(self, found: dict[tuple[int, int], int]) -> None:
        """Hold all records of the topic, by partition and offset, against it.

        Raises:
            Wrong: one is lost, another's, or there twice.
        """
        for at, number in self.acknowledged.items():
            if found.get(at) != number:
                raise Wrong(f"{self.name}: {number} at {at[0]}-{at[1]} is lost, {found.get(at)} is there")
        there = {(partition, number) for (partition, _), number in found.items()}
        if not self.present <= there:
            raise Wrong(f"{self.name}: {sorted(self.present - there)[:5]} are lost")
        for partition in range(PARTITIONS):
            numbers = [found[at] for at in sorted(found) if at[0] == partition]
            if numbers and not 0 <= min(numbers) <= max(numbers) < self.number:
                raise Wrong(f"{self.name}: what nobody sent is in {partition}: {numbers}")
            odd = [pair for pair in itertools.pairwise(numbers) if pair[0] >= pair[1]]
            if self.once and odd:
                raise Wrong(f"{self.name}: partition {partition} has {odd[:5]}, twice or out of order")


class Bundled(Sender):
    def __init__(self, name: str, servers: str, *, once: bool) -> None:
        super().__init__(name)
        self.once = once
        self._producer = Producer(
            bootstrap_servers=servers,
            acks="all",
            linger_ms=0,
            enable_idempotence=once,
            delivery_timeout_ms=TIMEOUT_MS,
            request_timeout_ms=5000,
        )

    def round(self) -> None:
        numbers = range(self.number, self.number + COUNT)
        self.number += COUNT
        sent = [
            (number, self._producer.send(self.name, b"%d" % number, partition=partition))
            for number in numbers
            for partition in range(PARTITIONS)
        ]
        for number, future in sent:
            try:
                record = future.result(2 * BOUND_S)
            except BarnabasError as error:
                self.failures.append(repr(error))
            else:
                self.told(record.partition, record.offset, number)

    def close(self) -> None:
        self._producer.close(1)


class Confluent(Sender):
    def __init__(self, name: str, servers: str) -> None:
        import confluent_kafka

        super().__init__(name)
        self._left = 0
        settings = {"bootstrap.servers": servers, "log_level": 0, "enable.idempotence": True, "linger.ms": 0}
        self._producer = confluent_kafka.Producer(
            {**settings, "delivery.timeout.ms": TIMEOUT_MS, "socket.timeout.ms": 5000}
        )

    def round(self) -> None:
        for _ in range(COUNT):
            for partition in range(PARTITIONS):
                self._left += 1
                self._producer.produce(self.name, b"%d" % self.number, partition=partition, on_delivery=self._said)
            self.number += 1
        while self._left:
            self._producer.poll(1)

    def _said(self, error: Any, message: Any) -> None:
        self._left -= 1
        if error is not None:
            self.failures.append(str(error))
        else:
            self.told(message.partition(), message.offset(), int(message.value()))

    def close(self) -> None:
        self._producer.flush(1)


class Kcat(Sender):
    """A process for each round and partition; it tells no offsets."""

    def __init__(self, name: str, servers: str) -> None:
        super().__init__(name)
        self._servers = servers

    def round(self) -> None:
        numbers = range(self.number, self.number + COUNT)
        self.number += COUNT
        for partition in range(PARTITIONS):
            command = [str(KCAT), "-b", self._servers, "-P", "-t", self.name, "-p", str(partition), "-q"]
            command += ["-X", "enable.idempotence=true", "-X", f"delivery.timeout.ms={TIMEOUT_MS}"]
            command += ["-X", "socket.timeout.ms=5000"]
            text = "".join(f"{number}\n" for number in numbers)
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            if done.returncode or "Delivery failed" in done.stderr:
                self.failures.append(done.stderr)
            else:
                self.present.update((partition, number) for number in numbers)

    def close(self) -> None:
        """Nothing is open."""


class Committer:
    """Commits a rising number to a group without members, and asks for it through another client's eyes."""

    def __init__(self, name: str, servers: str) -> None:
        self.name = name
        self.number = 0
        self.acknowledged = 0
        self._asks = Admin(bootstrap_servers=servers, request_timeout_ms=5000)
        self._consumer = Consumer(
            bootstrap_servers=servers, group_id=name, enable_auto_commit=False, request_timeout_ms=5000
        )
        self._keys = [TopicPartition("plain", number) for number in range(PARTITIONS)]
        self._consumer.assign(self._keys)
        self.failures: list[str] = []

    def round(self) -> None:
        self.number += 1
        try:
            self._consumer.commit(dict.fromkeys(self._keys, self.number), BOUND_S)
            self.acknowledged = self.number
            self.check()
        except BarnabasError as error:
            self.failures.append(repr(error))

    def check(self) -> None:
        """Ask what is committed.

        Raises:
            Wrong: it is older than what was acknowledged.
        """
        least = self.acknowledged
        found = self._asks.group_offsets(self.name)
        for key in self._keys:
            offset = found[key].offset if key in found else None
            if offset is None or not least <= offset <= self.number:
                raise Wrong(f"group {self.name}: {offset} is told of {key}, {least} was acknowledged")

    def close(self) -> None:
        self._consumer.close(1)
        self._asks.close()


class Member:
    """A member of a group that reads the topic of the idempotent producer, and commits by itself."""

    def __init__(self, name: str, servers: str, protocol: str) -> None:
        self.name = name
        self.read: dict[tuple[int, int], int] = {}
        self.failures: list[str] = []
        self._consumer = Consumer(
            "idempotent",
            bootstrap_servers=servers,
            group_id=f"readers-{protocol}",
            group_protocol=protocol,  # type: ignore[arg-type]
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
        )

    def round(self) -> None:
        try:
            records = self._consumer.poll(0.5)
        except BarnabasError as error:
            self.failures.append(repr(error))
            return
        for one in records:
            number = int(one.value)
            if self.read.setdefault((one.partition, one.offset), number) != number:
                raise Wrong(f"{self.name} was given two records at {one.partition}-{one.offset}")

    def close(self) -> None:
        self._consumer.close(1)


class Load:
    """The clients at work. `goes_on` is how the rest of a run passes time: by rounds."""

    def __init__(self, servers: str, *, members: bool = True) -> None:
        self.servers = servers
        with Admin(bootstrap_servers=servers) as admin:
            for name in ("plain", "idempotent", "confluent", "kcat"):
                admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
        self.idempotent = Bundled("idempotent", servers, once=True)
        self.senders: list[Any] = [Bundled("plain", servers, once=False), self.idempotent]
        with contextlib.suppress(ImportError):
            self.senders.append(Confluent("confluent", servers))
        if KCAT is not None:
            self.senders.append(Kcat("kcat", servers))
        self.committers = [Committer(f"numbers-{number}", servers) for number in range(3)]
        kinds = ("classic", "classic", "consumer") if members else ()
        self.members = [Member(f"member-{number}", servers, kind) for number, kind in enumerate(kinds)]
        self._done = threading.Condition()
        self._rounds = dict.fromkeys((one.name for one in self._workers()), 0)
        self._over = False
        self._failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(one,)) for one in self._workers()]
        for thread in self._threads:
            thread.start()

    def _workers(self) -> list[Any]:
        return [*self.senders, *self.committers, *self.members]

    def _run(self, worker: Any) -> None:
        try:
            while not self._over:
                worker.round()
                with self._done:
                    self._rounds[worker.name] += 1
                    self._done.notify_all()
        except BaseException as failure:
            with self._done:
                self._failure = failure
                self._over = True
                self._done.notify_all()

    def goes_on(self, rounds: int = 2) -> None:
        """Each producer and committer has so many more rounds behind it.

        Raises:
            Wrong: a promise was broken meanwhile, or nothing goes on.
        """
        names = [one.name for one in (*self.senders, *self.committers)]
        with self._done:
            goals = {name: self._rounds[name] + rounds for name in names}
            there = lambda: self._over or all(self._rounds[name] >= goals[name] for name in names)  # noqa: E731
            if not self._done.wait_for(there, 2 * BOUND_S):
                late = [name for name in names if self._rounds[name] < goals[name]]
                raise Wrong(f"{late} do not go on")
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """All end their round; raises what failed."""
        self._over = True
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Let go of the clients."""
        self._over = True
        for thread in self._threads:
            thread.join()
        for one in self._workers():
            one.close()

    def check(self) -> None:
        """Hold what is there against what was told, once all is healed and the load has ended."""
        for sender in self.senders:
            sender.check(records(self.servers, sender.name))
        for committer in self.committers:
            committer.check()
        found = records(self.servers, "idempotent")
        for member in self.members:
            for at, number in member.read.items():
                if found.get(at) != number:
                    raise Wrong(f"{member.name} was given {number} at {at[0]}-{at[1]}, {found.get(at)} is there")

    def told(self) -> str:
        """How much there was."""
        count = sum(len(one.acknowledged) + len(one.present) for one in self.senders)
        commits = sum(one.acknowledged for one in self.committers)
        failed = {one.name: (len(one.failures), one.failures[-1]) for one in self._workers() if one.failures}
        return f"{count} records and {commits} commits acknowledged, failed: {failed or 'none'}"


def records(servers: str, topic: str) -> dict[tuple[int, int], int]:
    """All there is in a topic, by partition and offset."""
    found: dict[tuple[int, int], int] = {}
    keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(keys)
        ends = consumer.end_offsets(keys)
        while any(consumer.position(key) < ends[key] for key in keys):
            some = consumer.poll(BOUND_S)
            if not some:
                raise Wrong(f"{topic}: nothing comes after {len(found)} records, ends are {ends}")
            found |= {(one.partition, one.offset): int(one.value) for one in some}
    return found
