"""F14, F23, P18, R90 to R93: replicas are moved, and a leader that gives way while clients wait."""

import threading

from tests.conformance.batches import batch
from tests.conformance.cluster.acts import PAUSED, STOPPED, Steps, of_cluster
from tests.conformance.cluster.scenarios.stalled import waited
from tests.conformance.cluster.world import Cluster, Node, elect, fetch, meanwhile, reassign
from tests.conformance.raw import fitting
from tests.conformance.scenario import Facts
from tests.conformance.world import error, fetch_body, fetched, now_ms, pause, records


def listed(cluster: Cluster, node: Node, name: str, index: int = 0) -> str:
    """ListPartitionReassignments of one partition: replicas, those that come and those that go."""
    body = {"topics": [{"name": name, "partition_indexes": [index]}], "timeout": 30000}
    answer = node.call("list_partition_reassignments", 0, body).body
    rows = [
        f"replicas {cluster.letters(one.replicas)}, adding {cluster.letters(one.adding_replicas) or 'none'}, "
        f"removing {cluster.letters(one.removing_replicas) or 'none'}"
        for topic in answer.topics
        for one in topic.partitions
    ]
    return f"{error(answer.error_code)}: {'; '.join(rows) or 'nothing'}"


def asked(cluster: Cluster, node: Node, name: str, replicas: str | None, index: int = 0) -> str:
    """AlterPartitionReassignments of one partition; None ends one that is going on."""
    return reassign(node, name, index, None if replicas is None else [cluster.ids[each] for each in replicas])


def done(cluster: Cluster, name: str, replicas: str, index: int = 0) -> str:
    """The partition once these are its replicas, all in sync."""

    def there() -> bool:
        one = cluster.partition(name, index)
        return cluster.letters(one.replica_nodes) == replicas and len(one.isr_nodes) == len(replicas)

    cluster.wait(there, f"{name} on {replicas}")
    return cluster.tell(name, index, epoch=False)


@of_cluster(
    "R90",
    "AlterPartitionReassignments: a replica more, another order, all moved, one less; the records; at each broker",
)
def r90(cluster: Cluster) -> Facts:
    name = cluster.topic("CA")
    cluster.c.produce(name, 3, acks=-1)
    facts: Facts = {}
    for told, letter, replicas in (
        ("one more", "A", "CAB"),
        ("in another order", "B", "BAC"),
        ("one less", "C", "AC"),
        ("moved", "A", "B"),
    ):
        facts[told] = asked(cluster, cluster[letter], name, replicas)
        facts[f"{told}, then"] = done(cluster, name, replicas)
    cluster.wait_leader(name, "B")
    facts["read"] = fetch(cluster.b, name, 0)
    facts["going on"] = listed(cluster, cluster.a, name)

    def kept(letter: str) -> int:
        body = {"topics": [{"topic": name, "partitions": [0]}]}
        results = cluster[letter].call("describe_log_dirs", 4, body).body.results
        return sum(len(topic.partitions) for one in results for topic in one.topics)

    cluster.wait(lambda: kept("A") + kept("C") == 0, "the end of the logs elsewhere")
    return facts | {"logs": str([kept(letter) for letter in "ABC"])}


@of_cluster(
    "R91",
    "AlterPartitionReassignments that cannot be: unknown brokers and topics, doubles, nobody; ended, none was",
)
def r91(cluster: Cluster) -> Facts:
    name, other = cluster.topic("CA"), cluster.topic("CAB")
    a, c = cluster.ids["A"], cluster.ids["C"]
    facts = {
        "an unknown broker": reassign(cluster.b, name, 0, [a, 99]),
        "a broker below 0": reassign(cluster.b, name, 0, [a, -1]),
        "twice the same": reassign(cluster.b, name, 0, [a, a]),
        "nobody": reassign(cluster.b, name, 0, []),
        "an unknown topic": reassign(cluster.b, "nobody", 0, [a]),
        "an unknown partition": reassign(cluster.b, name, 7, [a]),
        "ended, none was": reassign(cluster.b, name, 0, None),
        "as it is": reassign(cluster.b, name, 0, [c, a]),
        "another number, not allowed": reassign(cluster.b, other, 0, [c, a], changes=False),
        "the same number": reassign(cluster.b, name, 0, [a, c], changes=False),
    }
    return facts | {"then": done(cluster, name, "AC"), "the other": cluster.tell(other)}


