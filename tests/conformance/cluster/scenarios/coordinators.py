"""R80 to R84: groups whose coordinator is one of three brokers, another one, stopped, killed or moved."""

from typing import Any

from tests.conformance.cluster.acts import KILLED, STOPPED, Steps, of_cluster
from tests.conformance.cluster.world import Cluster, Node, elect, meanwhile, reassign
from tests.conformance.consumers import Consumer
from tests.conformance.members import Member, described
from tests.conformance.scenario import Facts
from tests.conformance.world import error

OFFSETS = "__consumer_offsets"
NOT_COORDINATOR = "NOT_COORDINATOR(16)"


def found(node: Node, *groups: str) -> list[int]:
    """FindCoordinator: who it is of each of these groups; -1 for an error."""
    answer = node.call("find_coordinator", 4, {"key_type": 0, "coordinator_keys": list(groups)}).body
    return [int(one.node_id) if error(one.error_code) == "NONE" else -1 for one in answer.coordinators]


def _preferred(cluster: Cluster) -> None:
    """Every partition of the groups' topic is led by its first replica, and all of it is there."""
    with cluster.lock:
        cluster.wait(lambda: found(cluster.a, "any") != [-1], f"{OFFSETS}")

        def led() -> bool:
            parts = cluster.a.metadata(OFFSETS).partitions
            astray = [one.partition_index for one in parts if one.leader_id != one.replica_nodes[0]]
            if astray:
                elect(cluster.a, 0, OFFSETS, astray)
            return not astray and all(len(one.isr_nodes) == 3 for one in parts)

        cluster.wait(led, f"the preferred leaders of {OFFSETS}")


def group_on(cluster: Cluster, letter: str) -> str:
    """A fresh group whose coordinator is this broker."""
    _preferred(cluster)
    names = [f"{cluster.fresh()}-{number}" for number in range(40)]
    of_it: list[str] = []

    def there() -> bool:
        of_it[:] = [
            name for name, one in zip(names, found(cluster.a, *names), strict=True) if one == cluster.ids[letter]
        ]
        return bool(of_it) and error_at(cluster[letter], of_it[0]) == "NONE"

    cluster.wait(there, f"a group on {letter}")
    return of_it[0]


def error_at(node: Node, group: str) -> str:
    """What OffsetFetch of a group is answered here."""
    body = {
        "groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}],
        "require_stable": False,
    }
    return error(node.call("offset_fetch", 9, body).body.groups[0].error_code)


def commit(node: Node, group: str, name: str, offset: int, member: str = "", generation: int = -1) -> str:
    """OffsetCommit of partition 0; the error."""
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [{"name": name, "partitions": [part]}],
    }
    return error(node.call("offset_commit", 9, body).body.topics[0].partitions[0].error_code)


def committed(node: Node, group: str, name: str) -> str:
    """OffsetFetch of partition 0: the offset, or the group's error."""
    asked = [{"name": name, "partition_indexes": [0]}]
    body = {
        "groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": asked}],
        "require_stable": False,
    }
    one = node.call("offset_fetch", 9, body).body.groups[0]
    code = error(one.error_code)
    return code if code != "NONE" else f"offset {one.topics[0].partitions[0].committed_offset}"


def kept(cluster: Cluster, node: Node, group: str, name: str) -> str:
    """What was committed before the coordinator moved, 5, once it is told.

    A new coordinator of Apache Kafka tells for a moment what was there before, where its high watermark lies below what
    it has read. Ours waits until it is sure.
    """
    cluster.wait(lambda: committed(node, group, name) == "offset 5", "the committed offset")
    return committed(node, group, name)


def moved_to(cluster: Cluster, group: str, away: str) -> Node:
    """The coordinator that both others tell, once it is not `away` and serves."""
    others = [node for letter, node in cluster.nodes.items() if letter != away]

    def there() -> bool:
        told = {found(node, group)[0] for node in others}
        return (
            len(told) == 1
            and told <= {node.node_id for node in others}
            and error_at(_of(cluster, told), group) == "NONE"
        )

    cluster.wait(there, f"another coordinator of {group}")
    return _of(cluster, {found(cluster.a, group)[0]})


