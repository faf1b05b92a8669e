"""A record's way through the producer: from `send` to the broker's answer."""

from __future__ import annotations

from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import Placed, ProducerCore
from barnabas.client.produce.interceptors import ProducerInterceptor
from barnabas.client.produce.partitioner import murmur2
from barnabas.client.produce.records import ProducerRecord
from barnabas.client.produce.result import BatchResult
from barnabas.explain.stage import TOPIC, WALL_MS, Stage
from barnabas.explain.telling import Walk
from barnabas.explain.wire import Wire
from barnabas.net.metadata import Metadata
from barnabas.net.network import NetworkClient

LEADERS = {0: 1, 1: 2, 2: 3, 3: 1}
"""Who leads which partition."""
LINGER_MS = 5


class _Upper(ProducerInterceptor):
    """An interceptor that has something to show."""

    def __init__(self) -> None:
        self.saw = ""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        before, record.value = record.value, record.value.upper()
        self.saw = f"{before!r} becomes {record.value!r}"
        return record


class _Sending:
    """A producer of three brokers, each with a core of its own."""

    def __init__(self) -> None:
        placed = {number: (leader,) for number, leader in LEADERS.items()}
        brokers = {number: Stage(LEADERS, (number,), placed=placed) for number in (1, 2, 3)}
        self.interceptor = _Upper()
        self.config = ProducerConfig.of(
            bootstrap_servers="localhost:9093,localhost:9094,localhost:9095",
            key_serializer="string",
            value_serializer="string",
            interceptor_classes=self.interceptor,
            linger_ms=LINGER_MS,
            max_in_flight_requests_per_connection=2,
        )
        metadata = Metadata(self.config, _no_chance, topic_idle_ms=self.config.metadata_max_idle_ms)
        network = NetworkClient(self.config, metadata, _no_chance)
        self.core: ProducerCore[tuple[BatchResult, int]] = ProducerCore(
            self.config, metadata, network, _no_chance, lambda result, index, _: (result, index)
        )
        self.network, self.metadata = network, metadata
        self.wire = Wire(network, brokers)
        self.wire.step.drivers.append(self.core.make_sender().step)

    def learn(self) -> None:
        self.metadata.want(TOPIC, self.wire.now_ms)
        self.wire.run()

    def send(self, value: str, key: str | None = None, partition: int | None = None) -> tuple[ProducerRecord, Placed]:
        record = self.core.prepare(ProducerRecord(TOPIC, value, key, partition=partition))
        placed = self.core.append(
            TOPIC, record.partition, record.key, record.value, (), WALL_MS + self.wire.now_ms, self.wire.now_ms
        )
        assert isinstance(placed, Placed), "topic and memory are there"
        return record, placed

    # -- what is looked at

    def deques(self) -> dict[str, str]:
        told = {}
        for queue in self.core.accumulator.topics[TOPIC].partitions:
            if queue.batches:
                batches = [f"[{one.record_count} records, {one.size} bytes]" for one in queue.batches]
                told[f"P{queue.where.partition}"] = " ".join(batches).replace("[1 records", "[1 record")
        return told

    def ready(self) -> str:
        found = self.core.accumulator.ready(self.metadata.cluster, self.wire.now_ms)
        if found.nodes:
            return f"at {self.wire.now_ms} ms: nodes {', '.join(map(str, sorted(found.nodes)))}"
        return f"at {self.wire.now_ms} ms: none; look again at {found.next_check_ms} ms"

    def in_flight(self) -> dict[str, int]:
        return {f"node {number}": self.network.in_flight_count(number) for number in (1, 2, 3)}

    def least_loaded(self) -> str:
        node = self.network.least_loaded_node(self.wire.now_ms)
        return "none can be asked" if node is None else f"node {self.wire.broker_of(node.id)}"

    def asked(self) -> list[str]:
        found, self.wire.asked = self.wire.asked, []
        return found


