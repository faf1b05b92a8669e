"""R50 to R53, R59: consumers of a rack (KIP-392), replica ids that clients give, brokers that are to be forgotten."""

from tests.conformance.cluster.acts import PAUSED, Steps, of_cluster
from tests.conformance.cluster.world import Cluster, Node, call, fetch
from tests.conformance.raw import fitting
from tests.conformance.scenario import Facts
from tests.conformance.world import error, fetch_body, fetched, list_body


def nearest(cluster: Cluster, node: Node, name: str, rack: str, offset: int = 0, version: int = 12) -> str:
    """A fetch of a consumer of a rack: where it is sent, and what came."""
    body = fitting("fetch", version, fetch_body([(name, 0, offset)]) | {"rack_id": rack})
    reply = node.call("fetch", version, body)
    part = reply.body.responses[0].partitions[0]
    sent = cluster.letters([part.preferred_read_replica]) if version >= 11 else "never"
    return f"sent to {sent}: {node.tell(name, next(iter(fetched(reply).values())))}"


@of_cluster("R50", "consumers of racks fetch from the leader, from followers, at and beyond the end; v10 to v12")
def r50(cluster: Cluster) -> Facts:
    name = cluster.topic("CA")
    cluster.c.produce(name, 2, acks=-1)
    a, b, c = (cluster[letter].rack for letter in "ABC")
    cluster.wait(lambda: fetch(cluster.a, name, 0).endswith("HW 2"), "the follower's high watermark")
    racks = {"the follower's": a, "the leader's": c, "another's": b, "unknown": "nowhere", "none": ""}
    facts = {f"leader, {told} rack": nearest(cluster, cluster.c, name, rack) for told, rack in racks.items()}
    facts |= {f"follower, {told} rack": nearest(cluster, cluster.a, name, rack) for told, rack in racks.items()}
    for version in (10, 11):
        facts[f"leader, v{version}"] = nearest(cluster, cluster.c, name, a, version=version)
    for told, offset in (("at the end", 2), ("beyond", 3), ("below 0", -1)):
        facts[f"leader, {told}"] = nearest(cluster, cluster.c, name, a, offset)
        facts[f"follower, {told}"] = nearest(cluster, cluster.a, name, a, offset)
    return facts


@of_cluster(
    "R51",
    "a consumer of the rack of a follower that stands still: at what it has, beyond, and when it has left",
    act=PAUSED,
)
def r51(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")
    cluster.a.produce(name, 1, acks=-1)
    cluster.wait(lambda: fetch(cluster.c, name, 0).endswith("HW 1"), "the follower's high watermark")
    yield
    cluster.a.produce(name, 1)
    facts = {f"at {offset}": nearest(cluster, cluster.a, name, cluster.c.rack, offset) for offset in (0, 1)}
    cluster.wait_isr(name, "A")
    cluster.wait(lambda: fetch(cluster.a, name, 0).endswith("HW 2"), "the high watermark")
    facts |= {
        f"it has left, at {offset}": nearest(cluster, cluster.a, name, cluster.c.rack, offset) for offset in (0, 2)
    }
    yield
    cluster.wait_isr(name, "AC")
    cluster.wait(lambda: fetch(cluster.c, name, 0).endswith("HW 2"), "the follower's high watermark")
    return facts | {"back": nearest(cluster, cluster.a, name, cluster.c.rack)}


@of_cluster(
    "R52",
    "a client says that it is a replica: Fetch and OffsetForLeaderEpoch with the follower's id, and with nobody's",
    differs={
        f"{api}, {whose}": "CLUSTER_AUTHORIZATION_FAILED(31)"
        for api in ("Fetch", "OffsetForLeaderEpoch")
        for whose in ("the follower's", "nobody's")
    },
    note="replicas are known by their introduction, at the brokers' own listener; Apache Kafka believes who says so",
)
def r52(cluster: Cluster) -> Facts:
    name = cluster.topic("CA")
    cluster.c.produce(name, 1, acks=-1)
    facts: Facts = {}
    for told, replica in (("the follower's", cluster.ids["A"]), ("nobody's", 99)):
        body = fitting("fetch", 12, fetch_body([(name, 0, 0)]) | {"replica_id": replica})
        reply = call(cluster.c, "fetch", 12, body)
        facts[f"Fetch, {told}"] = reply if isinstance(reply, str) else next(iter(fetched(reply).values())).code
        one = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        asked = {"replica_id": replica, "topics": [{"topic": name, "partitions": [one]}]}
        reply = call(cluster.c, "offset_for_leader_epoch", 4, asked)
        facts[f"OffsetForLeaderEpoch, {told}"] = (
            reply if isinstance(reply, str) else error(reply.body.topics[0].partitions[0].error_code)
        )
    return facts


@of_cluster(
    "R59", "replica ids -1 to -3 at leader, follower and no replica: Fetch v10 and v12, ListOffsets, ends of epochs"
)
def r59(cluster: Cluster) -> Facts:
    name = cluster.topic("CA")
    cluster.c.produce(name, 2, acks=-1)
    cluster.wait(lambda: fetch(cluster.a, name, 0).endswith("HW 2"), "the follower's high watermark")
    facts: Facts = {}
    for told, node in (("leader", cluster.c), ("follower", cluster.a), ("no replica", cluster.b)):
        for replica in (-1, -2, -3):
            for version in (10, 12):
                body = fitting("fetch", version, fetch_body([(name, 0, 0)]) | {"replica_id": replica})
                part = next(iter(fetched(node.call("fetch", version, body)).values()))
                facts[f"{told}, {replica}, Fetch v{version}"] = node.tell(name, part)
            for stamp in (-1, -2, 0):
                body = list_body(name, [{"partition_index": 0, "timestamp": stamp}]) | {"replica_id": replica}
                one = node.call("list_offsets", 9, body).body.topics[0].partitions[0]
                facts[f"{told}, {replica}, ListOffsets {stamp}"] = f"{error(one.error_code)}, {one.offset}"
            epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
            asked = {"replica_id": replica, "topics": [{"topic": name, "partitions": [epoch]}]}
            end = node.call("offset_for_leader_epoch", 4, asked).body.topics[0].partitions[0]
            facts[f"{told}, {replica}, end of epoch 0"] = f"{error(end.error_code)}, {end.end_offset}"
    return facts


@of_cluster("R53", "UnregisterBroker of a broker that is not there, at each; DescribeCluster then")
def r53(cluster: Cluster) -> Facts:
    facts: Facts = {}
    for letter, node in cluster.nodes.items():
        answers = [node.call("unregister_broker", 0, {"broker_id": broker_id}).body for broker_id in (99, -1)]
        facts[f"at {letter}"] = ", ".join(error(one.error_code) for one in answers)
        body = node.call("describe_cluster", 2, {"endpoint_type": 1, "include_fenced_brokers": True}).body
        facts[f"then, told by {letter}"] = cluster.sorted(one.broker_id for one in body.brokers)
    return facts
