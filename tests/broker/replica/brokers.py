"""Several brokers' replica rooms in one process, with the shipped handlers and codec between them.

Each broker has a memory disk, a metadata image of its own, and the records that it has heard of so far; all are on one
virtual clock. Nothing happens by itself: a test, or chance, says which broker hears of a record, which message arrives,
whose disk answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.cluster.features import SUPPORTED_FEATURES
from barnabas.broker.cluster.image import Image, PartitionState
from barnabas.broker.cluster.leadership import judge
from barnabas.broker.cluster.records import MetadataRecord, Partition, PartitionChange, RegisterBroker, Topic
from barnabas.broker.config import BrokerConfig, TopicConfig
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.handlers.registry import Handlers
from barnabas.broker.handlers.services import Services
from barnabas.broker.handlers.sessions import FetchSessions
from barnabas.broker.log import Isolation, Log, LogManager
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.node.jobs import JobQueue
from barnabas.broker.ports import IsrAnswer, Lane
from barnabas.broker.replica import ReplicaManager
from barnabas.broker.replica.partition import Partition as Hosted
from barnabas.explain.stage import CountingEntropy
from barnabas.protocol.api import VERSIONS, key_of
from barnabas.protocol.batch import batches, read_header
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import BatchBuilder
from tests.broker.replica.world import WALL_MS, Answer, SlowController

TOPIC_ID: Final = b"replicated-topic"
BROKERS: Final = (1, 2, 3)


def P(number: int) -> TopicPartition:
    return TopicPartition("t", number)


class Message:
    """A request on its way, or its answer: `there` is called where it arrives, `lost` where it cannot."""

    def __init__(self, sender: Broker, target: int, there: Callable[[], None], lost: Callable[[], None]) -> None:
        self.sender = sender
        self.target = target
        self.there = there
        self.lost = lost


class Cluster:
    """The brokers, what they shall hear of, and what is on its way between them."""

    def __init__(self, *, partitions: int = 1, late: bool = False, **settings: Any) -> None:
        self.now_ms = 0
        self.settings = settings
        self.records: list[MetadataRecord] = []
        self.network: list[Message] = []
        self.silent: set[int] = set()
        """Brokers that answer nothing: what is sent to them is kept until they are heard again."""
        self.on_request: Callable[[Broker, Any], None] = lambda sender, request: None
        """Sees what arrives."""
        self.on_answer: Callable[[Any], Any] = lambda response: response
        """May change what is answered."""
        self.brokers: dict[int, Broker] = {}
        self.truth = Image()
        self.write(*[RegisterBroker(one, 0, bytes([one]) * 16, (), None, False) for one in BROKERS])
        self.write(Topic(TOPIC_ID, "t"))
        self.write(*[Partition(TOPIC_ID, number, BROKERS, BROKERS, 1) for number in range(partitions)])
        for one in BROKERS:
            self.brokers[one] = Broker(self, one, MemoryDisk(late=late))
            self.hear(one)

    # Metadata

    def write(self, *records: MetadataRecord) -> None:
        """Decide; no broker has heard of it yet."""
        self.records += records
        self.truth.apply(records)

    def elect(self, leader: int, partition: int = 0) -> None:
        """A leader, and so a leader epoch; no broker has heard of it yet."""
        self.write(PartitionChange(TOPIC_ID, partition, leader=leader))

    def decide(self, broker: int) -> bool:
        """The controller answers what a broker proposes for an ISR, if it does; no broker has heard of it yet."""
        one = self.brokers[broker]
        if not one.controller.pending:
            return False
        proposal, done = one.controller.pending.pop(0)
        state = self.truth.partition(*proposal.partition)
        code = judge(self.truth, proposal, state)
        if code:
            done(IsrAnswer(code))
        else:
            assert state is not None
            self.write(PartitionChange(proposal.topic_id, proposal.partition.partition, isr=proposal.isr))
            done(IsrAnswer(0, state.leader_epoch, state.partition_epoch + 1, proposal.isr))
        one.drain()
        return True

    def shrink(self, *isr: int) -> None:
        """Other replicas in sync, in the same leader epoch; no broker has heard of it yet."""
        self.write(PartitionChange(TOPIC_ID, 0, isr=isr))

    def state(self, partition: int = 0) -> PartitionState:
        """As the metadata has it."""
        state = self.truth.partition("t", partition)
        assert state is not None
        return state

    def leader(self, partition: int = 0) -> int:
        """As the metadata has it."""
        return self.state(partition).leader

    def hear(self, broker: int, count: int | None = None) -> None:
        """A broker hears of the next records (None: of all)."""
        self.brokers[broker].hear(count)

    def hear_all(self) -> None:
        for one in self.brokers:
            self.hear(one)

    # Lives

    def restart(self, broker: int, *, power: bool = False) -> None:
        """Kill a broker, or its machine, and start it anew on its disk; it acts on the metadata as it is now.

        What it led it leads in a later epoch, if nobody else was elected. Its requests may still arrive.
        """
        old = self.brokers[broker]
        if power:
            old.disk.crash()
        else:
            old.disk.kill()
        lost = [one for one in self.network if one.target == broker]
        self.network = [one for one in self.network if one.target != broker]
        for number, state in list(self.truth.topics["t"].partitions.items()):
            if state.leader == broker:
                self.elect(broker, number)
        self.brokers[broker] = Broker(self, broker, old.disk)
        self.hear(broker)
        for message in lost:
            message.lost()

    # The network

    def deliver(self, index: int = 0) -> bool:
        """The message at `index` arrives; False if it goes to a broker that is silent."""
        message = self.network[index]
        if message.target in self.silent:
            return False
        del self.network[index]
        message.there()
        return True

    def lose(self, index: int = 0) -> None:
        """The connection breaks: who asked is told that there is no answer."""
        self.network.pop(index).lost()

    def send(self, sender: Broker, target: int, request: Any, done: Callable[[Any | None], None]) -> None:
        """Carry a request as bytes, and its answer back."""
        key = key_of(type(request))
        version = VERSIONS[key][1]
        frame = b"".join(codec.encode_request(key, version, 7, "replica", request))[4:]

        def answered(response: Any) -> None:
            back = b"".join(codec.encode_response(key, version, 7, self.on_answer(response)))[4:]
            message = Message(
                self.brokers[target], sender.broker_id, lambda: told(codec.decode_response(key, version, back)[1]), lost
            )
            self.network.append(message)

        def told(response: Any | None) -> None:
            if self.brokers[sender.broker_id] is sender:
                done(response)
                sender.drain()

        def lost() -> None:
            told(None)

        def there() -> None:
            header, asked = codec.decode_request(memoryview(frame))
            self.on_request(sender, asked)
            self.brokers[target].serve(asked, header.api_version, answered)

        self.network.append(Message(sender, target, there, lost))

    # Time

    def settle(self) -> None:
        """All that is on its way arrives, all disks answer, until nothing is left to do at this time."""
        for _ in range(1000):
            worked = False
            for broker in self.brokers.values():
                worked |= broker.disk_answers()
            for message in list(self.network):
                if message in self.network:  # it may be lost meanwhile
                    worked |= self.deliver(self.network.index(message))
            for broker in self.brokers.values():
                due_ms = broker.manager.next_deadline_ms()
                if due_ms is not None and due_ms <= self.now_ms:
                    broker.tick()
                    worked = True
            if not worked:
                return
        raise AssertionError("the cluster never comes to rest")

    def advance(self, ms: int) -> None:
        """Let time pass, with all that is due on the way."""
        end_ms = self.now_ms + ms
        while True:
            self.settle()
            due = [due_ms for one in self.brokers.values() if (due_ms := one.manager.next_deadline_ms()) is not None]
            if not due or min(due) > end_ms:
                break
            self.now_ms = max(self.now_ms, min(due))
            self.settle()
        self.now_ms = end_ms
        self.settle()

    # Looking

    def ends(self, partition: int = 0) -> dict[int, int]:
        return {one: broker.log(partition).log_end_offset for one, broker in self.brokers.items()}

    def high_watermarks(self, partition: int = 0) -> dict[int, int]:
        return {one: broker.log(partition).high_watermark for one, broker in self.brokers.items()}

    def stages(self, partition: int = 0) -> dict[int, str]:
        """Where those that follow are."""
        return {
            one: follower["stage"]
            for one, broker in self.brokers.items()
            for follower in broker.manager.snapshot(self.now_ms)["following"]
            if follower["partition"] == partition
        }


class Broker:
    """One life of one broker."""

    def __init__(self, cluster: Cluster, broker_id: int, disk: MemoryDisk) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.disk = disk
        self.heard = 0
        self.image = Image()
        self.topic_config = TopicConfig(
            **{name: value for name, value in cluster.settings.items() if name in TopicConfig.__slots__}
        )
        own = {name: value for name, value in cluster.settings.items() if name not in TopicConfig.__slots__}
        config = BrokerConfig(node_id=broker_id, **own)
        registry = MetricsRegistry()
        self.jobs = JobQueue(lambda: None)
        self.logs = LogManager(disk, config, lambda _: self.topic_config, self)
        self._run(self.logs.load())
        self.controller = SlowController()
        self.manager = ReplicaManager(
            broker_id, config, self.logs, self.controller, self.image, self, registry, cluster.now_ms, self
        )
        self.manager.shared.run = lambda job, ended: self.jobs.add("fetch", job, ended)
        entropy = CountingEntropy()
        nothing: Any = None
        self._services = Services(
            config=config,
            static_config=config,
            cluster_id="",
            image=self.image,
            features=SUPPORTED_FEATURES,
            controller=nothing,
            replicas=self.manager,
            producer_ids=nothing,
            groups=nothing,
            sessions=FetchSessions(1000, entropy, registry, self.manager.shared.account),
            entropy=entropy,
            recovering=lambda: False,
            mutations=nothing,
            run=lambda steps, ended: self.jobs.add("request", steps, ended),
            failed=_failed,
            metadata_end=lambda: (0, 0),
            volume=disk.volume,
        )
        self._handlers = Handlers()
        self.manager.start(cluster.now_ms)
        self.logs.start(cluster.now_ms)

    # The world of the core: time of day, the other brokers

    def now_ms(self) -> int:
        return WALL_MS + self.cluster.now_ms

    def send(
        self,
        broker_id: int,
        request: Any,
        done: Callable[[Any | None], None],
        lane: Lane = Lane.RECORDS,
        version: int | None = None,
    ) -> None:
        self.cluster.send(self, broker_id, request, done)

    def knock(self, broker_id: int, done: Callable[[bool], None]) -> None:
        raise AssertionError("a follower knocks nowhere")

    # What happens

    def hear(self, count: int | None = None) -> None:
        records = self.cluster.records[self.heard : None if count is None else self.heard + count]
        self.heard += len(records)
        delta = self.image.apply(records)
        self.manager.apply(delta.partitions, delta.removed, self.cluster.now_ms)
        self.drain()

    def serve(self, request: Any, version: int, answered: Callable[[Any], None]) -> None:
        """A request of another broker."""
        key = key_of(type(request))
        state = getattr(request, "replica_state", None)
        peer = request.replica_id if state is None else state.replica_id
        context = _Context(Connection(1, "INTERNAL", "127.0.0.1", "kafka", 0, peer=peer), key, version, "replica")
        context.answered = answered
        self._handlers[key](self._services, request, context, self.cluster.now_ms)
        self.drain()

    def produce(self, *values: bytes, acks: int = -1, partition: int = 0, timeout_ms: int = 30_000) -> Answer:
        """A client's batch."""
        answer = Answer()
        entries = [(P(partition), _batch(values))]
        self.manager.append_records(entries, acks, timeout_ms, answer, self.cluster.now_ms)
        self.drain()
        return answer

    def delete_records(self, offset: int, partition: int = 0) -> None:
        self.manager.delete_records({P(partition): offset}, 1000, Answer(), self.cluster.now_ms)
        self.drain()

    def disk_answers(self) -> bool:
        """The disk answers what it was asked, and what follows from that is done."""
        worked = bool(self.disk.deliver())
        self.drain()
        return worked

    def keep_house(self) -> None:
        """What is due at the logs: retention, checkpoints, syncs."""
        for job in self.logs.due_jobs(self.cluster.now_ms):
            self._run(job)

    def tick(self) -> None:
        self.manager.tick(self.cluster.now_ms)
        self.drain()

    def drain(self) -> None:
        while self.jobs.step() or self.manager.actions:
            self.manager.drain(self.cluster.now_ms)

    def _run(self, job: Any) -> None:
        ended: list[Exception | None] = []
        self.jobs.add("log", job, ended.append)
        while not ended:
            if not self.jobs.step():
                self.disk.deliver()
        assert ended == [None], ended

    # Looking

    def log(self, partition: int = 0) -> Log:
        return self.logs.logs[P(partition)]

    def hosted(self, partition: int = 0) -> Hosted:
        found = self.manager.partition(P(partition))
        assert found is not None
        return found

    def batches(self, partition: int = 0) -> list[tuple[int, int, int, bytes]]:
        """Base offset, last offset, epoch and bytes behind the sum of every batch that can be read here."""
        log = self.log(partition)
        found: list[tuple[int, int, int, bytes]] = []
        offset = log.log_start_offset
        late, self.disk.late = self.disk.late, False
        while offset < log.log_end_offset:
            data = bytes(log.read(offset, 1 << 24, Isolation.LOG_END).records)
            if not data:
                break
            for position, size in batches(data):
                header = read_header(data, position)
                body = data[position + 17 : position + size]
                found.append((header.base_offset, header.last_offset, header.leader_epoch, body))
            offset = found[-1][1] + 1
        self.disk.late = late
        return found


class _Context(RequestContext):
    answered: Callable[[Any], None]

    def respond(self, response: Any) -> None:
        self.answered(response)

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


def _batch(values: tuple[bytes, ...]) -> bytearray:
    builder = BatchBuilder(1 << 24)
    for value in values:
        assert builder.try_append(WALL_MS, None, value)
    return bytearray(builder.build())


def _failed(request: Any, context: RequestContext, fault: Exception) -> None:
    raise fault
