"""R06, R40 to R49: C is stopped in good order, and started again."""

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.cluster.acts import STOPPED, Steps, of_cluster
from tests.conformance.cluster.world import Cluster, Node, elect, fetch
from tests.conformance.scenario import Facts
from tests.conformance.world import error, now_ms, records


@of_cluster(
    "R40",
    "a broker stops: leaders, epochs and ISRs of what it had, told by both others; the same when it is back",
    act=STOPPED,
)
def r40(cluster: Cluster) -> Steps:
    shapes = ("CAB", "ACB", "BCA", "CBA")
    name, pair, alone = cluster.topic(*shapes), cluster.topic("CA"), cluster.topic("C")
    for index, replicas in enumerate(shapes):
        cluster[replicas[0]].produce(name, 1, partition=index, acks=-1)
    yield
    facts: Facts = {}
    for index in range(4):
        cluster.wait_isr(name, "AB", index)
        cluster.wait_isr(name, "AB", index, at="B")
        facts[f"of three, p{index}"] = cluster.tell(name, index)
        facts[f"of three, p{index}, told by B"] = cluster.tell(name, index, at="B")
    cluster.wait_isr(pair, "A")
    facts["of two"], facts["of one"] = cluster.tell(pair), cluster.tell(alone)
    yield
    for index in range(4):
        cluster.wait_isr(name, "ABC", index)
        facts[f"back, p{index}"] = cluster.tell(name, index)
    cluster.wait_isr(pair, "AC")
    cluster.wait_leader(alone, "C")
    return facts | {"back, of two": cluster.tell(pair), "back, of one": cluster.tell(alone)}


@of_cluster("R06", "ElectLeaders while the preferred leader is away, when it is back, and again", act=STOPPED)
def r06(cluster: Cluster) -> Steps:
    name, alone = cluster.topic("CAB", "ACB"), cluster.topic("C")
    yield
    cluster.wait(lambda: cluster.leader(name) == "A" and cluster.leader(alone) == "-", "C leads nothing")
    facts = {"away, preferred": elect(cluster.b, 0, name, [0, 1]), "away, unclean": elect(cluster.b, 1, name, [0, 1])}
    facts["away, of one"] = f"{elect(cluster.b, 0, alone)}; {elect(cluster.b, 1, alone)}"
    yield
    cluster.wait_isr(name, "ABC")
    facts["back"] = elect(cluster.b, 0, name, [0, 1])
    cluster.wait_leader(name, "C")
    facts["then"] = cluster.tell(name)
    return facts | {"again": elect(cluster.b, 0, name, [0, 1]), "one that is alone": cluster.tell(alone, epoch=False)}


@of_cluster(
    "R42",
    "CreateTopics while a broker is away: three replicas, assignments that name it, it alone; when it is back",
    act=STOPPED,
)
def r42(cluster: Cluster) -> Steps:
    yield
    shapes = {"of three": "CAB", "of two": "AC", "of it alone": "C"}
    names = {told: cluster.fresh() for told in shapes}
    facts = {told: cluster.create(names[told], replicas) for told, replicas in shapes.items()}
    counted = cluster.fresh()
    topic = {"name": counted, "num_partitions": 2, "replication_factor": 3}
    reply = cluster.b.call("create_topics", 7, {"topics": [topic], "timeout": 30000}).body.topics[0]
    facts["three replicas, placed"] = error(reply.error_code)
    made = [told for told, code in facts.items() if code == "NONE" and told in names]
    for told in made:
        cluster.wait(lambda told=told: len(cluster.a.metadata(names[told]).partitions) == 1, told)  # type: ignore[misc]
        facts[f"{told}, then"] = cluster.tell(names[told])
    if facts["three replicas, placed"] == "NONE":
        cluster.wait(lambda: len(cluster.a.metadata(counted).partitions) == 2, counted)
        facts["placed, in sync"] = " ".join(sorted({cluster.isr(counted, index) for index in range(2)}))
    yield
    for told in made:
        cluster.wait_isr(names[told], "".join(sorted(shapes[told])))
        facts[f"{told}, back"] = cluster.tell(names[told])
    return facts


