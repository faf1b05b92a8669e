"""R07, R70 to R74: C is stopped, and B, the last in sync, is killed; C is back first, then B. R08: all are stopped."""

from tests.conformance.batches import batch
from tests.conformance.cluster.acts import BOTH, RESTARTED, Steps, of_cluster
from tests.conformance.cluster.world import Cluster, elect, fetch
from tests.conformance.scenario import Facts
from tests.conformance.world import now_ms, records


def _described(cluster: Cluster, name: str) -> str:
    one = cluster.a.call("describe_topic_partitions", 0, {"topics": [{"name": name}]}).body.topics[0].partitions[0]
    return (
        f"leader {cluster.letters([one.leader_id])} ISR {cluster.sorted(one.isr_nodes) or 'empty'} eligible "
        f"{cluster.sorted(one.eligible_leader_replicas or ()) or 'none'} last known "
        f"{cluster.sorted(one.last_known_elr or ()) or 'none'}"
    )


@of_cluster(
    "R07",
    "all in sync are away, one that is not is there: Metadata, Produce, elections; then the last in sync is back",
    act=BOTH,
)
def r07(cluster: Cluster) -> Steps:
    name = cluster.topic("BC")
    cluster.b.produce(name, 1, acks=-1)
    cluster.wait(lambda: fetch(cluster.c, name, 0).endswith("HW 1"), "the follower's high watermark")
    yield
    cluster.wait_isr(name, "B")
    cluster.b.produce(name, 2, acks=-1)
    facts = {"one left": cluster.tell(name), "one left, described": _described(cluster, name)}
    yield
    yield
    cluster.wait(lambda: cluster.leader(name) == "-", "no leader")
    facts |= {"nobody": cluster.tell(name), "nobody, described": _described(cluster, name)}
    facts["Produce at C"] = cluster.c.produce(name, 1).code
    facts["Fetch at C"] = fetch(cluster.c, name, 0)
    facts["ListOffsets at C"] = cluster.c.listed(name)
    facts["preferred"] = elect(cluster.a, 0, name)
    yield
    cluster.wait_leader(name, "B")
    cluster.wait_isr(name, "BC")
    facts["back"] = cluster.tell(name)
    return facts | {"kept": cluster.b.listed(name), "read": fetch(cluster.b, name, 0)}


@of_cluster(
    "R70",
    "the same, and an unclean election is asked for: leader, ISR, epoch, what is lost; the last in sync is back",
    act=BOTH,
)
def r70(cluster: Cluster) -> Steps:
    name = cluster.topic("BC")
    cluster.b.produce(name, 1, acks=-1)
    cluster.wait(lambda: fetch(cluster.c, name, 0).endswith("HW 1"), "the follower's high watermark")
    yield
    cluster.wait_isr(name, "B")
    cluster.b.produce(name, 2, acks=-1)
    yield
    yield
    cluster.wait(lambda: cluster.leader(name) == "-", "no leader")
    facts = {"unclean": elect(cluster.a, 1, name)}
    cluster.wait_leader(name, "C")
    facts |= {"then": cluster.tell(name), "described": _described(cluster, name), "again": elect(cluster.a, 1, name)}
    got = cluster.c.produce(name, 1, acks=-1)
    facts |= {"written": f"{got.code}, base {got.base_offset}", "read": fetch(cluster.c, name, 0)}
    facts |= {f"end of epoch {epoch}": cluster.c.epoch_end(name, epoch) for epoch in (0, 1, 2)}
    yield
    cluster.wait_isr(name, "BC")
    facts["back"] = cluster.tell(name)
    cluster.wait(lambda: fetch(cluster.b, name, 0).endswith("HW 2"), "the follower's high watermark")
    return facts | {"read from B": fetch(cluster.b, name, 0)}


@of_cluster("R71", "the same with unclean.leader.election.enable: who leads by itself, and what is kept", act=BOTH)
def r71(cluster: Cluster) -> Steps:
    name = cluster.topic("BC", unclean_leader_election_enable="true")
    cluster.b.produce(name, 1, acks=-1)
    cluster.wait(lambda: fetch(cluster.c, name, 0).endswith("HW 1"), "the follower's high watermark")
    yield
    cluster.wait_isr(name, "B")
    cluster.b.produce(name, 2, acks=-1)
    yield
    yield
    cluster.wait_leader(name, "C")
    # The epoch is another one where B was missed before C was back.
    facts = {"then": cluster.tell(name, epoch=False), "described": _described(cluster, name)}
    facts["read"] = fetch(cluster.c, name, 0)
    yield
    cluster.wait_isr(name, "BC")
    return facts | {"back": cluster.tell(name, epoch=False)}


