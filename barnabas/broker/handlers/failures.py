"""What to answer when a handler itself failed: the same error wherever the answer has room for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.handlers import group_failures
from barnabas.protocol.api import RESPONSES, ApiKey
from barnabas.protocol.ids import NO_LEADER


def _produce(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import produce

    return produce.ProduceResponse(
        [
            produce.TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [produce.PartitionProduceResponse(part.index, code, -1) for part in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: Any, code: int) -> Any:
    """Once for all, from v7 on, and for each partition, which is all that earlier versions have."""
    from barnabas.protocol.requests import fetch

    return fetch.FetchResponse(
        error_code=code,
        responses=[
            fetch.FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [fetch.PartitionData(part.partition, code, -1, records=b"") for part in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _list_offsets(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import list_offsets

    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                topic.name,
                [list_offsets.ListOffsetsPartitionResponse(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import metadata

    topics = [metadata.MetadataResponseTopic(code, topic.name, topic.topic_id) for topic in request.topics or ()]
    return metadata.MetadataResponse(controller_id=NO_LEADER, topics=topics, error_code=code)


def _find_coordinator(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import find_coordinator

    if request.key:  # up to v3
        return find_coordinator.FindCoordinatorResponse(error_code=code)
    none = [find_coordinator.Coordinator(key, NO_LEADER, "", -1, code) for key in request.coordinator_keys]
    return find_coordinator.FindCoordinatorResponse(coordinators=none)


def _create_topics(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import create_topics

    return create_topics.CreateTopicsResponse(
        topics=[create_topics.CreatableTopicResult(topic.name, error_code=code) for topic in request.topics]
    )


def _delete_topics(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import delete_topics

    results = [delete_topics.DeletableTopicResult(topic.name, topic.topic_id, code) for topic in request.topics]
    results += [delete_topics.DeletableTopicResult(name, error_code=code) for name in request.topic_names]
    return delete_topics.DeleteTopicsResponse(responses=results)


def _delete_records(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import delete_records

    return delete_records.DeleteRecordsResponse(
        topics=[
            delete_records.DeleteRecordsTopicResult(
                topic.name,
                [
                    delete_records.DeleteRecordsPartitionResult(part.partition_index, -1, code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_for_leader_epoch(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import offset_for_leader_epoch

    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic.topic,
                [offset_for_leader_epoch.EpochEndOffset(code, part.partition) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _describe_configs(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import describe_configs

    return describe_configs.DescribeConfigsResponse(
        results=[
            describe_configs.DescribeConfigsResult(code, None, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )


def _create_partitions(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import create_partitions

    return create_partitions.CreatePartitionsResponse(
        results=[create_partitions.CreatePartitionsTopicResult(topic.name, code) for topic in request.topics]
    )


def _incremental_alter_configs(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import incremental_alter_configs

    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(code, None, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )


def _alter_configs(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import alter_configs

    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(code, None, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )


def _describe_log_dirs(request: Any, code: int) -> Any:
    """Once for all, from v3 on, and for the directory, which is all that earlier versions have."""
    from barnabas.protocol.requests import describe_log_dirs

    return describe_log_dirs.DescribeLogDirsResponse(
        error_code=code, results=[describe_log_dirs.DescribeLogDirsResult(code)]
    )


def _elect_leaders(request: Any, code: int) -> Any:
    """Once for all, from v1 on, and for each partition."""
    from barnabas.protocol.requests import elect_leaders

    return elect_leaders.ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic.topic, [elect_leaders.PartitionResult(index, code, None) for index in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _alter_partition_reassignments(request: Any, code: int) -> Any:
    """Once for all, and for each partition, which is where clients look."""
    from barnabas.protocol.requests import alter_partition_reassignments as altered

    return altered.AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=None,
        responses=[
            altered.ReassignableTopicResponse(
                topic.name,
                [altered.ReassignablePartitionResponse(part.partition_index, code, None) for part in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _describe_producers(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import describe_producers

    return describe_producers.DescribeProducersResponse(
        topics=[
            describe_producers.TopicResponse(
                topic.name, [describe_producers.PartitionResponse(index, code) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe_topic_partitions(request: Any, code: int) -> Any:
    from barnabas.protocol.requests import describe_topic_partitions

    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        topics=[
            describe_topic_partitions.DescribeTopicPartitionsResponseTopic(code, topic.name) for topic in request.topics
        ]
    )


_BY_ITEM: Final[dict[int, Callable[[Any, int], Any]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: group_failures.commit,
    ApiKey.OFFSET_FETCH: group_failures.fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.DESCRIBE_GROUPS: group_failures.describe,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_GROUPS: group_failures.delete,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.CONSUMER_GROUP_DESCRIBE: group_failures.describe_consumer,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
}


def error_response(api_key: int, request: Any, code: int) -> Any:
    """An answer to `request` that says `code` for all of it."""
    by_item = _BY_ITEM.get(api_key)
    return RESPONSES[api_key](error_code=code) if by_item is None else by_item(request, code)
