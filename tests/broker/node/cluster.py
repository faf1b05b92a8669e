"""Several cores on one clock, with a network of bytes between them: a whole cluster in virtual time.

Each is the shipped core on a memory disk; between them stand the codec and `handle_peer`, and no sockets. Requests on
a lane arrive one after the other, as on a connection. A broker can be killed, started again on its disk, paused (it
does nothing, what is sent to it is kept), and cut off. Once its process is gone, its machine refuses who knocks.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.broker.cluster.features import SUPPORTED_FEATURES, Spans
from barnabas.broker.config import BrokerConfig, Endpoint
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.handlers.failures import error_response
from barnabas.broker.log import Isolation, Log
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.core import Core
from barnabas.broker.peers.spoken import Unspoken, written
from barnabas.broker.ports import Lane
from barnabas.explain.stage import CountingEntropy
from barnabas.net import versions
from barnabas.net.versions import Served
from barnabas.protocol.api import SPOKEN, ApiKey, key_of
from barnabas.protocol.batch import batches, read_header
from barnabas.protocol.errors import EncodeError, ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests import create_topics
from barnabas.protocol.requests import produce as produces
from tests.broker.node.world import START_WALL_MS, batch

CLUSTER_ID = "a-cluster-of-tests-abc"
TIMEOUT_MS = 30_000


class Answer:
    """What became of a request: `response` once it came, at `at_ms`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.response: Any = None
        self.at_ms = -1

    def __call__(self, response: Any) -> None:
        assert not self.done, "answered twice"
        self.response, self.at_ms = response, self._cluster.now_ms

    @property
    def done(self) -> bool:
        return self.at_ms >= 0


class _Context(RequestContext):
    """Hands the answer on, as long as who asked is there."""

    def __init__(self, connection: Connection, key: int, version: int, answered: Callable[[Any], None]) -> None:
        super().__init__(connection, key, version, "test")
        self._answered = answered

    def respond(self, response: Any) -> None:
        self._answered(response)

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


class Call:
    """One request between brokers, the newest version that it may go in, and the way back of its answer."""

    def __init__(self, request: Any, newest: int, done: Callable[[Any], None], deadline_ms: int) -> None:
        self.request = request
        self.newest = newest
        self.done = done
        self.deadline_ms = deadline_ms


class Wire:
    """One lane of one broker to another: a request at a time, in versions that both sides speak, as `Way` has it."""

    def __init__(self, sender: Node, target: int, connection: Connection) -> None:
        self.sender = sender
        self.target = target
        self.connection = connection
        self.calls: deque[Call] = deque()
        self.asked = False
        self.answer: Any = None
        self.served: Served = {}


class Node:
    """One life of one broker."""

    def __init__(self, cluster: Cluster, node_id: int, disk: MemoryDisk, settings: dict[str, Any]) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.disk = disk
        self.wires: dict[tuple[int, Lane], Wire] = {}
        self._jobs_came = False
        config = BrokerConfig(
            node_id=node_id,
            **{"barnabas_cluster_id": CLUSTER_ID, "controller_quorum_voters": ("1@node-1:9093",), **settings},
        )
        self.core = Core(config, disk=disk, clock=self, entropy=cluster.entropy, peers=self)
        self.core.set_endpoints(
            [Endpoint("PLAINTEXT", f"node-{node_id}", 9092), Endpoint("BROKERS", f"node-{node_id}", 9093)]
        )
        self.core.features = cluster.releases.get(node_id, SUPPORTED_FEATURES)
        self.core.peer_versions.update(cluster.served.get(node_id, {}))
        self.core.boot_id = f"machine {node_id}, boot {cluster.boots[node_id]}"
        self.core.on_jobs = self._told_of_jobs
        self.core.start(cluster.now_ms)

    def _told_of_jobs(self) -> None:
        self._jobs_came = True

    # The world of the core: time of day, the other brokers

    def now_ms(self) -> int:
        return START_WALL_MS + self.cluster.now_ms

    def send(
        self,
        broker_id: int,
        request: Any,
        done: Callable[[Any], None],
        lane: Lane = Lane.RECORDS,
        version: int | None = None,
    ) -> None:
        key = key_of(type(request))
        self.cluster.asked[self.node_id, key] += 1
        wire = self.wires.get((broker_id, lane))
        if wire is None:
            wire = self.wires[broker_id, lane] = self.cluster.connect(self, broker_id)
        newest = self.core.peer_versions[key][1]
        newest = newest if version is None else min(version, newest)
        wire.calls.append(Call(request, newest, done, self.cluster.now_ms + TIMEOUT_MS))

    def knock(self, broker_id: int, done: Callable[[bool], None]) -> None:
        self.cluster.knocks.append((self, broker_id, done))

    # What happens

    def step(self) -> bool:
        """All that can be done now; whether there was anything."""
        now_ms = self.cluster.now_ms
        self._jobs_came = False
        worked = self.core.run_job_step(now_ms)
        if self.disk.deliver():
            worked = True
            self.core.wake(now_ms)
        due_ms = self.core.next_deadline_ms()
        if due_ms is not None and due_ms <= now_ms:
            self.core.tick(now_ms)
            worked = True
        return worked or self._jobs_came

    def told(self, done: Callable[[Any], None], response: Any) -> None:
        done(response)
        self.core.wake(self.cluster.now_ms)

    # Looking

    def log(self, partition: int = 0, topic: str = "t") -> Log:
        return self.core.logs.logs[TopicPartition(topic, partition)]

    def values(self, partition: int = 0, topic: str = "t") -> list[tuple[int, int, bytes]]:
        """Base offset, epoch and bytes behind the sum of every batch of a log that is in memory."""
        log = self.log(partition, topic)
        found = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = bytes(log.read(offset, 1 << 20, Isolation.LOG_END).records)
            for position, size in batches(data):
                header = read_header(data, position)
                found.append((header.base_offset, header.leader_epoch, data[position + 21 : position + size]))
                offset = header.next_offset
        return found


