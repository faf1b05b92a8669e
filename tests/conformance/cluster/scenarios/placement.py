"""R10 to R15: where topics are placed, who may be asked for it, and what all brokers tell of it."""

from typing import Any

from tests.conformance.cluster.acts import of_cluster
from tests.conformance.cluster.world import Cluster, Node
from tests.conformance.scenario import Facts
from tests.conformance.world import error, topic_body


def _made(cluster: Cluster, partitions: int, replicas: int, at: str = "A") -> str:
    """A topic that the brokers place: the error, or how its replicas lie."""
    name = cluster.fresh()
    reply = cluster[at].call(
        "create_topics", 7, {"topics": [topic_body(name, partitions, replicas, {})], "timeout": 30000}
    )
    one = reply.body.topics[0]
    code = error(one.error_code)
    if code != "NONE":
        return code
    cluster.wait(lambda: len(cluster[at].metadata(name).partitions) == one.num_partitions, name)
    found = cluster[at].metadata(name).partitions
    sizes = sorted({len(each.replica_nodes) for each in found})
    distinct = all(len(set(each.replica_nodes)) == len(each.replica_nodes) for each in found)
    first = all(each.leader_id == each.replica_nodes[0] for each in found)
    whole = all(set(each.isr_nodes) == set(each.replica_nodes) for each in found)
    spread = len({each.leader_id for each in found})
    return (
        f"{one.num_partitions} partitions, {one.replication_factor} told, replicas {sizes}, distinct {distinct}, "
        f"first leads {first}, all in sync {whole}, {spread} leaders"
    )


@of_cluster("R10", "CreateTopics with replication factors 1 to 4, 0 and the brokers' own; three partitions")
def r10(cluster: Cluster) -> Facts:
    asked = {f"factor {count}": _made(cluster, 3, count) for count in (1, 2, 3, 4, 0, -1, -2)}
    return asked | {"all their own": _made(cluster, -1, -1), "6 partitions": _made(cluster, 6, 3)}


@of_cluster("R11", "CreateTopics with assignments over brokers: right, one broker twice, unknown, none, of two lengths")
def r11(cluster: Cluster) -> Facts:
    def made(assignments: dict[int, list[int]]) -> str:
        name = cluster.fresh()
        rows = [{"partition_index": index, "broker_ids": ids} for index, ids in assignments.items()]
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": rows, "configs": []}
        one = cluster.b.call("create_topics", 7, {"topics": [topic], "timeout": 30000}).body.topics[0]
        code = error(one.error_code)
        if code != "NONE":
            return code
        cluster.wait(lambda: len(cluster.b.metadata(name).partitions) == len(assignments), name)
        told = "; ".join(cluster.tell(name, index, at="B") for index in sorted(assignments))
        return f"{one.num_partitions} and {one.replication_factor} told: {told}"

    a, b, c = cluster.ids["A"], cluster.ids["B"], cluster.ids["C"]
    return {
        "right": made({0: [c, a], 1: [b, c], 2: [a, b]}),
        "of one": made({0: [c]}),
        "of three": made({0: [b, c, a]}),
        "twice the same": made({0: [a, a]}),
        "unknown": made({0: [a, 99]}),
        "negative": made({0: [a, -1]}),
        "nobody": made({0: []}),
        "of two lengths": made({0: [a, b], 1: [c]}),
        "a gap": made({0: [a], 2: [b]}),
    }


UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION(3)"


def _value(node: Node, asked: dict[str, Any]) -> str:
    return str(node.call("describe_configs", 4, asked).body.results[0].configs[0].value)


