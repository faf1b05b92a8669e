"""F13, R16 to R27: requests to a broker that is the wrong one for them, and what each broker may be asked."""

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.cluster.acts import of_cluster
from tests.conformance.cluster.world import Cluster, Node, fetch
from tests.conformance.raw import Closed, fitting
from tests.conformance.scenario import Facts
from tests.conformance.world import error, fetch_body, fetched, now_ms, produce_body, produced, records


@of_cluster("F13", "a follower is asked: Fetch v10 to v12, leader epochs, Produce, ListOffsets; then who is no replica")
def f13(cluster: Cluster) -> Facts:
    name = cluster.topic("CB")
    cluster.c.produce(name, 3, acks=-1)
    # The follower's high watermark comes with its next fetch.
    cluster.wait(lambda: fetch(cluster.b, name, 0, 12).endswith("HW 3"), "the follower's high watermark")
    facts: Facts = {}
    for told, node in (("follower", cluster.b), ("no replica", cluster.a)):
        for version in (10, 11, 12):
            facts[f"{told}, v{version}"] = fetch(node, name, 0, version)
        for epoch in (0, 1):
            facts[f"{told}, epoch {epoch}"] = fetch(node, name, 0, 12, epoch=epoch)
        facts[f"{told}, at the end"] = fetch(node, name, 3, 12)
        facts[f"{told}, beyond"] = fetch(node, name, 4, 12)
        for acks in (1, -1):
            facts[f"{told}, Produce acks {acks}"] = node.produce(name, 1, acks=acks).code
        for epoch in (-1, 0, 1):
            facts[f"{told}, ListOffsets, epoch {epoch}"] = node.listed(name, epoch=epoch)
            facts[f"{told}, OffsetForLeaderEpoch, epoch {epoch}"] = node.epoch_end(name, 0, current=epoch)
    return facts


@of_cluster("R16", "DescribeQuorum of every broker: the leader, voters and observers of the metadata")
def r16(cluster: Cluster) -> Facts:
    body = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    facts: Facts = {}
    for letter, node in cluster.nodes.items():
        one = node.call("describe_quorum", 2, body).body.topics[0].partitions[0]
        facts[f"of {letter}"] = (
            f"{error(one.error_code)}, leader {cluster.letters([one.leader_id])}, "
            f"high watermark {one.high_watermark > 0}, "
            f"voters {cluster.sorted(each.replica_id for each in one.current_voters)}, "
            f"observers {cluster.sorted(each.replica_id for each in one.observers) or 'none'}"
        )
    return facts


@of_cluster(
    "R17", "settings of a broker asked of another: DescribeConfigs, IncrementalAlterConfigs, of one that is not there"
)
def r17(cluster: Cluster) -> Facts:
    def described(asked: str, of: str) -> str:
        resource = {"resource_type": 4, "resource_name": of, "configuration_keys": ["broker.rack", "node.id"]}
        one = cluster[asked].call("describe_configs", 4, {"resources": [resource]}).body.results[0]
        values = {each.name: each.value for each in one.configs}
        own = values == {"broker.rack": cluster[asked].rack, "node.id": str(cluster.ids[asked])}
        return error(one.error_code) + (", its own" if own else f", {len(values)} settings")

    def altered(asked: str, of: str, value: str) -> str:
        change = {"name": "log.cleaner.threads", "config_operation": 0, "value": value}
        resource = {"resource_type": 4, "resource_name": of, "configs": [change]}
        reply = cluster[asked].call("incremental_alter_configs", 1, {"resources": [resource], "validate_only": True})
        return error(reply.body.responses[0].error_code)

    b, c = str(cluster.ids["B"]), str(cluster.ids["C"])
    return {
        "C of C": described("C", c),
        "C of B": described("C", b),
        "B of C": described("B", c),
        "B of 99": described("B", "99"),
        "alter C at C": altered("C", c, "2"),
        "alter C at B": altered("B", c, "2"),
        "alter 99 at B": altered("B", "99", "2"),
        "alter all at B": altered("B", "", "2"),
        "alter C at B, nonsense": altered("B", c, "x"),
    }