def _of(cluster: Cluster, told: set[int]) -> Node:
    return next(node for node in cluster.nodes.values() if node.node_id in told)


def _again(node: Node, before: Member) -> Member:
    """The same member, who asks another broker."""
    after = Member(node, before.group, before.letter, before.names, **before.asks)
    after.member_id, after.generation = before.member_id, before.generation
    return after


def _followed(cluster: Cluster, **asks: Any) -> Steps:
    """A classic group of one on C, and what it finds where the coordinator is next."""
    name, group = cluster.topic("ABC"), group_on(cluster, "C")
    with Member(cluster.c, group, "m", {}, **asks) as member:
        member.stable()
        facts = {"commit": commit(cluster.c, group, name, 5, member.member_id, member.generation)}
        yield
        with meanwhile(member.heartbeat, facts, "to the one that is gone"):
            pass
    node = moved_to(cluster, group, "C")
    with _again(node, member) as member:
        facts |= {"heartbeat": member.heartbeat(), "described": described(node, group)}
        facts["heartbeat, another generation"] = member.heartbeat(generation_id=7)
        facts["committed"] = kept(cluster, node, group, name)
        facts["commit, again"] = commit(node, group, name, 6, member.member_id, member.generation)
        facts["sync"] = member.sync({})
        yield
        cluster.wait(lambda: error_at(cluster.c, group) == NOT_COORDINATOR, "C knows that it is not the coordinator")
        facts["at C"] = committed(cluster.c, group, name)
        facts["told by C"] = str(found(cluster.c, group) == [node.node_id])
        facts["at last"] = f"{member.heartbeat()}, {committed(node, group, name)}"
    return facts


@of_cluster(
    "R80",
    "a classic group whose coordinator stops: its member, generation, offsets and assignment at the next one",
    act=STOPPED,
)
def r80(cluster: Cluster) -> Steps:
    return (yield from _followed(cluster))


@of_cluster(
    "R81", "a classic group of a static member whose coordinator is killed: what the next one knows", act=KILLED
)
def r81(cluster: Cluster) -> Steps:
    followed = _followed(cluster, group_instance_id="one")
    next(followed)
    yield
    yield
    yield
    return (yield from followed)


@of_cluster(
    "R82",
    "a consumer group (KIP-848) whose coordinator stops: epochs, assignment and offsets at the next one",
    act=STOPPED,
)
def r82(cluster: Cluster) -> Steps:
    name, group = cluster.topic("ABC", "BCA"), group_on(cluster, "C")
    with Consumer(cluster.c, group, "m", name) as member:
        member.join()
        member.settled(2)
        epoch = member.epoch
        facts = {"commit": commit(cluster.c, group, name, 5, member.member_id, epoch)}
        owned = member.owned
        yield
    node = moved_to(cluster, group, "C")
    with Consumer(node, group, "m", name) as member:
        member.epoch, member.owned = epoch, owned
        facts["beat"] = member.beat()
        facts["epoch"] = "the same" if member.epoch == epoch else "another"
        facts["committed"] = kept(cluster, node, group, name)
        facts["commit, old epoch"] = commit(node, group, name, 6, member.member_id, epoch - 1)
        facts["commit"] += f"; again {commit(node, group, name, 6, member.member_id, epoch)}"
        yield
        cluster.wait(lambda: error_at(cluster.c, group) == NOT_COORDINATOR, "C knows that it is not the coordinator")
        facts["at last"] = member.beat()
    return facts