@of_cluster(
    "R72",
    "min.insync.replicas 2 of two, both away one after the other: who may lead (KIP-966), and what is kept",
    act=BOTH,
)
def r72(cluster: Cluster) -> Steps:
    name = cluster.topic("BC", min_insync_replicas="2")
    cluster.b.produce(name, 1, acks=-1)
    yield
    cluster.wait_isr(name, "B")
    facts = {"one left": _described(cluster, name), "acks -1": cluster.b.produce(name, 1, acks=-1).code}
    yield
    yield
    cluster.wait(lambda: "B" not in cluster.leader(name), "B leads no more")
    facts |= {"both were away": _described(cluster, name), "told": cluster.tell(name, epoch=False)}
    yield
    cluster.wait_isr(name, "BC")
    return facts | {"back": _described(cluster, name), "then": cluster.tell(name, epoch=False)}


@of_cluster(
    "R73",
    "the only replica is killed: ElectLeaders, CreatePartitions and DeleteTopics without it; then it is back",
    act=BOTH,
)
def r73(cluster: Cluster) -> Steps:
    kept, gone = cluster.topic("B"), cluster.topic("B")
    yield
    yield
    yield
    cluster.wait(lambda: cluster.leader(kept) == "-", "no leader")
    facts = {"preferred": elect(cluster.a, 0, kept), "unclean": elect(cluster.a, 1, kept), "told": cluster.tell(kept)}
    facts["deleted"] = cluster.a.delete(gone)
    yield
    cluster.wait_leader(kept, "B")
    return facts | {"back": cluster.tell(kept)}


@of_cluster(
    "R74", "three replicas, of which two go one after the other: leaders, ISRs, acks -1 with least 1 and 2", act=BOTH
)
def r74(cluster: Cluster) -> Steps:
    one, two = cluster.topic("CBA"), cluster.topic("BCA", min_insync_replicas="2")
    for name, node in ((one, cluster.c), (two, cluster.b)):
        node.produce(name, 1, acks=-1)
    yield
    for name in (one, two):
        cluster.wait_isr(name, "AB")
    facts = {"C away, 1": cluster.tell(one), "C away, 2": cluster.tell(two)}
    yield
    yield
    for name in (one, two):
        cluster.wait_isr(name, "AC")
    facts |= {"B away, 1": cluster.tell(one), "B away, 2": cluster.tell(two)}
    facts["acks -1"] = f"{cluster.a.produce(one, 1, acks=-1).code}, {cluster.a.produce(two, 1, acks=-1).code}"
    yield
    for name in (one, two):
        cluster.wait_isr(name, "ABC")
    facts["back"] = f"{cluster.tell(one, epoch=False)}; {cluster.tell(two, epoch=False)}"
    return facts


@of_cluster(
    "R08",
    "all brokers are started again: high watermarks, ends, records, leaders, producers, then the next record",
    act=RESTARTED,
)
def r08(cluster: Cluster) -> Steps:
    name = cluster.topic("CAB", "ABC", "BCA")
    producer = cluster.a.producer_id()
    for index, letter in enumerate("CAB"):
        for sequence in range(2):
            payload = batch(records(1), timestamp=now_ms(), producer_id=producer, producer_epoch=0, sequence=sequence)
            cluster[letter].produce(name, payload, acks=-1, partition=index)
    yield
    facts: Facts = {}
    for index in range(3):
        cluster.wait_isr(name, "ABC", index)
        cluster.wait(lambda index=index: cluster.leader(name, index) != "-", "a leader")  # type: ignore[misc]
        leader = cluster[cluster.leader(name, index)]
        got, _ = leader.fetch(name, 0, partition=index)
        facts[f"p{index}"] = leader.tell(name, got, index)
        payload = batch(records(1), timestamp=now_ms(), producer_id=producer, producer_epoch=0, sequence=2)
        sent = leader.produce(name, payload, acks=-1, partition=index)
        facts[f"p{index}, next"] = f"{sent.code}, base {sent.base_offset}"
        facts[f"p{index}, replicas"] = cluster.tell(name, index, epoch=False).partition("replicas")[2]
    return facts
