"""The admin client against a real broker in memory."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from barnabas import Admin, Broker, Producer, aio
from barnabas.client.admin import BROKER
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def test_topics_are_made_grown_listed_and_deleted(admin: Admin) -> None:
    admin.create_topic("made", partitions=2, config={"retention.ms": 1000, "cleanup.policy": "compact"})
    assert "made" in admin.list_topics()
    admin.create_partitions("made", 3)
    info = admin.describe_topics("made")["made"]
    assert [part.partition for part in info.partitions] == [0, 1, 2]
    assert all(part.leader >= 0 for part in info.partitions)
    assert admin.describe_configs("made")["retention.ms"] == "1000"
    admin.delete_topics("made")
    assert "made" not in admin.list_topics()


def test_making_a_topic_brings_no_deleted_one_back(admin: Admin) -> None:
    admin.create_topic("gone")
    admin.delete_topics("gone")
    admin.create_topic("made")  # renews what is known of "gone", too, and a broker makes what it is asked for
    assert admin.list_topics() == ["made"]


def test_what_a_broker_refuses_is_raised_with_its_number(admin: Admin) -> None:
    admin.create_topic("twice")
    admin.create_topic("twice", if_absent=True)
    for call, code in (
        (lambda: admin.create_topic("twice"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (lambda: admin.create_topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (lambda: admin.create_topic("bad", config={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (lambda: admin.delete_topics("absent"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: admin.describe_topics("absent"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: admin.create_partitions("twice", 1), ErrorCode.INVALID_PARTITIONS),
        (lambda: admin.delete_records({TopicPartition("absent", 0): 1}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code == code


def test_settings_are_changed_and_reset(admin: Admin) -> None:
    admin.create_topic("set")
    before = admin.describe_configs("set")["max.message.bytes"]
    admin.alter_configs("set", {"max.message.bytes": 5000})
    assert admin.describe_configs("set")["max.message.bytes"] == "5000"
    admin.alter_configs("set", reset=["max.message.bytes"])
    assert admin.describe_configs("set")["max.message.bytes"] == before


def test_records_are_deleted_up_to_an_offset(admin: Admin, broker: Broker) -> None:
    admin.create_topic("shrinking", partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(5):
            producer.send("shrinking", b"%d" % number).result(30)
    where = TopicPartition("shrinking", 0)
    assert admin.delete_records({where: 3}) == {where: 3}
    assert admin.delete_records({where: -1}) == {where: 5}
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({where: 9})


async def test_the_cluster_is_described(broker: Broker) -> None:
    async with aio.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        cluster = await admin.describe_cluster()
        ((node, host, port),) = cluster.brokers
        assert cluster.controller_id == node
        assert f"{host}:{port}" == broker.bootstrap_servers
        assert cluster.cluster_id
        assert "num.partitions" in await admin.describe_configs(str(node), kind=BROKER)


async def test_who_reaches_no_broker_hears_why() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, never listening: every connection is refused
        port = nobody.getsockname()[1]
        admin = aio.Admin(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=200)
        with pytest.raises(ClientTimeout, match=rf"within \d+ ms: cannot connect to 127.0.0.1:{port}: .*failed"):
            async with admin:
                await admin.list_topics()
        await admin.close()
