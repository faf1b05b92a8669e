"""Groups as an admin client sees them: who is in them, what they committed, how far behind they are.

The base of `AsyncAdmin` for groups. Each group is asked of its coordinator, which is looked for anew where it moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from barnabas.client.answers import check, error_of
from barnabas.client.arguments import checked_partitions, shown
from barnabas.client.consume.group.commits import (
    IDS_FROM,
    commit_request,
    fetch_request,
    fetch_together_request,
    highest_version,
    read_fetched,
    reader_of_commit,
    reader_of_fetch,
)
from barnabas.client.consume.group.coordinator import AGAIN, MOVED, find_request, find_several_request, read_found
from barnabas.client.consume.group.values import Identity, OffsetAndMetadata, Offsets, checked_offsets
from barnabas.client.group_views import GroupDescription, GroupListing, GroupMember, described, described_by_epochs
from barnabas.client.handle import Handle
from barnabas.net.config import ClientConfig
from barnabas.net.errors import ClientTimeout, ConfigError, Disconnected, FeatureMissing
from barnabas.net.host.connection import Client
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.requests.delete_groups import DeleteGroupsRequest
from barnabas.protocol.requests.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.requests.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.requests.list_groups import ListGroupsRequest
from barnabas.protocol.requests.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

_UNKNOWN_MS: Final = 1000
_DEAD: Final = "Dead"
_TOGETHER: Final = 500
"""So many groups are asked about in one request."""


class AsyncGroups(Handle):
    """The part of `AsyncAdmin` that groups have."""

    config: ClientConfig
    _client: Client

    async def list_groups(self, *, states: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[GroupListing]:
        """All groups that the brokers know, only those in one of these states, and of these kinds, if any are named."""
        for name, words in (("states", states), ("kinds", kinds)):
            if isinstance(words, str):
                raise ConfigError(f"{name}: {words!r} is one word; give a list of them: {name}=[{words!r}]")
        cluster = await self._client.refresh_metadata()
        request = ListGroupsRequest(list(states), list(kinds))
        answers = await asyncio.gather(*(self._client.send(node, request) for node in cluster.nodes))
        found = []
        for answer in answers:
            check(answer.error_code, "list_groups", None)
            found += [
                GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type)
                for each in answer.groups
            ]
        return sorted(found)

    async def describe_groups(self, *names: str) -> dict[str, GroupDescription]:
        """Who is in these groups, of either protocol, and what each member has.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED.
        """
        wanted = _checked_groups(names, "describe_groups")
        told = await self._ask_together(wanted, DescribeGroupsRequest, lambda answer: answer.groups)
        found = {
            name: described(group, node)
            for name, (node, group) in told.items()
            if not group.error_code and group.group_state != _DEAD
        }
        with suppress(FeatureMissing):
            others = [name for name in told if name not in found]
            told = await self._ask_together(others, ConsumerGroupDescribeRequest, lambda answer: answer.groups)
            found |= {
                name: described_by_epochs(group, node) for name, (node, group) in told.items() if not group.error_code
            }
        return {name: found.get(name) or await self._describe(name) for name in wanted}

    async def _describe(self, name: str) -> GroupDescription:
        def classic(answer: DescribeGroupsResponse) -> int:
            group = _only(answer.groups)
            # Below version 6 this is how an unknown one is told.
            return group.error_code or (ErrorCode.GROUP_ID_NOT_FOUND if group.group_state == _DEAD else 0)

        try:
            node, answer = await self._to_coordinator(name, DescribeGroupsRequest([name]), classic)
            return described(_only(answer.groups), node)
        except KafkaError as unknown:
            if unknown.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            try:
                node, answer = await self._to_coordinator(
                    name, ConsumerGroupDescribeRequest([name]), lambda answer: _only(answer.groups).error_code
                )
            except FeatureMissing:
                raise unknown.kept() from None
        return described_by_epochs(_only(answer.groups), node)

    async def delete_groups(self, *names: str) -> dict[str, KafkaError | None]:
        """Deletes groups without members, with their offsets; what became of each: None, or why not."""
        wanted = _checked_groups(names, "delete_groups")
        told = await self._ask_together(wanted, DeleteGroupsRequest, lambda answer: answer.results)
        answers: dict[str, KafkaError | None] = {}
        for name in wanted:
            if name in told and told[name][1].error_code not in AGAIN:
                answers[name] = error_of(told[name][1].error_code, f"group {name}", None)
                continue
            try:
                await self._to_coordinator(
                    name, DeleteGroupsRequest([name]), lambda answer: _only(answer.results).error_code
                )
                answers[name] = None
            except KafkaError as error:
                answers[name] = error.kept()
        return answers

    async def delete_group(self, name: str) -> None:
        """Deletes a group without members, with its offsets.

        Raises:
            KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
        """
        (error,) = (await self.delete_groups(name)).values()
        if error is not None:
            raise error

    async def remove_group_members(self, name: str, *members: GroupMember) -> dict[str, KafkaError | None]:
        """Removes members, all if none is named: their partitions go to others. A member that lives joins again.

        Returns:
            By member id, what became of each: None, or why not (UNKNOWN_MEMBER_ID).

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        (group,) = _checked_groups([name], "remove_group_members")
        going = members or (await self._describe(group)).members
        if not going:
            return {}
        told = [MemberIdentity(each.member_id, each.instance_id, "removed by an admin client") for each in going]
        request = LeaveGroupRequest(group, members=told)
        _, answer = await self._to_coordinator(group, request, lambda answer: int(answer.error_code))
        return {
            each.member_id: error_of(each.error_code, f"group {group}: member {each.member_id}", None)
            for each in answer.members
        }

    # ---- offsets ----------------------------------------------------------------------------------------------------

    async def group_offsets(
        self, name: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed, of these partitions or of all; partitions with nothing are left out."""
        (group,) = _checked_groups([name], "group_offsets")
        wanted = None if partitions is None else checked_partitions(partitions, "group_offsets")
        topics = None if wanted is None else {where.topic for where in wanted}
        cluster = self._client.cluster if topics is None else await self._client.refresh_metadata(topics)
        found: Offsets = {}

        def read(answer: Any) -> int:
            said, code = reader_of_fetch(cluster)(answer)
            found.update(said)
            return code

        request = fetch_request(group, wanted, lambda: cluster)
        # Where topics come by their ids alone, those that nobody named would have no names.
        version = IDS_FROM - 1 if topics is None else highest_version(cluster, topics)
        await self._to_coordinator(group, request, read, version)
        return dict(sorted(found.items()))

    async def offsets_of_groups(self, *names: str) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """What each of these groups, asked about together, has committed; partitions with nothing are left out."""
        wanted = _checked_groups(names, "offsets_of_groups")
        told = await self._ask_together(wanted, fetch_together_request, lambda answer: answer.groups, IDS_FROM - 1)
        found = {}
        for name in wanted:
            offsets, code = read_fetched(told[name][1], self._client.cluster) if name in told else ({}, -1)
            found[name] = await self.group_offsets(name) if code else dict(sorted(offsets.items()))
        return found

    async def alter_group_offsets(self, name: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Sets where a group goes on; it must have no members, which would go on where they are.

        A partition that is unknown may be made just now: it is asked for for a second.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID (it has members), UNKNOWN_TOPIC_OR_PARTITION.
            ConfigError: something that is no offset.
        """
        (group,) = _checked_groups([name], "alter_group_offsets")
        given = checked_offsets(offsets, "alter_group_offsets")
        topics = {where.topic for where in given}
        unknown_until_ms = self._client.now_ms() + _UNKNOWN_MS
        while True:
            cluster = await self._client.refresh_metadata(topics)
            unknown = next((where for where in given if cluster.partition(*where) is None), None)
            if unknown is None:
                break
            if self._client.now_ms() >= unknown_until_ms:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(unknown))
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)
        request, read = commit_request(lambda: Identity(group), given, cluster), reader_of_commit(cluster)
        try:
            await self._to_coordinator(
                group,
                request,
                lambda answer: read(answer)[1],
                highest_version(cluster, topics),
                of=lambda answer: f": commit of {read(answer)[0]}",
            )
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                told = f"group {group} has members, which go on where they are: stop them first"
                raise KafkaError(error.code, told) from None
            raise

    async def delete_group_offsets(self, name: str, *partitions: TopicPartition) -> None:
        """Forgets what a group has committed of these partitions.

        Raises:
            KafkaError: GROUP_SUBSCRIBED_TO_TOPIC (it reads the topic at present), GROUP_ID_NOT_FOUND.
        """
        (group,) = _checked_groups([name], "delete_group_offsets")
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for where in checked_partitions(partitions, "delete_group_offsets"):
            topic = topics.setdefault(where.topic, OffsetDeleteRequestTopic(where.topic))
            topic.partitions.append(OffsetDeleteRequestPartition(where.partition))

        def read(answer: Any) -> int:
            parts = [part.error_code for topic in answer.topics for part in topic.partitions]
            return int(answer.error_code or next(filter(None, parts), 0))

        await self._to_coordinator(group, OffsetDeleteRequest(group, list(topics.values())), read)

    # ---- inside -----------------------------------------------------------------------------------------------------

    async def _ask_together(
        self,
        groups: Sequence[str],
        ask: Callable[[list[str]], Any],
        parts: Callable[[Any], Iterable[Any]],
        max_version: int | None = None,
    ) -> dict[str, tuple[int, Any]]:
        """Asks each coordinator about all of its groups at once: by group, who was asked, and what was said of it.

        Groups whose coordinator is not known at the first question, or does not answer it, are left out, and so are all
        where there is but one: `_to_coordinator` asks about them, one by one, for as long as is needed.
        """
        found: dict[str, tuple[int, Any]] = {}
        ms = min(self.config.default_api_timeout_ms, self.config.request_timeout_ms)
        for at in range(0, len(groups) if len(groups) > 1 else 0, _TOGETHER):
            by_node: dict[int, list[str]] = {}
            with suppress(KafkaError):
                asked = await self._client.any_node()
                answer = await self._client.send(
                    asked.id, find_several_request(groups[at : at + _TOGETHER]), timeout_ms=ms
                )
                for each in answer.coordinators:
                    if not each.error_code and each.node_id in self._client.cluster.nodes:
                        by_node.setdefault(each.node_id, []).append(each.key)
            for node, names in by_node.items():
                with suppress(KafkaError):  # a connection that ended is one, too
                    answer = await self._client.send(node, ask(names), timeout_ms=ms, max_version=max_version)
                    found |= {each.group_id: (node, each) for each in parts(answer)}
        return found

    async def _to_coordinator(
        self,
        group: str,
        request: Any,
        read: Callable[[Any], int],
        max_version: int | None = None,
        *,
        of: Callable[[Any], str] = lambda _: "",
    ) -> tuple[int, Any]:
        """Asks a group's coordinator, again while it cannot answer yet; who that is, and what it said.

        `of` says what in an answer its error is about.

        Raises:
            KafkaError: a refusal.
            ClientTimeout: no answer within `default.api.timeout.ms`.
        """
        deadline_ms = self._client.now_ms() + self.config.default_api_timeout_ms
        node = -1
        trouble: BarnabasError | None = None
        while (left_ms := deadline_ms - self._client.now_ms()) > 0:
            try:
                node = await self._coordinator(group, left_ms) if node < 0 else node
                answer = await self._client.send(
                    node, request, timeout_ms=min(left_ms, self.config.request_timeout_ms), max_version=max_version
                )
                code = read(answer)
                error = error_of(code, f"group {group}{of(answer) if code else ''}", None)
            except Disconnected as gone:
                error, node = gone, -1
            except KafkaError as refused:
                error, node = refused, -1
            if error is None:
                return node, answer
            trouble = error
            if not isinstance(error, Disconnected) and error.code not in AGAIN:
                raise error
            node = -1 if error.code in MOVED else node
            await asyncio.sleep(min(self.config.retry_backoff_ms, max(deadline_ms - self._client.now_ms(), 0)) / 1000)
        why = f": {trouble}" if trouble is not None else ""
        raise ClientTimeout(f"group {group}: no answer within {self.config.default_api_timeout_ms} ms{why}")

    async def _coordinator(self, group: str, timeout_ms: int) -> int:
        asked = await self._client.any_node(timeout_ms)
        found = read_found(await self._client.send(asked.id, find_request(group), timeout_ms=timeout_ms))
        check(found.error_code, f"group {group}", found.error_message)
        node: int = found.node_id
        if node not in self._client.cluster.nodes:
            await self._client.refresh_metadata((), timeout_ms)
        return node


def _only(answers: list[Any]) -> Any:
    if len(answers) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a question about one group has {len(answers)} answers")
    return answers[0]


def _checked_groups(names: Iterable[Any], call: str) -> tuple[str, ...]:
    found = tuple(names)
    for name in found:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{call}: {shown(name)} is no name of a group; give strings, one by one")
    return found
