"""V08 to V16, V42, V47, V68, V69: the answers of the group APIs at every version, field by field (see `versions`)."""

from typing import Any

from tests.conformance.raw import fitting, plain
from tests.conformance.scenario import Facts
from tests.conformance.scenarios.versions import coordinator, shaped, sweep, told, versions
from tests.conformance.world import World

WITHOUT_ID = 9
"""The last version of OffsetCommit and OffsetFetch that names topics."""


def ask(world: World, group: str, api: str, asked: range, body: dict[str, Any]) -> Facts:
    """Every version of a request that names no topic."""
    coordinator(world, group)
    return sweep(world, api, asked, lambda version, topic_id: body, world.topic())


@versions(
    8,
    "OffsetCommit v2 to v10, by nobody in particular: offset 5 of a partition",
    alone=True,
)
def v08(world: World) -> Facts:
    coordinator(world, "V08")
    topic = world.topic()

    def body(version: int, topic_id: Any) -> dict[str, Any]:
        parts = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}]
        named = {"topic_id": topic_id} if version > WITHOUT_ID else {"name": topic}
        return {
            "group_id": "V08",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{**named, "partitions": parts}],
        }

    return sweep(world, "offset_commit", range(2, 11), body, topic)


@versions(9, "OffsetFetch v1 to v10: one partition, which nobody committed to", alone=True)
def v09(world: World) -> Facts:
    coordinator(world, "V09")
    topic = world.topic()

    def body(version: int, topic_id: Any) -> dict[str, Any]:
        named = {"topic_id": topic_id} if version > WITHOUT_ID else {"name": topic}
        asked = [{**named, "partition_indexes": (0,)}]
        return {"group_id": "V09", "topics": asked, "groups": [{"group_id": "V09", "topics": asked}]}

    return sweep(world, "offset_fetch", range(1, 11), body, topic)


@versions(11, "JoinGroup v0 to v9 by a member that the group does not know", alone=True)
def v11(world: World) -> Facts:
    body = {
        "group_id": "V11",
        "session_timeout": 10000,
        "rebalance_timeout": 10000,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    return ask(world, "V11", "join_group", range(10), body)


@versions(12, "Heartbeat v0 to v4 by a member that the group does not know", alone=True)
def v12(world: World) -> Facts:
    body = {"group_id": "V12", "generation_id": 1, "member_id": "nobody"}
    return ask(world, "V12", "heartbeat", range(5), body)


@versions(13, "LeaveGroup v0 to v5 by a member that the group does not know", alone=True)
def v13(world: World) -> Facts:
    body = {"group_id": "V13", "member_id": "nobody", "members": [{"member_id": "nobody"}]}
    return ask(world, "V13", "leave_group", range(6), body)


@versions(14, "SyncGroup v0 to v5 by a member that the group does not know", alone=True)
def v14(world: World) -> Facts:
    body = {
        "group_id": "V14",
        "generation_id": 1,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    return ask(world, "V14", "sync_group", range(6), body)


@versions(15, "DescribeGroups v0 to v6: a group that is not there", alone=True)
def v15(world: World) -> Facts:
    return ask(world, "V15", "describe_groups", range(7), {"groups": ("V15",)})


@versions(
    16, "ListGroups v0 to v5, in every state and of every type: what is told of a group that is not there", alone=True
)
def v16(world: World) -> Facts:
    coordinator(world, "V16")
    facts: Facts = {}
    with world.connect() as peer:
        for version in range(6):
            body = {"states_filter": (), "types_filter": ()}
            reply = plain(peer.call("list_groups", version, fitting("list_groups", version, body)).body)
            reply["groups"] = [each for each in reply["groups"] if each["group_id"] == "V16"]
            facts[f"v{version}"] = told(shaped(reply, "V16"))
    return facts


@versions(42, "DeleteGroups v0 to v2: a group that is not there", alone=True)
def v42(world: World) -> Facts:
    return ask(world, "V42", "delete_groups", range(3), {"groups_names": ("V42",)})


@versions(47, "OffsetDelete v0 of a group that is not there", alone=True)
def v47(world: World) -> Facts:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    return ask(world, "V47", "offset_delete", range(1), {"group_id": "V47", "topics": topics})


@versions(68, "ConsumerGroupHeartbeat v0 and v1 by a member that the group does not know", alone=True)
def v68(world: World) -> Facts:
    body = {"group_id": "V68", "member_id": "nobody", "member_epoch": 1, "rebalance_timeout": -1}
    return ask(world, "V68", "consumer_group_heartbeat", range(2), body)


@versions(69, "ConsumerGroupDescribe v0 and v1: a group that is not there", alone=True)
def v69(world: World) -> Facts:
    return ask(world, "V69", "consumer_group_describe", range(2), {"group_ids": ("V69",)})