class Cluster:
    """The brokers, by node id; 1 is the controller."""

    def __init__(
        self,
        *node_ids: int,
        disks: dict[int, MemoryDisk] | None = None,
        served: Mapping[int, tuple[int, int]] | None = None,
        **settings: Any,
    ) -> None:
        """`disks` are what brokers begin with; empty ones where none is given. `served`: as `self.served`, of all."""
        self.now_ms = 1_000_000
        self.entropy = CountingEntropy()
        self.settings = settings
        self.disks = dict(disks or {})
        self.boots: Counter[int] = Counter()
        """How often a broker's machine was started anew."""
        self.nodes: dict[int, Node] = {}
        self.paused: set[int] = set()
        self.cut: set[frozenset[int] | tuple[int, int]] = set()
        """Pairs of brokers between which nothing passes, both ways, or from the first to the second."""
        self.wires: list[Wire] = []
        self.knocks: list[tuple[Node, int, Callable[[bool], None]]] = []
        self.taken: set[int] = set()
        """Brokers whose address another program has taken over."""
        self.releases: dict[int, Spans] = {}
        """Brokers of another release, from their next start on: what levels of features it knows."""
        self.served: dict[int, Mapping[int, tuple[int, int]]] = (
            dict.fromkeys(node_ids or (1, 2, 3), served) if served else {}
        )
        """Brokers of another release, from their next start on: which versions of some APIs it serves, and asks in."""
        self.asked: Counter[tuple[int, int]] = Counter()
        """How many requests of an API a broker has sent."""
        self.spoken: dict[tuple[int, int, int], set[int]] = {}
        """By broker, the one that it asked, and API: the versions that it asked in."""
        self.off: set[int] = set()
        """Brokers whose machine is without power: it refuses nobody."""
        self._connections = itertools.count(1)
        for node_id in node_ids or (1, 2, 3):
            self.start(node_id)
        self.until(lambda: all(one.core.ready for one in self.nodes.values()))

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    # Lives

    def start(self, node_id: int, **settings: Any) -> Node:
        """Start a broker on its disk, or on an empty one."""
        disk = self.disks.setdefault(node_id, MemoryDisk())
        self.off.discard(node_id)
        node = self.nodes[node_id] = Node(self, node_id, disk, {**self.settings, **settings})
        return node

    def kill(self, node_id: int, *, power: bool = False) -> None:
        """End a process, or its machine; connections to it are closed."""
        node = self.nodes.pop(node_id)
        if power:
            self.off.add(node_id)
            node.disk.crash()
            self.boots[node_id] += 1
        else:
            node.disk.kill()
        self._hang_up(node)

    def stop(self, node_id: int) -> None:
        """Stop a broker in good order."""
        ended: list[bool] = []
        node = self.nodes[node_id]
        node.core.stop(self.now_ms, lambda: ended.append(True))
        self.until(lambda: bool(ended))
        del self.nodes[node_id]
        self._hang_up(node)

    def _hang_up(self, node: Node) -> None:
        for wire in [one for one in self.wires if one.sender is node]:
            self._close(wire)
        for wire in [one for one in self.wires if one.target == node.node_id]:
            self._close(wire)

    # The network

    def connect(self, sender: Node, target: int) -> Wire:
        connection = Connection(
            next(self._connections), "BROKERS", "127.0.0.1", "kafka", self.now_ms, f"Broker:{sender.node_id}"
        )
        connection.peer = sender.node_id
        wire = Wire(sender, target, connection)
        self.wires.append(wire)
        return wire

    def _close(self, wire: Wire) -> None:
        """The connection is gone: who asked is told, if he is there, and whoever serves it lets go of it."""
        self.wires.remove(wire)
        sender = wire.sender
        wire.connection.open = False
        target = self.nodes.get(wire.target)
        if target is not None:
            target.core.disconnected(wire.connection)
        if self.nodes.get(sender.node_id) is sender:
            sender.wires = {key: one for key, one in sender.wires.items() if one is not wire}
            for call in wire.calls:
                sender.told(call.done, None)

    def _carry(self, wire: Wire) -> bool:
        """What can pass now on a connection; whether anything did."""
        there = wire.target in self.nodes
        if wire.calls and (not there or self.now_ms >= wire.calls[0].deadline_ms):
            self._close(wire)
            return True
        sender = wire.sender.node_id
        if frozenset((sender, wire.target)) in self.cut:
            return False
        if wire.answer is not None and sender not in self.paused and (wire.target, sender) not in self.cut:
            call, response, wire.answer, wire.asked = wire.calls.popleft(), wire.answer, None, False
            wire.sender.told(call.done, response)
            return True
        if wire.calls and not wire.asked and wire.target not in self.paused and (sender, wire.target) not in self.cut:
            self._arrives(wire, wire.calls[0])
            return True
        return False

    def _knock(self, node: Node, target: int, done: Callable[[bool], None]) -> None:
        """Whether a broker's address refuses: its process is gone, and its machine is there and can be reached."""
        there = target in self.nodes or target in self.taken or target in self.off
        pairs = frozenset((node.node_id, target)), (node.node_id, target), (target, node.node_id)
        node.told(done, not there and self.cut.isdisjoint(pairs))

    def _arrives(self, wire: Wire, call: Call) -> None:
        wire.asked = True
        key = key_of(type(call.request))

        def answered(response: Any) -> None:
            wire.answer = response

        if not wire.served:
            self._check_versions(wire, versions.ASKED_FIRST)
        try:
            version, buffers = written("broker", wire.served, 7, call.request, key, call.newest)
        except (Unspoken, EncodeError):
            assert self.served, "all of one release"
            answered(error_response(key, call.request, ErrorCode.UNSUPPORTED_VERSION))
            return
        self.spoken.setdefault((wire.sender.node_id, wire.target, key), set()).add(version)
        self._serve(wire, buffers, answered)

    def _check_versions(self, wire: Wire, asked: int) -> None:
        def answered(response: Any) -> None:
            told = versions.told(response, asked)
            if isinstance(told, int):
                self._check_versions(wire, told)
            else:
                wire.served = told

        key = ApiKey.API_VERSIONS
        if asked > self.nodes[wire.target].core.peer_versions[key][1]:
            frame = memoryview(b"".join(codec.encode_unsupported_api_versions(7)))[4:]
            answered(codec.decode_response(key, versions.answered_in(frame, asked), frame)[1])
        else:
            self._serve(wire, codec.encode_request(key, asked, 7, "broker", versions.question()), answered)

    def _serve(self, wire: Wire, buffers: list[Any], answered: Callable[[Any], None]) -> None:
        header, request = codec.decode_request(memoryview(b"".join(buffers))[4:])
        key, version = header.api_key, header.api_version

        def respond(response: Any) -> None:
            frame = b"".join(codec.encode_response(key, version, 7, response))[4:]
            answered(codec.decode_response(key, version, memoryview(frame))[1])

        core = self.nodes[wire.target].core
        oldest, newest = core.peer_versions[key]
        assert oldest <= version <= newest, f"{ApiKey(key).name} v{version} is not served by broker {wire.target}"
        core.handle_peer(request, _Context(wire.connection, key, version, respond), self.now_ms)

    # Time

    def settle(self) -> None:
        """All that can happen now happens."""
        for _ in range(100_000):
            worked = False
            for node_id, node in list(self.nodes.items()):
                if node_id not in self.paused:
                    worked |= node.step()
            for wire in list(self.wires):
                if wire in self.wires:
                    worked |= self._carry(wire)
            knocks, self.knocks = self.knocks, []
            for node, target, done in knocks:
                if self.nodes.get(node.node_id) is node:
                    worked = True
                    self._knock(node, target, done)
            if not worked:
                return
        raise AssertionError("the cluster never comes to rest")

    def _next_ms(self) -> int | None:
        due = [
            due_ms
            for node_id, node in self.nodes.items()
            if node_id not in self.paused and (due_ms := node.core.next_deadline_ms()) is not None
        ]
        due += [wire.calls[0].deadline_ms for wire in self.wires if wire.calls]
        return min(due, default=None)

    def advance(self, ms: int) -> None:
        """Let time pass, with all that is due on the way."""
        end_ms = self.now_ms + ms
        while True:
            self.settle()
            due_ms = self._next_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
        self.now_ms = end_ms
        self.settle()

    def until(self, there: Callable[[], bool], ms_max: int = 60_000) -> int:
        """Let time pass until something is so; how long it took (ms)."""
        began_ms = self.now_ms
        self.settle()
        while not there():
            due_ms = self._next_ms()
            assert due_ms is not None, "nothing will happen any more"
            assert due_ms <= began_ms + ms_max, "it never comes to that"
            self.now_ms = max(self.now_ms, due_ms)
            self.settle()
        return self.now_ms - began_ms

    # What clients do

    def client(self) -> Connection:
        """A connection of a client, which `Core.disconnected` ends."""
        return Connection(next(self._connections), "PLAINTEXT", "127.0.0.1", "kafka", self.now_ms)

    def send(self, node_id: int, request: Any, version: int, connection: Connection | None = None) -> Answer:
        """A client's request."""
        answer = Answer(self)
        connection = connection or self.client()
        key = key_of(produces.ProduceRequest if isinstance(request, produces.ProduceRequest) else type(request))
        self.nodes[node_id].core.handle(request, _Context(connection, key, version, answer), self.now_ms)
        return answer

    def ask(self, node_id: int, request: Any, version: int) -> Any:
        """A client's request, and its answer."""
        answer = self.send(node_id, request, version)
        self.until(lambda: answer.done)
        return answer.response

    def ask_as_broker(self, peer: int, node_id: int, request: Any, version: int | None = None) -> Any:
        """A request of another broker, and its answer."""
        answer = Answer(self)
        connection = Connection(next(self._connections), "BROKERS", "127.0.0.1", "kafka", self.now_ms, peer=peer)
        key = key_of(type(request))
        context = _Context(connection, key, SPOKEN[key][1] if version is None else version, answer)
        self.nodes[node_id].core.handle_peer(request, context, self.now_ms)
        self.until(lambda: answer.done)
        return answer.response

    def create(
        self,
        name: str = "t",
        partitions: int = 1,
        factor: int = 3,
        *,
        replicas: dict[int, list[int]] | None = None,
        node_id: int = 1,
        **settings: Any,
    ) -> None:
        """Create a topic, with the replicas of each partition if they are given; every broker has heard of it then."""
        assigned = [create_topics.CreatableReplicaAssignment(*one) for one in (replicas or {}).items()]
        if assigned:
            partitions = factor = -1
        configs = [
            create_topics.CreatableTopicConfig(key.replace("_", "."), str(value)) for key, value in settings.items()
        ]
        topic = create_topics.CreatableTopic(name, partitions, factor, assigned, configs)
        result = self.ask(node_id, create_topics.CreateTopicsRequest([topic]), 7).topics[0]
        assert result.error_code == 0, (result.error_code, result.error_message)
        self.until(lambda: all(name in one.core.image.topics for one in self.nodes.values()))

    def produce(
        self,
        *values: bytes,
        acks: int = -1,
        partition: int = 0,
        topic: str = "t",
        node_id: int = 0,
        timeout_ms: int = 30_000,
    ) -> Answer:
        """One batch, to the leader if no broker is named."""
        part = produces.PartitionProduceData(partition, batch(*values))
        topics = [produces.TopicProduceData(topic, partition_data=[part])]
        request = produces.ProduceRequest(None, acks, timeout_ms, topics)
        return self.send(node_id or self.leader(partition, topic), request, 9)

    def put(self, *values: bytes, **options: Any) -> Any:
        """As `produce`, and its answer."""
        answer = self.produce(*values, **options)
        self.until(lambda: answer.done)
        return self.part(answer)

    @staticmethod
    def part(answer: Answer) -> Any:
        """What a produce came to."""
        return answer.response.responses[0].partition_responses[0]

    # Looking

    def state(self, partition: int = 0, topic: str = "t", node_id: int = 1) -> Any:
        """A partition as a broker's image has it."""
        return self.nodes[node_id].core.image.partition(topic, partition)

    def leader(self, partition: int = 0, topic: str = "t") -> int:
        """As the controller has it."""
        return int(self.state(partition, topic).leader)

    def ends(self, partition: int = 0, topic: str = "t") -> dict[int, int]:
        return {one: node.log(partition, topic).log_end_offset for one, node in self.nodes.items()}

    def high_watermarks(self, partition: int = 0, topic: str = "t") -> dict[int, int]:
        return {one: node.log(partition, topic).high_watermark for one, node in self.nodes.items()}
