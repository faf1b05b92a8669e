"""What one of three brokers is asked that is another one's: settings of a broker, the producers of a log, records."""

from __future__ import annotations

from itertools import pairwise

import pytest

from barnabas.broker.cluster.image import BROKER_RESOURCE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.node.cluster import Cluster


@pytest.fixture
def three():
    return Cluster()


def alter(three, asked, name, value="7000"):
    change = AlterableConfig("log.retention.ms", 0, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER_RESOURCE, name, [change])])
    (one,) = three.ask(asked, request, 1).responses
    return one.error_code, one.error_message


def retentions(three):
    return [node.core.config.log_retention_ms for node in three.nodes.values()]


def test_every_broker_is_given_settings_of_its_own(three):
    before = retentions(three)[0]
    for node_id in three.nodes:
        assert alter(three, node_id, str(node_id), f"{node_id}000") == (ErrorCode.NONE, None)
        three.until(lambda node_id=node_id: three[node_id].core.config.log_retention_ms == node_id * 1000)
        assert retentions(three) == [each * 1000 if each <= node_id else before for each in three.nodes]
    assert alter(three, 2, "", "9000") == (ErrorCode.NONE, None)
    three.advance(1000)
    assert retentions(three) == [1000, 2000, 3000], "a broker's own come before those of all"


@pytest.mark.parametrize("asked", [1, 3])
def test_a_brokers_settings_are_changed_by_asking_itself(three, asked):
    told = f"Unexpected broker id, expected {asked} or empty string, but received "
    for name in ("2", "99", "x"):
        assert alter(three, asked, name) == (ErrorCode.INVALID_REQUEST, told + name)


def test_a_follower_tells_the_producers_it_remembers(three):
    three.create(replicas={0: [2, 3]})
    assert three.put(b"one").error_code == ErrorCode.NONE
    for node_id, code in ((2, ErrorCode.NONE), (3, ErrorCode.NONE), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        (topic,) = three.ask(node_id, DescribeProducersRequest([TopicRequest("t", [0])]), 0).topics
        assert topic.partitions[0].error_code == code


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("replica_id", [-1, -2, -3])
def test_a_follower_serves_consumers_and_debuggers_from_version_11_on(three, replica_id, version):
    three.create(replicas={0: [2, 3]})
    assert three.put(b"one").error_code == ErrorCode.NONE
    part = FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
    request = FetchRequest(replica_id=replica_id, min_bytes=0, topics=[FetchTopic("t", ZERO_UUID, [part])])
    (topic,) = three.ask(3, request, version).responses
    refused = version == 10 and replica_id != -3
    assert topic.partitions[0].error_code == (ErrorCode.NOT_LEADER_OR_FOLLOWER if refused else ErrorCode.NONE)


def test_of_many_that_the_controller_does_not_answer_each_is_told_in_a_step_of_its_own(three):
    lost = []
    three[2].core.services.forward = lambda request, done, version: lost.append(done)
    request = CreateTopicsRequest([CreatableTopic(f"t{number}", 1, 1) for number in range(3)])
    answers = [three.send(2, request, 7) for _ in range(10)]
    for done in lost:
        done(None)
    told = [sum(answer.done for answer in answers)]
    while three[2].step():
        told.append(sum(answer.done for answer in answers))
    assert [after - before for before, after in pairwise(told) if after > before] == [1] * 10
    assert told[0] == 0, "the step in which the way to the controller was lost"
    codes = {topic.error_code for answer in answers for topic in answer.response.topics}
    assert codes == {ErrorCode.NOT_CONTROLLER}