@of_cluster(
    "R43",
    "DeleteTopics while a replica's broker is away; one is made again under its name; what the broker has then",
    act=STOPPED,
)
def r43(cluster: Cluster) -> Steps:
    gone, again = cluster.topic("ABC"), cluster.topic("ABC")
    for name in (gone, again):
        cluster.a.produce(name, 3, acks=-1)
    yield
    facts = {"deleted": f"{cluster.a.delete(gone)}, {cluster.a.delete(again)}"}
    cluster.wait(lambda: cluster.create(again, "BCA") in ("NONE", "TOPIC_ALREADY_EXISTS(36)"), "made again")
    cluster.wait_leader(again, "B")
    yield
    cluster.wait_isr(again, "ABC")
    cluster.b.produce(again, 1, acks=-1)

    def kept(name: str) -> str:
        asked = {"topics": [{"topic": name, "partitions": [0]}]}
        results = cluster.c.call("describe_log_dirs", 4, asked).body.results
        return f"{sum(len(topic.partitions) for one in results for topic in one.topics)} logs"

    cluster.wait(lambda: kept(gone) == "0 logs", "the end of the log")
    facts |= {"of the deleted one": kept(gone), "of the new one": kept(again), "told": cluster.tell(again)}
    cluster.wait(lambda: fetch(cluster.c, again, 0).endswith("HW 1"), "the follower's high watermark")
    return facts | {"read from it": fetch(cluster.c, again, 0), "deleted, asked of it": fetch(cluster.c, gone, 0)}


@of_cluster("R44", "DescribeCluster with and without fenced brokers, and Metadata, while one is away", act=STOPPED)
def r44(cluster: Cluster) -> Steps:
    yield

    def told(letter: str, fenced: bool) -> str:
        body = cluster[letter].call("describe_cluster", 2, {"endpoint_type": 1, "include_fenced_brokers": fenced}).body
        rows = sorted((cluster.letters([one.broker_id]), one.is_fenced) for one in body.brokers)
        return " ".join(f"{letter}{' fenced' if fenced else ''}" for letter, fenced in rows)

    facts = {f"of {letter}, {fenced}": told(letter, fenced) for letter in "AB" for fenced in (False, True)}
    facts |= {f"Metadata of {letter}": cluster.brokers(letter) for letter in "AB"}
    yield
    return facts | {"back": told("C", True)}


@of_cluster(
    "R45", "min.insync.replicas 3 and 2 of three while one is away: acks -1 and 1; then it is back", act=STOPPED
)
def r45(cluster: Cluster) -> Steps:
    three, two = cluster.topic("ACB", min_insync_replicas="3"), cluster.topic("ACB", min_insync_replicas="2")
    yield
    facts: Facts = {}
    for told, name in (("3", three), ("2", two)):
        cluster.wait_isr(name, "AB")
        for acks in (-1, 1):
            got = cluster.a.produce(name, 1, acks=acks)
            facts[f"least {told}, acks {acks}"] = f"{got.code}, base {got.base_offset}"
    facts["least 3, latest"] = cluster.a.listed(three)
    cluster.wait(lambda: cluster.a.listed(two) == "offset 2, epoch 0", "the high watermark")
    yield
    cluster.wait_isr(three, "ABC")
    facts["back"] = cluster.a.produce(three, 1, acks=-1).code
    return facts | {"back, latest": cluster.a.listed(three)}


def _with_epochs(node: Node, name: str, epochs: tuple[int, ...]) -> Facts:
    facts: Facts = {}
    for epoch in epochs:
        facts[f"Fetch, epoch {epoch}"] = fetch(node, name, 0, epoch=epoch)
        facts[f"ListOffsets, epoch {epoch}"] = node.listed(name, epoch=epoch)
        facts[f"OffsetForLeaderEpoch, epoch {epoch}"] = node.epoch_end(name, 0, current=epoch)
    return facts


@of_cluster(
    "R46",
    "another leads: requests with the epoch before, its own and the next; ends of epochs; the old leader, back",
    act=STOPPED,
)
def r46(cluster: Cluster) -> Steps:
    name = cluster.topic("CAB")
    cluster.c.produce(name, 2, acks=-1)
    yield
    cluster.wait_leader(name, "A")
    cluster.a.produce(name, 1, acks=-1)
    facts = {f"A: {told}": fact for told, fact in _with_epochs(cluster.a, name, (0, 1, 2)).items()}
    facts |= {f"end of epoch {epoch}": cluster.a.epoch_end(name, epoch) for epoch in (0, 1, 2)}
    yield
    cluster.wait_isr(name, "ABC")
    cluster.wait(lambda: fetch(cluster.c, name, 0).endswith("HW 3"), "the follower's high watermark")
    return facts | {f"C: {told}": fact for told, fact in _with_epochs(cluster.c, name, (-1, 0, 1, 2)).items()}