@of_cluster(
    "R12", "CreateTopics, CreatePartitions, settings and DeleteTopics at each broker in turn: all brokers tell of it"
)
def r12(cluster: Cluster) -> Facts:
    facts: Facts = {}
    for letter, node in cluster.nodes.items():
        name = cluster.fresh()
        made = cluster.create(name, "ABC", at=letter)
        again = cluster.create(name, "ABC", at=letter)
        grown = node.call("create_partitions", 3, {"topics": [{"name": name, "count": 2}], "timeout": 30000})
        change = {"name": "retention.ms", "config_operation": 0, "value": "77000"}
        resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
        altered = node.call("incremental_alter_configs", 1, {"resources": [resource]})
        cluster.wait_all(lambda node: len(node.metadata(name).partitions) == 2, name)  # noqa: B023 - asked at once
        asked = {"resources": [{"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]}]}
        cluster.wait_all(lambda node: _value(node, asked) == "77000", "the setting")  # noqa: B023
        gone = node.delete(name)
        cluster.wait_all(lambda node: error(node.metadata(name).error_code) == UNKNOWN, "its end")  # noqa: B023
        facts[f"at {letter}"] = (
            f"{made}, again {again}, grown {error(grown.body.results[0].error_code)}, "
            f"set {error(altered.body.responses[0].error_code)}, deleted {gone}"
        )
    return facts


@of_cluster(
    "R13", "CreatePartitions of a topic of two replicas: placed by the brokers, with assignments right and wrong"
)
def r13(cluster: Cluster) -> Facts:
    name = cluster.topic("CB")

    def grown(count: int, assignments: list[str] | None, more: list[int] | None = None) -> str:
        rows = (
            None
            if assignments is None
            else [{"broker_ids": [cluster.ids[each] for each in one]} for one in assignments]
        )
        if more is not None:
            rows = [{"broker_ids": more}]
        asked = {"topics": [{"name": name, "count": count, "assignments": rows}], "timeout": 30000}
        return error(cluster.b.call("create_partitions", 3, asked).body.results[0].error_code)

    facts = {
        "of three replicas": grown(2, ["ABC"]),
        "of one": grown(2, ["A"]),
        "twice the same": grown(2, ["AA"]),
        "unknown": grown(2, None, [cluster.ids["A"], 99]),
        "too many": grown(2, ["AB", "BC"]),
        "too few": grown(3, ["AB"]),
        "right": grown(3, ["AB", "CA"]),
        "placed by the brokers": grown(4, None),
    }
    cluster.wait(lambda: len(cluster.a.metadata(name).partitions) == 4, "four partitions")
    for index in range(3):
        facts[f"p{index}"] = cluster.tell(name, index)
    facts["p3"] = f"{len(set(cluster.partition(name, 3).replica_nodes))} replicas"
    return facts


@of_cluster("R14", "Metadata and DescribeCluster of every broker: brokers, racks, cluster id, a controller")
def r14(cluster: Cluster) -> Facts:
    facts: Facts = {}
    ids = set()
    for letter, node in cluster.nodes.items():
        told = node.call("metadata", 12, {"topics": []}).body
        described = node.call("describe_cluster", 2, {"endpoint_type": 1, "include_fenced_brokers": True}).body
        ids |= {told.cluster_id, described.cluster_id}
        racks = all(one.rack == cluster[cluster.letters([one.node_id])].rack for one in told.brokers)
        same = {(b.node_id, b.host, b.port) for b in told.brokers} == {
            (b.broker_id, b.host, b.port) for b in described.brokers
        }
        facts[f"of {letter}"] = (
            f"brokers {cluster.sorted(b.node_id for b in told.brokers)}, racks {racks}, the same described {same}, "
            f"fenced {cluster.sorted(b.broker_id for b in described.brokers if b.is_fenced) or 'none'}, "
            f"a controller told {told.controller_id in cluster.ids.values()}"
        )
    return facts | {"cluster ids": str(len(ids))}


@of_cluster("R15", "DescribeTopicPartitions of every broker: leader, epoch, replicas, ISR, eligible and offline ones")
def r15(cluster: Cluster) -> Facts:
    name = cluster.topic("CAB", "BCA")

    def told(letter: str) -> str:
        one = cluster[letter].call("describe_topic_partitions", 0, {"topics": [{"name": name}]}).body.topics[0]
        return "; ".join(
            f"p{p.partition_index} leader {cluster.letters([p.leader_id])} epoch {p.leader_epoch} replicas "
            f"{cluster.letters(p.replica_nodes)} ISR {cluster.sorted(p.isr_nodes)} eligible "
            f"{cluster.sorted(p.eligible_leader_replicas or ()) or 'none'} last known "
            f"{cluster.sorted(p.last_known_elr or ()) or 'none'} offline {cluster.sorted(p.offline_replicas) or 'none'}"
            for p in one.partitions
        )

    return {f"of {letter}": told(letter) for letter in cluster.nodes}