@of_cluster(
    "R92",
    "a reassignment to a broker that stands still: what is told meanwhile; one is ended, the other is done later",
    act=PAUSED,
)
def r92(cluster: Cluster) -> Steps:
    kept, ended = cluster.topic("AB"), cluster.topic("AB")
    for name in (kept, ended):
        cluster.a.produce(name, 2, acks=-1)
    yield
    facts = {"begun": f"{asked(cluster, cluster.b, kept, 'AC')}, {asked(cluster, cluster.b, ended, 'CB')}"}
    cluster.wait(
        lambda: all(len(cluster.partition(name).replica_nodes) == 3 for name in (kept, ended)), "three replicas"
    )
    facts["told"] = cluster.tell(kept)
    facts["listed"] = listed(cluster, cluster.b, kept)
    facts["acks -1 meanwhile"] = cluster.a.produce(kept, 1, acks=-1).code
    facts["ended"] = asked(cluster, cluster.b, ended, None)
    cluster.wait(lambda: len(cluster.partition(ended).replica_nodes) == 2, "two replicas")
    facts["ended, then"] = cluster.tell(ended)
    facts["ended, listed"] = listed(cluster, cluster.a, ended)
    facts["ended, again"] = asked(cluster, cluster.b, ended, None)
    yield
    facts["at last"] = done(cluster, kept, "AC")
    cluster.wait(lambda: fetch(cluster.c, kept, 0).endswith("HW 3"), "the follower's high watermark")
    return facts | {"read from C": fetch(cluster.c, kept, 0), "listed, at last": listed(cluster, cluster.a, kept)}


@of_cluster("R93", "a reassignment from a broker that is stopped, and one to it; it is back", act=STOPPED)
def r93(cluster: Cluster) -> Steps:
    from_it, to_it = cluster.topic("CA"), cluster.topic("AB")
    cluster.a.produce(to_it, 1, acks=-1)
    yield
    cluster.wait_isr(from_it, "A")
    facts = {"from it": asked(cluster, cluster.b, from_it, "AB"), "to it": asked(cluster, cluster.b, to_it, "AC")}
    facts["from it, then"] = done(cluster, from_it, "AB")
    cluster.wait(lambda: len(cluster.partition(to_it).replica_nodes) == 3, "three replicas")
    facts["to it, then"] = cluster.tell(to_it)
    yield
    return facts | {"to it, at last": done(cluster, to_it, "AC")}


def _gives_way(cluster: Cluster) -> str:
    """A topic that A leads, and B as soon as the preferred ones are elected."""
    name = cluster.topic("ABC")
    cluster.a.produce(name, 1, acks=-1)
    assert asked(cluster, cluster.a, name, "BAC") == "NONE"
    done(cluster, name, "BAC")
    return name


@of_cluster(
    "F14", "fetches wait at the leader's end, v10, v12, v12 with the epoch, and another is elected; then a record comes"
)
def f14(cluster: Cluster) -> Facts:
    name = _gives_way(cluster)
    facts: Facts = {}

    def waits(version: int, epoch: int) -> str:
        body = fitting("fetch", version, fetch_body([(name, 0, 1)], wait=20000, epoch=epoch))
        with cluster.a.connect() as peer:
            reply = peer.call("fetch", version, body)
        one = next(iter(fetched(reply).values()))
        return f"{one.code}, {len(one.batches)} batches"

    with (
        meanwhile(lambda: waits(10, -1), facts, "v10"),
        meanwhile(lambda: waits(12, 0), facts, "v12, epoch 0"),
        meanwhile(lambda: waits(12, -1), facts, "v12"),
    ):
        pause(500)  # all three are parked
        assert elect(cluster.a, 0, name) == "NONE"
        cluster.wait_leader(name, "B")
        cluster.wait(lambda: {"v10", "v12, epoch 0"} <= set(facts), "the answers of those that do not wait on")
        waited_on = "v12" not in facts
        cluster.b.produce(name, 1, acks=-1)
    return facts | {"v12 waited on": str(waited_on)}


