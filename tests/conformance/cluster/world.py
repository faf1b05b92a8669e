"""What a scenario of a cluster may use: three brokers by letters, topics placed on them, and facts in letters.

A is the broker that was the active controller when the scenarios began, whatever its number; acts stop, kill and pause
B and C. A topic is made with a string of letters for each partition: `cluster.topic("CAB")` has its leader on C.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.cluster.targets import LETTERS, NODES, ClusterTarget, rack_of
from tests.conformance.raw import Closed, Reply, fitting
from tests.conformance.scenario import Facts
from tests.conformance.world import FETCH, LIST, METADATA, World, error, fetch_body, fetched, list_body, pause

PATIENCE_SECONDS = 60.0
"""How long a condition is waited for that is sure to come."""
POLL_MS = 50


class Node(World):
    """One of the brokers; topics' names and what was sent are the cluster's."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        target = cluster.target
        super().__init__(target.name, target.port(node_id), Path("unused"), target.peer_port(node_id), target.secret)
        self._sent = cluster.sent
        self.node_id = node_id
        self.rack = rack_of(node_id)
        self.fresh = cluster.fresh  # type: ignore[method-assign]  # one count for all of them

    def listed(self, name: str, timestamp: int = -1, *, partition: int = 0, epoch: int = -1) -> str:
        """ListOffsets of one partition, the leader epoch as the caller knows it: the error, or the offset."""
        asked = [{"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}]
        answer = self.call("list_offsets", LIST, list_body(name, asked)).body.topics[0].partitions[0]
        code = error(answer.error_code)
        return code if code != "NONE" else f"offset {answer.offset}, epoch {answer.leader_epoch}"

    def epoch_end(self, name: str, epoch: int, *, current: int = -1, partition: int = 0) -> str:
        """OffsetForLeaderEpoch of one partition: the error, or `epoch e ends at n`."""
        one = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        body = {"replica_id": -1, "topics": [{"topic": name, "partitions": [one]}]}
        answer = self.call("offset_for_leader_epoch", 4, body).body.topics[0].partitions[0]
        code = error(answer.error_code)
        return code if code != "NONE" else f"epoch {answer.leader_epoch} ends at {answer.end_offset}"


class Cluster:
    """Three running brokers and the topics made on them; used by many scenarios at once."""

    def __init__(self, target: ClusterTarget) -> None:
        self.target = target
        self.lag_ms = int(target.settings["replica.lag.time.max.ms"])
        self.session_ms = int(target.settings["broker.session.timeout.ms"])
        self.sent: dict[tuple[str, int, int], bytes] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.lock = threading.Lock()
        """For what scenarios share: the partitions of groups, whose leaders they elect."""
        controller = self._controller(Node(self, NODES[0]))
        others = [node_id for node_id in NODES if node_id != controller]
        self.ids = dict(zip(LETTERS, [controller, *others], strict=True))
        self._letters = {node_id: letter for letter, node_id in self.ids.items()}
        self.nodes = {letter: Node(self, node_id) for letter, node_id in self.ids.items()}
        self.a, self.b, self.c = self.nodes.values()

    def _controller(self, node: Node) -> int:
        body = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
        found = -1

        def known() -> bool:
            nonlocal found
            answer = node.call("describe_quorum", 2, body).body
            found = int(answer.topics[0].partitions[0].leader_id) if answer.topics else -1
            return found in NODES

        self.wait(known, "a controller")
        return found

    def __getitem__(self, letter: str) -> Node:
        return self.nodes[letter]

    def fresh(self) -> str:
        """A topic name that nobody used."""
        with self._lock:
            return f"t{next(self._numbers):05}"

    def letters(self, ids: Iterable[int]) -> str:
        """Brokers in words: `CAB`; one that is none is `-`."""
        return "".join(self._letters.get(int(each), "-") for each in ids)

    def sorted(self, ids: Iterable[int]) -> str:
        """As `letters`, where the order says nothing."""
        return "".join(sorted(self.letters(ids)))

    def create(self, name: str, *replicas: str, at: str = "A", **configs: str) -> str:
        """CreateTopics with these replicas, a string for each partition; the error in words."""
        body = {"topics": [self.placed(name, *replicas, **configs)], "timeout": 30000}
        return error(self[at].call("create_topics", 7, body).body.topics[0].error_code)

    def placed(self, name: str, *replicas: str, **configs: str) -> dict[str, Any]:
        """One topic of CreateTopics, with these replicas."""
        pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        assignments = [
            {"partition_index": index, "broker_ids": [self.ids[letter] for letter in each]}
            for index, each in enumerate(replicas)
        ]
        return {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": assignments,
            "configs": pairs,
        }

    def topic(self, *replicas: str, at: str = "A", **configs: str) -> str:
        """A fresh topic with these replicas; all brokers know who leads it."""
        name = self.fresh()
        code = self.create(name, *replicas, at=at, **configs)
        assert code == "NONE", f"CreateTopics {name}: {code}"
        self.settled(name, *replicas)
        return name

    def settled(self, name: str, *replicas: str) -> None:
        """Wait until each of these partitions is led by its first replica, and every broker knows."""

        def told() -> bool:
            for letter, node in self.nodes.items():
                asked = [{"partition_index": index, "timestamp": -2} for index in range(len(replicas))]
                for answer in node.call("list_offsets", LIST, list_body(name, asked)).body.topics[0].partitions:
                    leads = replicas[answer.partition_index][0] == letter
                    if error(answer.error_code) != ("NONE" if leads else "NOT_LEADER_OR_FOLLOWER(6)"):
                        return False
            return True

        self.wait(told, f"leaders of {name}")

    def partition(self, name: str, index: int = 0, at: str = "A") -> Any:
        """A partition as Metadata tells it."""
        found = [each for each in self[at].metadata(name).partitions if each.partition_index == index]
        assert found, f"{name}-{index} is not told"
        return found[0]

    def tell(self, name: str, index: int = 0, at: str = "A", epoch: bool = True) -> str:
        """A partition in words: error, leader, leader epoch, replicas, ISR, and those that are offline."""
        one = self.partition(name, index, at)
        code = error(one.error_code)
        return (
            f"{'' if code == 'NONE' else code + ', '}leader {self.letters([one.leader_id])}"
            f"{f', epoch {one.leader_epoch}' if epoch else ''}, replicas {self.letters(one.replica_nodes)}, "
            f"ISR {self.sorted(one.isr_nodes) or 'empty'}, offline {self.sorted(one.offline_replicas) or 'none'}"
        )

    def leader(self, name: str, index: int = 0, at: str = "A") -> str:
        """The leader's letter, or `-`."""
        return self.letters([self.partition(name, index, at).leader_id])

    def isr(self, name: str, index: int = 0, at: str = "A") -> str:
        """The letters of those in sync."""
        return self.sorted(self.partition(name, index, at).isr_nodes)

    def wait_isr(self, name: str, letters: str, index: int = 0, at: str = "A") -> None:
        """Wait until these are in sync, by what `at` tells."""
        self.wait(lambda: self.isr(name, index, at) == letters, f"{letters} in sync in {name}-{index}")

    def wait_leader(self, name: str, letter: str, index: int = 0) -> None:
        """Wait until this one leads, and says so itself."""

        def leads() -> bool:
            return self.leader(name, index) == letter and not self[letter].listed(name, partition=index).endswith(")")

        self.wait(leads, f"{letter} leads {name}-{index}")

    def brokers(self, at: str = "A") -> str:
        """The brokers that Metadata tells."""
        answer = self[at].call("metadata", METADATA, {"topics": []}).body
        return self.sorted(each.node_id for each in answer.brokers)

    def wait_brokers(self, letters: str) -> None:
        """Wait until these brokers tell of one another, and of nobody else."""
        self.wait(lambda: all(self.brokers(each) == letters for each in letters), f"brokers {letters}")

    def wait_all(self, holds: Callable[[Node], bool], what: str, letters: str = LETTERS) -> None:
        """Ask each of these brokers again and again until it holds of all of them."""
        self.wait(lambda: all(holds(self[letter]) for letter in letters), what)

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """Ask again and again until it holds; a broker that cannot be asked is asked again.

        Raises:
            AssertionError: it never did.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            problem = ""
            try:
                if holds():
                    return
            except (OSError, AssertionError, IndexError) as caught:
                problem = f" ({type(caught).__name__}: {caught})"
            assert time.monotonic() < deadline, f"{self.target.name}: never came: {what}{problem}"
            pause(POLL_MS)


def call(node: Node, api: str, version: int, body: dict[str, Any]) -> Reply | str:
    """One request on a connection of its own; where no answer comes, what became of it."""
    try:
        with node.connect() as peer:
            return peer.call(api, version, body)
    except Closed:
        return "closed"


def fetch(node: Node, name: str, offset: int, version: int = FETCH, **options: Any) -> str:
    """A fetch of partition 0 by name, as this version asks it: what came, in words."""
    body = fitting("fetch", version, fetch_body([(name, 0, offset)], **options))
    with node.connect() as peer:
        reply = peer.call("fetch", version, body)
    return node.tell(name, next(iter(fetched(reply).values())))


def elect(node: Node, kind: int, name: str, partitions: Iterable[int] = (0,)) -> str:
    """ElectLeaders of a topic's partitions, 0 the preferred ones and 1 unclean: their errors."""
    topics = [{"topic": name, "partitions": list(partitions)}]
    body = {"election_type": kind, "topic_partitions": topics, "timeout": 30000}
    rows = node.call("elect_leaders", 2, body).body.replica_election_results[0].partition_result
    return ", ".join(error(row.error_code) for row in rows)


def reassign(node: Node, name: str, index: int, replicas: list[int] | None, *, changes: bool = True) -> str:
    """AlterPartitionReassignments of one partition (None: end what is going on); the error.

    `changes`: whether the number of replicas may be another one.
    """
    partition = {"partition_index": index, "replicas": replicas}
    topics = [{"name": name, "partitions": [partition]}]
    body = {"timeout": 30000, "allow_replication_factor_change": changes, "topics": topics}
    answer = node.call("alter_partition_reassignments", 1, body).body
    code = error(answer.error_code)
    return code if code != "NONE" else error(answer.responses[0].partitions[0].error_code)


@contextmanager
def meanwhile(ask: Callable[[], str], facts: Facts, name: str) -> Iterator[None]:
    """Ask on another thread; at the end of the block the answer is awaited, and becomes a fact."""

    def run() -> None:
        try:
            facts[name] = ask()
        except (Closed, ConnectionError):
            facts[name] = "closed"
        except TimeoutError:
            facts[name] = "no answer"

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