def walk() -> Walk:
    """Four partitions on three brokers, and a producer that knows only their addresses."""
    sending = _Sending()
    told = Walk(
        "The producer: a record's way to its broker",
        f"Topic {TOPIC} has four partitions: P0 and P3 are led by broker 1, P1 by 2, P2 by 3. The producer has three "
        f"bootstrap servers, linger.ms={LINGER_MS}, and at most two requests in flight to a broker. The brokers are "
        "real ones; their answers are on the way until the walk lets them come.",
    )
    sending.learn()
    told.step(
        "Before a record can be placed the topic's partitions and leaders must be known. Metadata, and the producer's "
        "id, are asked of the node with the fewest requests in flight.",
        {
            "asked": sending.asked(),
            "leaders": {f"P{number}": _leader(sending, number) for number in LEADERS},
            "in flight": sending.in_flight(),
            "controller": f"broker {sending.metadata.cluster.controller_id}",
        },
    )
    record, placed = sending.send("first", key="k")
    hashed, count = murmur2(record.key) & 0x7FFFFFFF, len(sending.metadata.cluster.partitions_for(TOPIC))
    told.step(
        "send('first', key='k'): interceptor, serializers, partitioner, then the end of the partition's deque.",
        {
            "interceptor": sending.interceptor.saw,
            "serializers": f"key {record.key!r}, value {record.value!r}",
            "partitioner": f"murmur2(key) = {hashed}, modulo {count} = {placed.result.where.partition}",
            "deques": sending.deques(),
        },
    )
    sending.send("second", key="k")
    told.step("A second record of the key: the batch at the end has room, and takes it.", {"deques": sending.deques()})
    for number in LEADERS:
        sending.send(f"to {number}", partition=number)
    told.step("One record to each partition, as the caller says.", {"deques": sending.deques()})
    _out(sending, told)
    _back(sending, told, placed)
    told.after = (
        "The caller's thread did the first part, up to the deque; the sender did the rest. Between them lies "
        "buffer.memory: whoever finds none waits, max.block.ms at most."
    )
    return told


def _leader(sending: _Sending, number: int) -> int:
    return sending.metadata.cluster.partitions_for(TOPIC)[number].leader


def _out(sending: _Sending, told: Walk) -> None:
    before = sending.ready()
    sending.wire.advance(LINGER_MS)
    told.step("Nothing leaves before a batch is full or has lingered.", {"ready": [before, sending.ready()]})
    sending.wire.run(deliver=False)
    told.step(
        "From <partition, batches> to <node, batches> to <node, request>: broker 1 gets P0 and P3 in one.",
        {"asked": sending.asked(), "deques": sending.deques(), "in flight": sending.in_flight()},
    )
    for number in (0, 3):
        sending.send("more", partition=number)
    sending.wire.advance(LINGER_MS)
    sending.wire.run(deliver=False)
    told.step(
        "More for broker 1 waits: a partition's first batch is acknowledged before the next one leaves.",
        {"asked": sending.asked(), "deques": sending.deques(), "in flight": sending.in_flight()},
    )
    sending.wire.deliver(1)
    told.step(
        "Broker 1's answer comes: what waited leaves.",
        {"asked": sending.asked(), "deques": sending.deques(), "in flight": sending.in_flight()},
    )
    sending.send("yet more", partition=0)
    sending.wire.advance(LINGER_MS)
    sending.wire.run(deliver=False)
    told.step(
        "From now on a second request follows the first, unanswered one.",
        {"asked": sending.asked(), "in flight": sending.in_flight(), "least loaded": sending.least_loaded()},
    )
    sending.send("too soon", partition=0)
    sending.wire.advance(LINGER_MS)
    sending.wire.run(deliver=False)
    told.step(
        "A third waits in its deque: two are in flight to broker 1 (max.in.flight.requests.per.connection).",
        {"asked": sending.asked(), "deques": sending.deques(), "in flight": sending.in_flight()},
    )


def _back(sending: _Sending, told: Walk, first: Placed) -> None:
    sending.wire.deliver(1)
    told.step(
        "Broker 1's next answer comes: there is room for the third request, which leaves.",
        {"asked": sending.asked(), "deques": sending.deques(), "in flight": sending.in_flight()},
    )
    sending.wire.run()
    result, index = first.result.part_of(first.at)
    told.step(
        "All answers come. A batch's records share one outcome; each one's offset is the batch's and its place in it.",
        {
            "in flight": sending.in_flight(),
            "first record": f"P{result.where.partition}, offset {result.base_offset + index}",
            "buffer.memory": f"{sending.core.accumulator.pool.available_bytes} of {sending.config.buffer_memory} free",
        },
    )


def _no_chance() -> float:
    return 0.5
