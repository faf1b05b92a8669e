"""Answers of the group APIs that say one error for each thing asked; `failures` has the others, and says when."""

from __future__ import annotations

from typing import Any, Final

NO_OFFSET: Final = -1


def commit(request: Any, code: int) -> Any:
    """OffsetCommit has errors in partitions alone."""
    from barnabas.protocol.requests import offset_commit

    return offset_commit.OffsetCommitResponse(
        topics=[
            offset_commit.OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [offset_commit.OffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def fetch(request: Any, code: int) -> Any:
    """OffsetFetch: v1 has errors in partitions alone, v2 to v7 one for all, v8 on one for each group."""
    from barnabas.protocol.requests import offset_fetch

    topics = [
        offset_fetch.OffsetFetchResponseTopic(
            topic.name,
            [
                offset_fetch.OffsetFetchResponsePartition(index, NO_OFFSET, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    groups = [offset_fetch.OffsetFetchResponseGroup(group.group_id, error_code=code) for group in request.groups]
    return offset_fetch.OffsetFetchResponse(topics=topics, error_code=code, groups=groups)


def describe(request: Any, code: int) -> Any:
    """DescribeGroups: each group."""
    from barnabas.protocol.requests import describe_groups

    groups = [describe_groups.DescribedGroup(error_code=code, group_id=each) for each in request.groups]
    return describe_groups.DescribeGroupsResponse(groups=groups)


def describe_consumer(request: Any, code: int) -> Any:
    """ConsumerGroupDescribe: each group."""
    from barnabas.protocol.requests import consumer_group_describe

    groups = [consumer_group_describe.DescribedGroup(error_code=code, group_id=each) for each in request.group_ids]
    return consumer_group_describe.ConsumerGroupDescribeResponse(groups=groups)


def delete(request: Any, code: int) -> Any:
    """DeleteGroups: each group."""
    from barnabas.protocol.requests import delete_groups

    return delete_groups.DeleteGroupsResponse(
        results=[delete_groups.DeletableGroupResult(group_id, code) for group_id in request.groups_names]
    )