@of_cluster(
    "P18",
    "acks -1 waits for a follower that stands still, and another leader is elected: the answer; the record, later",
    act=PAUSED,
)
def p18(cluster: Cluster) -> Steps:
    name = _gives_way(cluster)
    yield
    facts: Facts = {}
    with meanwhile(lambda: cluster.a.produce(name, 1, acks=-1, timeout=25000).code, facts, "acks -1"):
        cluster.wait(lambda: fetch(cluster.a, name, 2).startswith("NONE"), "it is appended")
        cluster.wait(lambda: fetch(cluster.b, name, 2).startswith("NONE"), "the other follower has it")
        assert elect(cluster.a, 0, name) == "NONE"
    facts["then"] = cluster.tell(name)
    yield
    cluster.wait_isr(name, "ABC")
    cluster.wait(lambda: fetch(cluster.b, name, 0).endswith("HW 2"), "the high watermark")
    return facts | {"later": fetch(cluster.b, name, 0)}


@of_cluster(
    "F23",
    "a leader gives way with a record that the third, which stands still, lacks: fetches at the next above its HW",
    act=PAUSED,
)
def f23(cluster: Cluster) -> Steps:
    name = _gives_way(cluster)
    yield
    cluster.a.produce(name, 1)
    cluster.wait(lambda: fetch(cluster.b, name, 2).startswith("NONE"), "the other follower has it")
    assert elect(cluster.a, 0, name) == "NONE"
    cluster.wait(lambda: fetch(cluster.b, name, 0, 10).startswith("NONE"), "B leads")

    def at_end(version: int, epoch: int) -> str:
        return waited(lambda: fetch(cluster.b, name, 2, version, wait=10000, epoch=epoch), 0, 0)

    versions = ((10, -1), (12, -1), (12, 1))
    facts = {f"at the end, v{version}, epoch {epoch}": at_end(version, epoch) for version, epoch in versions}
    facts |= {"beyond": fetch(cluster.b, name, 3), "latest": cluster.b.listed(name), "told": cluster.tell(name)}
    yield
    cluster.wait(lambda: fetch(cluster.b, name, 2).endswith("HW 2"), "the high watermark")
    return facts


@of_cluster("R94", "a leader gives way while an idempotent producer writes: each batch again at the next leader")
def r94(cluster: Cluster) -> Facts:
    name = _gives_way(cluster)
    producer = cluster.a.producer_id()
    letters = ["A"]
    stop = threading.Event()
    acknowledged: list[int] = []

    def write() -> None:
        sequence = 0
        while not stop.is_set() or len(letters) < 2:
            payload = batch(records(1), timestamp=now_ms(), producer_id=producer, producer_epoch=0, sequence=sequence)
            code = cluster[letters[-1]].produce(name, payload, acks=-1).code
            if code == "NONE":
                acknowledged.append(sequence)
                sequence += 1
            elif code == "NOT_LEADER_OR_FOLLOWER(6)":
                letters.append(cluster.leader(name))
            else:
                raise AssertionError(code)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        cluster.wait(lambda: len(acknowledged) >= 5, "five batches")
        facts = {"elected": elect(cluster.a, 0, name)}
        count = len(acknowledged)
        cluster.wait(lambda: len(acknowledged) >= count + 5 and letters[-1] == "B", "five more at the next leader")
    finally:
        stop.set()
        writer.join()
    whole = cluster.b.listed(name) == f"offset {1 + len(acknowledged)}, epoch 1"
    return facts | {"in a row": str(acknowledged == list(range(len(acknowledged)))), "each once": str(whole)}