@of_cluster("R18", "the wrong broker: Produce with acks 0, DeleteRecords, DescribeProducers, DescribeLogDirs")
def r18(cluster: Cluster) -> Facts:
    name = cluster.topic("CB")
    cluster.c.produce(name, 2, acks=-1)
    facts: Facts = {}
    with cluster.b.connect() as peer:
        peer.send("produce", 9, produce_body({name: {0: b"never looked at"}}, acks=0))
        try:
            peer.receive_frame()
            facts["acks 0, a follower"] = "answered"
        except Closed:
            facts["acks 0, a follower"] = "closed"
        except TimeoutError:
            facts["acks 0, a follower"] = "no answer, open"
    for letter, told in (("C", "leader"), ("B", "follower"), ("A", "no replica")):
        node = cluster[letter]
        asked = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 1}]}], "timeout": 5000}
        one = node.call("delete_records", 2, asked).body.topics[0].partitions[0]
        facts[f"DeleteRecords, {told}"] = f"{error(one.error_code)}, {one.low_watermark}"
        asked = {"topics": [{"name": name, "partition_indexes": [0]}]}
        one = node.call("describe_producers", 0, asked).body.topics[0].partitions[0]
        facts[f"DescribeProducers, {told}"] = error(one.error_code)
        asked = {"topics": [{"topic": name, "partitions": [0]}]}
        found = [t for each in node.call("describe_log_dirs", 4, asked).body.results for t in each.topics]
        facts[f"DescribeLogDirs, {told}"] = f"{sum(len(each.partitions) for each in found)} partitions"
    return facts


@of_cluster(
    "R19", "the leader, of epoch 0, is asked with leader epochs -1 to 1: Fetch, ListOffsets, OffsetForLeaderEpoch"
)
def r19(cluster: Cluster) -> Facts:
    name = cluster.topic("CAB")
    cluster.c.produce(name, 2, acks=-1)
    facts: Facts = {}
    for epoch in (-1, 0, 1):
        facts[f"Fetch, epoch {epoch}"] = fetch(cluster.c, name, 0, 12, epoch=epoch)
        facts[f"ListOffsets, epoch {epoch}"] = cluster.c.listed(name, epoch=epoch)
        for asked in (0, 1):
            facts[f"end of epoch {asked}, epoch {epoch}"] = cluster.c.epoch_end(name, asked, current=epoch)
    return facts


@of_cluster("R20", "who is no replica fetches as one: another broker's id of a partition it has not, an id of nobody")
def r20(cluster: Cluster) -> Facts:
    name = cluster.topic("CB")
    cluster.c.produce(name, 1, acks=-1)
    facts: Facts = {}
    for told, replica in (("A, no replica", cluster.ids["A"]), ("nobody", 99)):
        with cluster.c.connect_as(replica) as peer:
            for version in (11, 12):
                body = fetch_body([(name, 0, 0)]) | {"replica_id": replica}
                reply = peer.call("fetch", version, fitting("fetch", version, body))
                facts[f"{told}, v{version}"] = next(iter(fetched(reply).values())).code
    return facts


@of_cluster("R21", "producer ids of every broker: all different")
def r21(cluster: Cluster) -> Facts:
    found = [node.producer_id() for _ in range(5) for node in cluster.nodes.values()]
    return {"all different": str(len(set(found)) == len(found)), "none negative": str(min(found) >= 0)}


@of_cluster(
    "R22", "ElectLeaders of every kind where the preferred ones lead; unknown topics; all of them; at each broker"
)
def r22(cluster: Cluster) -> Facts:
    name = cluster.topic("CAB", "BCA")

    def elected(letter: str, kind: int, topics: list[dict[str, Any]] | None) -> str:
        body = {"election_type": kind, "topic_partitions": topics, "timeout": 30000}
        answer = cluster[letter].call("elect_leaders", 2, body).body
        rows = [
            f"p{row.partition_id} {error(row.error_code)}"
            for each in answer.replica_election_results
            for row in each.partition_result
        ]
        return f"{error(answer.error_code)}: {', '.join(rows) or 'nothing'}"

    facts: Facts = {}
    for letter in cluster.nodes:
        for kind, told in ((0, "preferred"), (1, "unclean")):
            facts[f"{told}, at {letter}"] = elected(letter, kind, [{"topic": name, "partitions": [0, 1, 9]}])
    facts["an unknown topic"] = elected("B", 0, [{"topic": "nobody", "partitions": [0]}])
    facts["a kind that is none"] = elected("B", 5, [{"topic": name, "partitions": [0]}])
    facts["of nothing"] = elected("B", 0, [])
    return facts