@of_cluster(
    "R47",
    "an idempotent producer whose leader stops: its last batches again at the next one, the next, one too far",
    act=STOPPED,
)
def r47(cluster: Cluster) -> Steps:
    name = cluster.topic("CAB")
    producer = cluster.c.producer_id()

    def sent(node: Node, sequence: int, epoch: int = 0) -> str:
        payload = batch(records(1), timestamp=now_ms(), producer_id=producer, producer_epoch=epoch, sequence=sequence)
        got = node.produce(name, payload, acks=-1)
        return f"{got.code}, base {got.base_offset}"

    facts = {f"sequence {sequence}": sent(cluster.c, sequence) for sequence in range(7)}
    yield
    cluster.wait_leader(name, "A")
    for sequence in (6, 2, 1, 7, 9):
        facts[f"at A, sequence {sequence}"] = sent(cluster.a, sequence)
    facts["at A, next epoch, sequence 1"] = sent(cluster.a, 1, epoch=1)
    facts["at A, next epoch, sequence 0"] = sent(cluster.a, 0, epoch=1)
    facts["at A, first epoch"] = sent(cluster.a, 8)
    yield
    cluster.wait_isr(name, "ABC")
    elect(cluster.a, 0, name)
    cluster.wait_leader(name, "C")
    facts["back at C, again"], facts["back at C, next"] = sent(cluster.c, 0, epoch=1), sent(cluster.c, 1, epoch=1)
    return facts | {"end": cluster.c.listed(name)}


@of_cluster(
    "R48",
    "settings are changed while a broker is away: of a topic, of all brokers, of itself; what it tells when it is back",
    act=STOPPED,
)
def r48(cluster: Cluster) -> Steps:
    name = cluster.topic("CAB")
    yield

    def altered(kind: int, resource: str, key: str, value: str) -> str:
        change = {"name": key, "config_operation": 0, "value": value}
        asked = {"resource_type": kind, "resource_name": resource, "configs": [change]}
        return error(
            cluster.b.call("incremental_alter_configs", 1, {"resources": [asked]}).body.responses[0].error_code
        )

    facts = {
        "a topic's": altered(2, name, "retention.ms", "70000"),
        "its own": altered(4, str(cluster.ids["C"]), "log.retention.ms", "1"),
    }
    yield

    def told(kind: int, resource: str, key: str) -> str:
        asked = {"resource_type": kind, "resource_name": resource, "configuration_keys": [key]}
        one = cluster.c.call("describe_configs", 4, {"resources": [asked]}).body.results[0]
        return f"{one.configs[0].value}, source {int(one.configs[0].config_source)}"

    cluster.wait(lambda: told(2, name, "retention.ms").startswith("70000"), "the topic's setting")
    return facts | {"told by C": told(2, name, "retention.ms")}


@of_cluster("R49", "CreatePartitions while a broker is away: on it, beside it, placed; when it is back", act=STOPPED)
def r49(cluster: Cluster) -> Steps:
    name = cluster.topic("ABC")
    yield

    def grown(count: int, assignment: str | None) -> str:
        rows: list[dict[str, Any]] | None = None
        if assignment is not None:
            rows = [{"broker_ids": [cluster.ids[each] for each in assignment]}]
        asked = {"topics": [{"name": name, "count": count, "assignments": rows}], "timeout": 30000}
        return error(cluster.b.call("create_partitions", 3, asked).body.results[0].error_code)

    facts = {"it first": grown(2, "CAB"), "it last": grown(3, "BAC"), "placed": grown(4, None)}
    cluster.wait(
        lambda: len(cluster.a.metadata(name).partitions) == 1 + list(facts.values()).count("NONE"), "partitions"
    )
    for index in (1, 2):
        facts[f"p{index}"] = cluster.tell(name, index)
    yield
    for index in (1, 2):
        cluster.wait_isr(name, "ABC", index)
        facts[f"back, p{index}"] = cluster.tell(name, index)
    return facts
