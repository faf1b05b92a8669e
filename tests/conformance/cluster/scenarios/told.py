"""R54 to R58: what answers tell beside an error, and of what is not below the high watermark yet."""

import uuid
from typing import Any

from tests.conformance.batches import batch
from tests.conformance.cluster.acts import BOTH, PAUSED, STOPPED, Steps, of_cluster
from tests.conformance.cluster.scenarios.coordinators import OFFSETS, commit, committed, group_on
from tests.conformance.cluster.world import Cluster, Node, elect, fetch
from tests.conformance.consumers import Consumer
from tests.conformance.members import Member, described, join_body
from tests.conformance.raw import Connection, fitting
from tests.conformance.scenario import Facts
from tests.conformance.world import error, fetch_body, list_body, now_ms, pause, produce_body, records


def _leader(cluster: Cluster, one: Any) -> str:
    told = getattr(one, "current_leader", None)
    if told is None or told.leader_id < 0:
        return "leader not told"
    return f"leader {cluster.letters([told.leader_id])}, epoch {told.leader_epoch}"


def _endpoints(cluster: Cluster, body: Any) -> str:
    told = getattr(body, "node_endpoints", ())
    rows = [(cluster.letters([one.node_id]), one.port == cluster.target.port(one.node_id), one.rack) for one in told]
    right = all(port and rack == cluster[letter].rack for letter, port, rack in rows)
    return f"endpoints {''.join(sorted(letter for letter, _, _ in rows)) or 'none'}{'' if right else ' (wrong)'}"


def _asked(cluster: Cluster, node: Node, name: str, topic_id: uuid.UUID) -> Facts:
    facts: Facts = {}
    payload = batch(records(1), timestamp=now_ms())
    for version in (9, 10, 12, 13):
        body = produce_body({name: {0: payload}}, acks=1)
        body["topic_data"][0]["topic_id"] = topic_id
        answer = node.call("produce", version, fitting("produce", version, body)).body
        part = answer.responses[0].partition_responses[0]
        facts[f"Produce v{version}"] = (
            f"{error(part.error_code)}, {_leader(cluster, part)}, {_endpoints(cluster, answer)}"
        )
    for version, epoch in ((12, -1), (12, 0), (15, 0), (16, 0), (17, 0), (17, 9)):
        key = "topic" if version < 13 else "topic_id"
        body = fetch_body([(name if version < 13 else topic_id, 0, 0)], epoch=epoch, key=key)
        answer = node.call("fetch", version, fitting("fetch", version, body)).body
        part = answer.responses[0].partitions[0]
        told = f"{error(part.error_code)}, {_leader(cluster, part)}, {_endpoints(cluster, answer)}"
        facts[f"Fetch v{version}, epoch {epoch}"] = told
    return facts


@of_cluster(
    "R54",
    "who leads now (KIP-951): Produce v9 to v13 and Fetch v12 to v17 at a broker without a replica, and at a follower",
)
def r54(cluster: Cluster) -> Facts:
    name = cluster.topic("CA")
    topic_id = cluster.a.metadata(name).topic_id
    facts = {f"no replica, {told}": fact for told, fact in _asked(cluster, cluster.b, name, topic_id).items()}
    return facts | {f"follower, {told}": fact for told, fact in _asked(cluster, cluster.a, name, topic_id).items()}


@of_cluster(
    "R55",
    "the same of a leader that was stopped and is back as a follower, and at the next one with the old epoch",
    act=STOPPED,
)
def r55(cluster: Cluster) -> Steps:
    name = cluster.topic("CAB")
    topic_id = cluster.a.metadata(name).topic_id
    yield
    cluster.wait_leader(name, "A")
    facts = {f"A, {told}": fact for told, fact in _asked(cluster, cluster.a, name, topic_id).items() if "Fetch" in told}
    facts |= {f"B, {told}": fact for told, fact in _asked(cluster, cluster.b, name, topic_id).items()}
    yield
    cluster.wait_isr(name, "ABC")
    cluster.wait(lambda: cluster.c.listed(name).startswith("NOT_LEADER"), "C knows who leads")
    return facts | {f"C, {told}": fact for told, fact in _asked(cluster, cluster.c, name, topic_id).items()}


