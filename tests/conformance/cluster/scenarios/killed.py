"""F22, R03, R05, R60 to R63: C is killed, with records that nobody else has; B, which stood still, leads."""

from tests.conformance.batches import batch
from tests.conformance.cluster.acts import KILLED, Steps, of_cluster
from tests.conformance.cluster.world import Cluster, Node, elect, fetch
from tests.conformance.raw import fitting
from tests.conformance.scenario import Facts
from tests.conformance.world import error, fetch_body, now_ms, pause, records

FETCH_WAIT_MS = 700
"""Longer than a follower's fetch waits (`replica.fetch.wait.max.ms`): none is left of one that stands still."""


@of_cluster(
    "R03",
    "the leader is killed: the next one in the order of the assignment, epochs, ISRs; then it is back",
    act=KILLED,
)
def r03(cluster: Cluster) -> Steps:
    shapes = ("CAB", "CBA", "ACB")
    name = cluster.topic(*shapes)
    for index, replicas in enumerate(shapes):
        cluster[replicas[0]].produce(name, 2, partition=index, acks=-1)
    yield
    yield
    yield
    facts: Facts = {}
    for index in range(3):
        cluster.wait_isr(name, "AB", index)
        cluster.wait_leader(name, cluster.leader(name, index), index)
        facts[f"p{index}"] = cluster.tell(name, index)
        facts[f"p{index}, end"] = cluster[cluster.leader(name, index)].listed(name, partition=index)
    yield
    for index in range(3):
        cluster.wait_isr(name, "ABC", index)
        facts[f"back, p{index}"] = cluster.tell(name, index)
    return facts


def _tail(cluster: Cluster, name: str) -> None:
    """Records on C that B, which stands still, has not."""
    pause(FETCH_WAIT_MS)
    cluster.c.produce(name, 1)
    cluster.c.produce(name, 2)


@of_cluster(
    "R05",
    "the killed leader had records that nobody else has; another leads and writes; it is back: both logs, epochs",
    act=KILLED,
)
def r05(cluster: Cluster) -> Steps:
    name = cluster.topic("CB")
    cluster.c.produce(name, 2, acks=-1)
    cluster.wait(lambda: fetch(cluster.b, name, 0).endswith("HW 2"), "the follower's high watermark")
    yield
    _tail(cluster, name)
    facts = {"before": f"{fetch(cluster.c, name, 0)}, {cluster.c.listed(name)}"}
    yield
    yield
    cluster.wait_leader(name, "B")
    facts["then"] = cluster.tell(name)
    facts["of B"] = fetch(cluster.b, name, 0)
    got = cluster.b.produce(name, 1, acks=-1)
    facts["written"] = f"{got.code}, base {got.base_offset}"
    yield
    cluster.wait_isr(name, "BC")
    cluster.b.produce(name, 1, acks=-1)
    cluster.wait(lambda: fetch(cluster.c, name, 0).endswith("HW 4"), "the follower's high watermark")
    facts |= {f"back, of {letter}": fetch(cluster[letter], name, 0) for letter in "BC"}
    facts |= {f"end of epoch {epoch}": cluster.b.epoch_end(name, epoch) for epoch in (0, 1, 2)}
    facts["preferred"] = elect(cluster.a, 0, name)
    cluster.wait_leader(name, "C")
    facts |= {f"of C, end of epoch {epoch}": cluster.c.epoch_end(name, epoch) for epoch in (0, 1, 2, 3)}
    return facts | {"at last": cluster.tell(name)}


@of_cluster(
    "F22",
    "fetches at the next leader with a last fetched epoch: where it ended, beyond it, of the next, of one to come",
    act=KILLED,
)
def f22(cluster: Cluster) -> Steps:
    name = cluster.topic("CB")
    cluster.c.produce(name, 3, acks=-1)
    cluster.wait(lambda: fetch(cluster.b, name, 0).endswith("HW 3"), "the follower's high watermark")
    yield
    _tail(cluster, name)
    yield
    yield
    cluster.wait_leader(name, "B")
    for _ in range(5):
        cluster.b.produce(name, 1, acks=-1)

    def fetched(offset: int, last_epoch: int, epoch: int = -1) -> str:
        body = fitting("fetch", 12, fetch_body([(name, 0, offset)], last_epoch=last_epoch, epoch=epoch))
        one = cluster.b.call("fetch", 12, body).body.responses[0].partitions[0]
        diverging = one.diverging_epoch
        told = "none" if diverging is None or diverging.epoch < 0 else f"{diverging.epoch} at {diverging.end_offset}"
        leader = one.current_leader
        led = (
            "none"
            if leader is None or leader.leader_id < 0
            else f"{cluster.letters([leader.leader_id])}, {leader.leader_epoch}"
        )
        read = len(one.records or b"") > 0
        return f"{error(one.error_code)}, {read}, HW {one.high_watermark}, diverging {told}, leader {led}"

    facts = {
        f"at {offset}, last epoch {last}": fetched(offset, last)
        for offset, last in ((3, 0), (5, 0), (5, 1), (8, 1), (5, 2), (2, 0))
    }
    facts["at 5, last epoch 0, current 0"] = fetched(5, 0, 0)
    facts["at 5, last epoch 0, current 1"] = fetched(5, 0, 1)
    yield
    return facts