@of_cluster(
    "R83",
    "groups asked of a broker that is not their coordinator: every API; FindCoordinator and ListGroups of each broker",
)
def r83(cluster: Cluster) -> Facts:
    name, group = cluster.topic("ABC"), group_on(cluster, "C")
    with Member(cluster.c, group, "m", {}) as member:
        member.stable()
        commit(cluster.c, group, name, 3, member.member_id, member.generation)
        facts: Facts = {}
        others = {letter: cluster[letter] for letter in "AB"}
        for letter, node in others.items():
            with _again(node, member) as elsewhere:
                facts[f"Heartbeat at {letter}"] = elsewhere.heartbeat()
                facts[f"SyncGroup at {letter}"] = elsewhere.sync({})
                facts[f"JoinGroup at {letter}"] = elsewhere.join()
            facts[f"OffsetCommit at {letter}"] = commit(node, group, name, 4)
            facts[f"OffsetFetch at {letter}"] = committed(node, group, name)
            facts[f"DescribeGroups at {letter}"] = described(node, group)
            body = {"groups_names": [group]}
            facts[f"DeleteGroups at {letter}"] = error(node.call("delete_groups", 2, body).body.results[0].error_code)
            left = node.call("leave_group", 5, {"group_id": group, "members": [{"member_id": member.member_id}]}).body
            facts[f"LeaveGroup at {letter}"] = error(left.error_code)
            gone = {"group_id": group, "topics": [{"name": name, "partitions": [{"partition_index": 0}]}]}
            facts[f"OffsetDelete at {letter}"] = error(node.call("offset_delete", 0, gone).body.error_code)
            with Consumer(node, group, "n", name) as consumer:
                facts[f"ConsumerGroupHeartbeat at {letter}"] = error(
                    consumer.peer.call("consumer_group_heartbeat", 1, consumer.body(member_epoch=0)).body.error_code
                )
            asked = {"group_ids": [group]}
            told = node.call("consumer_group_describe", 1, asked).body.groups[0]
            facts[f"ConsumerGroupDescribe at {letter}"] = error(told.error_code)
        for letter, node in cluster.nodes.items():
            facts[f"FindCoordinator at {letter}"] = cluster.letters(found(node, group))
            body = {"states_filter": [], "types_filter": []}
            listed = [one.group_id for one in node.call("list_groups", 5, body).body.groups]
            facts[f"ListGroups at {letter}"] = str(group in listed)
        facts["then"] = f"{member.heartbeat()}, {committed(cluster.c, group, name)}"
    return facts


@of_cluster(
    "R84",
    "a coordinator moves by an election: heartbeats, a JoinGroup that waits, commits at the old one and the new",
)
def r84(cluster: Cluster) -> Facts:
    name, group = cluster.topic("ABC"), group_on(cluster, "A")
    facts: Facts = {}
    names: dict[str, str] = {}
    with Member(cluster.a, group, "m", names) as member, Member(cluster.a, group, "n", names) as other:
        member.stable()
        facts["commit"] = commit(cluster.a, group, name, 5, member.member_id, member.generation)
        other.ask_id()
        with meanwhile(other.join, facts, "the JoinGroup that waited"):
            cluster.wait(lambda: member.heartbeat() == "REBALANCE_IN_PROGRESS(27)", "the rebalance")
            with cluster.lock:
                index = _partition_of(cluster, group)
                order = cluster.letters(cluster.partition(OFFSETS, index).replica_nodes)
                reassign(cluster.a, OFFSETS, index, [cluster.ids[each] for each in order[1:] + order[0]])
                cluster.wait(lambda: not _going(cluster), "the new order")
                elect(cluster.a, 0, OFFSETS, [index])
            node = moved_to(cluster, group, "A")
        facts["heartbeat to the old one"] = member.heartbeat()
        facts["commit to the old one"] = commit(cluster.a, group, name, 6, member.member_id, member.generation)
    with _again(node, member) as member:
        facts["committed"] = kept(cluster, node, group, name)
        facts["described"] = described(node, group)
        facts["heartbeat"] = member.heartbeat()
    return facts


def _partition_of(cluster: Cluster, group: str) -> int:
    """The group's partition, as clients reckon it (Java's hash of the name)."""
    value = 0
    for letter in group:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    count = len(cluster.a.metadata(OFFSETS).partitions)
    return (value & 0x7FFFFFFF) % count


def _going(cluster: Cluster) -> bool:
    body = {"topics": None, "timeout": 30000}
    return bool(cluster.a.call("list_partition_reassignments", 0, body).body.topics)