@of_cluster(
    "R56",
    "min.insync.replicas of the groups' topic cannot be had: commits, JoinGroup, SyncGroup, KIP-848, deletions",
    act=BOTH,
    differs={
        "Heartbeat": "NONE",
        "Heartbeat, then": "REBALANCE_IN_PROGRESS(27)",
        "JoinGroup of a new group": "COORDINATOR_NOT_AVAILABLE(15)",
        "then": "NONE, PreparingRebalance, 'consumer', '', ['all' of dynamic, no metadata]",
    },
    note="a heartbeat changes nothing and is answered; a new group is written before its member is given an id; an "
    "assignment that could not be written leaves the one before",
)
def r56(cluster: Cluster) -> Steps:
    name = cluster.topic("A")
    group, stable, other, new = (group_on(cluster, "A") for _ in range(4))
    node = cluster.a

    def least(value: str) -> None:
        change = {"name": "min.insync.replicas", "config_operation": 0, "value": value}
        resource = {"resource_type": 2, "resource_name": OFFSETS, "configs": [change]}
        answer = node.call("incremental_alter_configs", 1, {"resources": [resource]}).body
        assert error(answer.responses[0].error_code) == "NONE"

    with Member(node, stable, "m", {}) as member:
        member.stable()
        yield
        cluster.wait(lambda: commit(node, group, name, 1) == "NONE", "a commit")
        least("3")
        pause(1000)  # a commit that is written before it is in force would wait for a replica that is away
        facts = {"OffsetCommit": commit(node, group, name, 3), "OffsetFetch": committed(node, group, name)}
        facts["OffsetCommit of a member"] = commit(node, stable, name, 3, member.member_id, member.generation)
        facts["Heartbeat"] = member.heartbeat()
        facts["JoinGroup, again"] = member.join()
        facts["SyncGroup"] = member.sync({member.member_id: b"more"})
        facts["Heartbeat, then"] = member.heartbeat()
        facts["JoinGroup of a new group"] = error(node.call("join_group", 9, join_body(new)).body.error_code)
        with Consumer(node, other, "n", name) as consumer:
            joining = {"subscribed_topic_names": [name], "topic_partitions": [], "rebalance_timeout": 30000}
            answer = consumer.peer.call("consumer_group_heartbeat", 1, consumer.body(member_epoch=0, **joining)).body
            facts["ConsumerGroupHeartbeat"] = error(answer.error_code)
        deleted = node.call("delete_groups", 2, {"groups_names": [group]}).body.results[0]
        facts["DeleteGroups"] = error(deleted.error_code)
        least("1")
        cluster.wait(lambda: commit(node, group, name, 4) == "NONE", "a commit that is taken again")
        facts["then"] = described(node, stable)
    yield
    return facts


@of_cluster(
    "R57",
    "records that are not below the high watermark: DeleteRecords, ListOffsets by time and of the ends, ends of epochs",
    act=PAUSED,
)
def r57(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")

    def sent(stamp: int, acks: int) -> None:
        cluster.a.produce(name, batch(records(1), timestamp=stamp), acks=acks)

    base = now_ms() - 100_000
    sent(base, -1)
    yield
    sent(base + 20_000, 1)
    sent(base + 10_000, 1)

    def listed(stamp: int, isolation: int = 0) -> str:
        body = list_body(name, [{"partition_index": 0, "timestamp": stamp}]) | {"isolation_level": isolation}
        one = cluster.a.call("list_offsets", 9, body).body.topics[0].partitions[0]
        code = error(one.error_code)
        return (
            code
            if code != "NONE"
            else f"offset {one.offset}, {'no time' if one.timestamp < 0 else one.timestamp - base}"
        )

    def deleted(offset: int) -> str:
        asked = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}], "timeout": 300}
        one = cluster.a.call("delete_records", 2, asked).body.topics[0].partitions[0]
        return f"{error(one.error_code)}, {one.low_watermark}"

    facts = {f"time {stamp}": listed(base + stamp) for stamp in (0, 1, 10_000, 20_001)}
    facts |= {
        told: listed(stamp)
        for told, stamp in (("latest", -1), ("earliest", -2), ("largest time", -3), ("local", -4), ("tiered", -5))
    }
    facts["latest, committed"] = listed(-1, 1)
    facts["end of epoch 0"] = cluster.a.epoch_end(name, 0)
    facts |= {f"DeleteRecords {offset}": deleted(offset) for offset in (2, 3, 4)}
    facts["DeleteRecords -1"] = deleted(-1)
    facts["read committed"] = fetch(cluster.a, name, 1, isolation=1)
    yield
    cluster.wait_isr(name, "AC")
    cluster.wait(lambda: cluster.a.listed(name).startswith("offset 3"), "the high watermark")
    return facts | {
        f"then, {told}": listed(stamp) for told, stamp in (("latest", -1), ("largest time", -3), ("time 1", base + 1))
    }


def _session(peer: Connection, name: str, session: tuple[int, int], asked: bool, wait: int = 0) -> tuple[int, str]:
    body = fetch_body([(name, 0, 0)] if asked else [], session=session, wait=wait)
    answer = peer.call("fetch", 12, body).body
    rows = [error(part.error_code) for topic in answer.responses for part in topic.partitions]
    return int(answer.session_id), f"{error(answer.error_code)}: {', '.join(rows) or 'no partition'}"


@of_cluster(
    "R58",
    "a fetch session with a follower, and with a leader that gives way while it is open: what is listed in each answer",
)
def r58(cluster: Cluster) -> Facts:
    name = cluster.topic("CAB")
    with cluster.a.connect() as follower, cluster.c.connect() as leader, cluster.b.connect() as other:
        facts: Facts = {}
        for told, peer in (("follower", follower), ("leader", leader), ("other", other)):
            session, facts[f"{told}, opened"] = _session(peer, name, (0, 0), True)
            _, facts[f"{told}, next"] = _session(peer, name, (session, 1), False)
            cluster.c.produce(name, 1, acks=-1)
            cluster.wait_all(
                lambda node: fetch(node, name, 0).endswith(f"HW {cluster.c.listed(name)[7:8]}"), "high watermarks"
            )
            pause(100)
            _, facts[f"{told}, after a record"] = _session(peer, name, (session, 2), False)
        assert elect(cluster.a, 0, name) == "ELECTION_NOT_NEEDED(84)"
    return facts