@of_cluster(
    "R60",
    "the only replica is killed: Metadata, Produce and Fetch at others; it is back: epoch, records, the next offset",
    act=KILLED,
)
def r60(cluster: Cluster) -> Steps:
    name = cluster.topic("C")
    cluster.c.produce(name, 2)
    yield
    yield
    yield
    cluster.wait(lambda: cluster.leader(name) == "-", "no leader")
    facts = {
        "told": cluster.tell(name),
        "Produce at A": cluster.a.produce(name, 1).code,
        "Fetch at A": fetch(cluster.a, name, 0),
    }
    facts["ElectLeaders"] = f"{elect(cluster.a, 0, name)}; {elect(cluster.a, 1, name)}"
    yield
    cluster.wait_leader(name, "C")
    facts["back"] = cluster.tell(name)
    got = cluster.c.produce(name, 1)
    return facts | {"written": f"{got.code}, base {got.base_offset}", "read": fetch(cluster.c, name, 0)}


@of_cluster(
    "R61",
    "an idempotent producer whose leader is killed: acknowledged batches again at the next, the next one, a gap",
    act=KILLED,
)
def r61(cluster: Cluster) -> Steps:
    name = cluster.topic("CAB")
    producer = cluster.c.producer_id()

    def sent(node: Node, sequence: int) -> str:
        payload = batch(records(1), timestamp=now_ms(), producer_id=producer, producer_epoch=0, sequence=sequence)
        got = node.produce(name, payload, acks=-1)
        return f"{got.code}, base {got.base_offset}"

    for sequence in range(3):
        sent(cluster.c, sequence)
    yield
    yield
    yield
    cluster.wait_leader(name, "A")
    facts = {f"sequence {sequence}": sent(cluster.a, sequence) for sequence in (2, 0, 3, 5)}
    fresh = cluster.b.producer_id()
    facts["another id"] = str(fresh != producer)
    yield
    cluster.wait_isr(name, "ABC")
    elect(cluster.a, 0, name)
    cluster.wait_leader(name, "C")
    return facts | {"back, again": sent(cluster.c, 3), "back, next": sent(cluster.c, 4), "end": cluster.c.listed(name)}


@of_cluster(
    "R62",
    "DescribeTopicPartitions and Metadata of a broker's partitions, killed, by each of the others; DescribeCluster",
    act=KILLED,
)
def r62(cluster: Cluster) -> Steps:
    name = cluster.topic("CA", "AC")
    yield
    yield
    yield
    facts: Facts = {}
    for letter in "AB":
        for index in range(2):
            cluster.wait_isr(name, "A", index, at=letter)
        topic = cluster[letter].call("describe_topic_partitions", 0, {"topics": [{"name": name}]}).body.topics[0]
        facts[f"of {letter}"] = "; ".join(
            f"{error(p.error_code)} leader {cluster.letters([p.leader_id])} epoch {p.leader_epoch} ISR "
            f"{cluster.sorted(p.isr_nodes)} eligible {cluster.sorted(p.eligible_leader_replicas or ()) or 'none'} "
            f"offline {cluster.sorted(p.offline_replicas)}"
            for p in topic.partitions
        )
        body = cluster[letter].call("describe_cluster", 2, {"endpoint_type": 1, "include_fenced_brokers": True}).body
        facts[f"fenced, of {letter}"] = cluster.sorted(one.broker_id for one in body.brokers if one.is_fenced)
    yield
    return facts


@of_cluster(
    "R63",
    "acks -1 and min.insync.replicas 2 of two, one killed: acks -1, acks 1, what is visible; then it is back",
    act=KILLED,
)
def r63(cluster: Cluster) -> Steps:
    name = cluster.topic("AC", min_insync_replicas="2")
    cluster.a.produce(name, 1, acks=-1)
    yield
    yield
    yield
    cluster.wait_isr(name, "A")
    cluster.wait_leader(name, "A")
    facts = {"acks -1": cluster.a.produce(name, 1, acks=-1).code, "acks 1": cluster.a.produce(name, 1).code}
    facts["latest"] = cluster.a.listed(name)
    yield
    cluster.wait_isr(name, "AC")
    return facts | {"back": cluster.tell(name), "back, acks -1": cluster.a.produce(name, 1, acks=-1).code}