@of_cluster("R23", "acks -1 and 1 on three replicas: offsets, what is visible at once, what followers have, too")
def r23(cluster: Cluster) -> Facts:
    name = cluster.topic("CAB")
    facts: Facts = {}
    with cluster.c.connect() as peer:
        got = cluster.c.produce_on(peer, name, 2, acks=-1)
        facts["acks -1"] = f"{got.code}, base {got.base_offset}"
        facts["at once"] = cluster.c.listed(name)
        got = cluster.c.produce_on(peer, name, 1, acks=1)
        facts["acks 1"] = f"{got.code}, base {got.base_offset}"
    cluster.wait_all(lambda node: fetch(node, name, 0, 12).endswith("HW 3"), "the high watermark")
    for letter, node in cluster.nodes.items():
        facts[f"read from {letter}"] = fetch(node, name, 0, 12)
    return facts


@of_cluster("R24", "min.insync.replicas above the number of replicas: 3 of two replicas, 4 of three; acks -1 and 1")
def r24(cluster: Cluster) -> Facts:
    facts: Facts = {}
    for replicas, least in (("CA", "3"), ("BCA", "4"), ("ABC", "3"), ("A", "2")):
        name = cluster.topic(replicas, min_insync_replicas=least)
        node = cluster[replicas[0]]
        for acks in (-1, 1):
            facts[f"{least} of {len(replicas)}, acks {acks}"] = node.produce(name, 1, acks=acks).code
        cluster.wait_all(lambda node: node.listed(name) == "offset 2, epoch 0", "the high watermark", replicas[0])  # noqa: B023
    return facts


@of_cluster(
    "R25", "DeleteRecords of a replicated log: the low watermark; reads below it at the leader and at a follower"
)
def r25(cluster: Cluster) -> Facts:
    name = cluster.topic("CAB")
    for _ in range(5):
        cluster.c.produce(name, 1, acks=-1)
    asked = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 3}]}], "timeout": 30000}
    one = cluster.c.call("delete_records", 2, asked).body.topics[0].partitions[0]
    facts = {
        "deleted": f"{error(one.error_code)}, low watermark {one.low_watermark}",
        "start": cluster.c.listed(name, -2),
    }
    cluster.wait(lambda: fetch(cluster.b, name, 3, 12).endswith("HW 5"), "the follower's high watermark")
    for told, node in (("leader", cluster.c), ("follower", cluster.b)):
        facts[f"{told}, at 2"] = fetch(node, name, 2, 12)
        facts[f"{told}, at 3"] = fetch(node, name, 3, 12)
    return facts


@of_cluster("R26", "a topic is deleted: what leader, follower and who is no replica answer then")
def r26(cluster: Cluster) -> Facts:
    name = cluster.topic("CB")
    cluster.c.produce(name, 1, acks=-1)
    facts = {"deleted": cluster.a.delete(name)}
    cluster.wait_all(lambda node: error(node.metadata(name).error_code) == "UNKNOWN_TOPIC_OR_PARTITION(3)", "its end")
    for letter, node in cluster.nodes.items():
        facts[f"{letter}, Fetch"] = fetch(node, name, 0, 12)
        facts[f"{letter}, Produce"] = node.produce(name, 1, acks=-1).code
        facts[f"{letter}, ListOffsets"] = node.listed(name)
    return facts


@of_cluster("R27", "one Produce and one Fetch of three partitions, led by A, B and C: each broker answers for its own")
def r27(cluster: Cluster) -> Facts:
    name = cluster.topic("AB", "BC", "CA")
    facts: Facts = {}
    for letter, node in cluster.nodes.items():
        payload = batch(records(1), timestamp=now_ms())
        reply = node.call("produce", 9, produce_body({name: dict.fromkeys(range(3), payload)}, acks=-1))
        answers = produced(reply)
        facts[f"Produce at {letter}"] = ", ".join(f"p{index} {answers[name, index].code}" for index in range(3))
    cluster.wait(
        lambda: all(_hw(cluster[x], name, i) == 1 for i, x in enumerate("BCA")), "the followers' high watermarks"
    )
    for letter, node in cluster.nodes.items():
        reply = node.call("fetch", 12, fetch_body([(name, index, 0) for index in range(3)]))
        facts[f"Fetch at {letter}"] = ", ".join(
            f"p{index} {got.code} {len(got.batches)}" for (_, index), got in sorted(fetched(reply).items())
        )
    return facts


def _hw(node: Node, name: str, index: int) -> int:
    return node.fetch(name, 0, partition=index)[0].high_watermark
