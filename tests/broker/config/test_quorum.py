"""Who are the controllers, as `controller.quorum.voters` says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.broker.config import BrokerConfig, ConfigError, load
from barnabas.broker.config.quorum import Voter, replication, voters_of

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), (Voter(7, "", 0),)),
        (("1@host:9093",), (Voter(1, "host", 9093),)),
        (("7@[::1]:1",), (Voter(7, "::1", 1),)),
        (("2@b:2", "1@a:1"), (Voter(1, "a", 1), Voter(2, "b", 2))),
    ],
)
def test_they_are_the_voters_or_this_node_itself(entries, expected):
    assert voters_of(BrokerConfig(node_id=7, controller_quorum_voters=entries)) == expected


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (("1@a:1", "2@c:3", "1@b:2"), "node 1 is named twice"),
        (("host:9093",), "write it as ID@HOST:PORT"),
        (("x@host:9093",), "write it as ID@HOST:PORT"),
        (("1@9093",), "write it as ID@HOST:PORT"),
        (("1@host:",), "'' is no port"),
        (("1@host:0",), "'0' is no port"),
        (("1@host:65536",), "'65536' is no port"),
        (("1@host:9²",), "'9²' is no port"),
    ],
)
def test_what_names_nobody_is_refused(entries, told):
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters=") as caught:
        voters_of(BrokerConfig(controller_quorum_voters=entries))
    assert told in str(caught.value)


OF_A_CLUSTER = {
    "listeners": "PLAINTEXT://:9092,BROKERS://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "barnabas.cluster.secret.file": "secret",
    "barnabas.cluster.id": "c",
    "node.id": "2",
}


@pytest.mark.parametrize(
    "settings",
    [
        {"process.roles": "broker", "controller.quorum.voters": "1@a:1"},
        {"process.roles": "broker,controller", "controller.quorum.voters": "2@a:9093"},
        {"controller.quorum.voters": "2@a:1", "listeners": "PLAINTEXT://:9092,BROKERS://:0"},
        {"controller.quorum.voters": "2@a:1", "advertised.listeners": "PLAINTEXT://a:9092,BROKERS://a:1"},
        {"process.roles": "controller,broker"},
        {"controller.quorum.voters": "1@a:1", "controller.quorum.bootstrap.servers": "a:1"},
        {"process.roles": "", "controller.quorum.voters": "1@a:1"},
        {"process.roles": "broker", "controller.quorum.bootstrap.servers": "a:1, [::1]:9093"},
    ],
)
def test_roles_that_are_so_are_taken(settings):
    assert load(overrides=OF_A_CLUSTER | settings).warnings == ()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"process.roles": "controller"}, "every node is a broker here, the controller too; write broker,controller"),
        (
            {"process.roles": "broker,controller", "controller.quorum.voters": "1@a:1"},
            "controller.quorum.voters names node 1, and this is node 2; write broker",
        ),
        ({"process.roles": "broker"}, "this node, 2, is to be the controller, too; write broker,controller, or"),
        (
            {"process.roles": "broker", "controller.quorum.voters": "2@a:9093"},
            "this node, 2, is to be the controller, too; write broker,controller, or",
        ),
        (
            {"controller.quorum.voters": "2@a:1"},
            "by controller.quorum.voters the controller of that id listens for brokers at a:1, and BROKERS of "
            "this node at port 9093; give it a node.id of its own, or the controller's port",
        ),
        (
            {"controller.quorum.bootstrap.servers": "a:1, b:1"},
            "write process.roles=broker, too, and these are asked who the controllers are; a controller names all of "
            "them itself: controller.quorum.voters=ID@a:1",
        ),
        (
            {"controller.quorum.bootstrap.servers": "a:1, b:1", "process.roles": "broker,controller"},
            "makes this node, 2, a controller, and a controller is told all of them by id; write "
            "controller.quorum.voters=ID@a:1, an entry for each, the same for all controllers",
        ),
        (
            {"controller.quorum.bootstrap.servers": "a:1", "process.roles": "broker,controller"},
            "write controller.quorum.voters=2@a:1, an entry for each",
        ),
        (
            {"controller.quorum.bootstrap.servers": "a:1, b", "process.roles": "broker"},
            "write 'b' as HOST:PORT, such as 127.0.0.1:9093",
        ),
        (
            {"controller.quorum.bootstrap.servers": "a:1", "process.roles": "broker", "barnabas.cluster.id": ""},
            "write the cluster.id that meta.properties of a controller has",
        ),
    ],
)
def test_roles_that_are_not_so_are_refused(settings, told):
    with pytest.raises(ConfigError) as caught:
        load(overrides=OF_A_CLUSTER | settings)
    assert told in str(caught.value)


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_three_copies_where_there_are_three_brokers(brokers, replicas, in_sync):
    told = replication(brokers)
    assert told == {
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
    }


def test_the_compose_files_cluster_keeps_as_many_copies():
    settings = (ROOT / "docker-compose.yml").read_text().split("x-settings:")[1].split("services:")[0]
    told = {name.lower().replace("_", "."): value for name, value in re.findall(r"BARNABAS_(\w+): (\d+)\n", settings)}
    assert told == replication(3)


def test_each_broker_of_the_compose_files_cluster_keeps_its_data_in_a_named_volume_of_its_own():
    told = (ROOT / "docker-compose.yml").read_text()
    services, volumes = told.split("\nservices:\n")[1].split("\nvolumes:\n")
    directory = re.findall(r"^VOLUME (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[-1]
    for number in (1, 2, 3):
        (service,) = re.findall(rf"^  broker-{number}:\n((?:    .*\n)+)", services, re.MULTILINE)
        assert f"      - data-{number}:{directory}\n" in service
        assert f"  data-{number}:\n" in volumes


def test_kafkas_variable_for_the_cluster_is_taken():
    def known(**environment):
        return load(environment=environment, properties="barnabas.cluster.id=of-the-file").config.barnabas_cluster_id

    assert known() == known(CLUSTER_ID="") == "of-the-file"
    assert known(CLUSTER_ID="kafkas") == "kafkas"
    assert known(CLUSTER_ID="kafkas", BARNABAS_CLUSTER_ID="ours") == "ours"


@pytest.mark.parametrize("longest", ["replica.lag.time.max.ms", "replica.socket.timeout.ms"])
def test_a_leader_keeps_no_request_for_longer_than_a_follower_may_be_silent(longest: str) -> None:
    alone = {"controller.quorum.voters": "2@a:9093"}
    given = {**OF_A_CLUSTER, **alone, longest: "400"}
    with pytest.raises(ConfigError, match=re.escape(f"write at most {longest} (400)")):
        load(overrides=given)
    assert load(overrides={**given, "replica.fetch.wait.max.ms": "400"}).config.replica_fetch_wait_max_ms == 400
