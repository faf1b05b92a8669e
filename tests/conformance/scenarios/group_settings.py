"""K25 and K26: the settings of a group (resource type 32): told, listed, set, replaced, refused."""

from collections.abc import Sequence
from typing import Any

from tests.conformance.raw import plain
from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import World, error

GROUP = 32
SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(world: World, group: str, name: str, value: str | None, operation: int = SET, **more: Any) -> str:
    """IncrementalAlterConfigs of one setting; the error in words."""
    change = {"name": name, "config_operation": operation, "value": value}
    body = {
        "resources": [{"resource_type": GROUP, "resource_name": group, "configs": [change]}],
        "validate_only": False,
    }
    return error(world.call("incremental_alter_configs", 1, body | more).body.responses[0].error_code)


def replace(world: World, group: str, **values: str | None) -> str:
    """AlterConfigs; the error in words."""
    pairs = [{"name": name.replace("_", "."), "value": value} for name, value in values.items()]
    body = {"resources": [{"resource_type": GROUP, "resource_name": group, "configs": pairs}], "validate_only": False}
    return error(world.call("alter_configs", 2, body).body.responses[0].error_code)


def told(world: World, group: str, names: Sequence[str] | None = None) -> dict[str, str]:
    """DescribeConfigs: value, type, source and synonyms (value and source) by name; the error, if any, of no name."""
    body = {
        "resources": [{"resource_type": GROUP, "resource_name": group, "configuration_keys": names}],
        "include_synonyms": True,
        "include_documentation": False,
    }
    result = world.call("describe_configs", 4, body).body.results[0]
    if int(result.error_code):
        return {"": error(result.error_code)}
    return {
        one.name: f"{one.value} of {one.config_type} from {one.config_source}"
        f"{', read only' * one.read_only}{', secret' * one.is_sensitive}; "
        + ", ".join(f"{each.name}={each.value} from {each.source}" for each in one.synonyms)
        for one in sorted(result.configs, key=lambda one: one.name)
    }


def lists(world: World, group: str) -> str:
    """Whether ListConfigResources tells of a group."""
    found = plain(world.call("list_config_resources", 1, {"resource_types": (GROUP,)}).body)["config_resources"]
    return str({"resource_name": group, "resource_type": GROUP} in found)


@scenario(
    "K25",
    "DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources of a group",
    {
        "consumer.assignment.interval.ms": "1000 of 3 from 5; group.consumer.assignment.interval.ms=1000 from 5",
        "consumer.heartbeat.interval.ms": "5000 of 3 from 5; group.consumer.heartbeat.interval.ms=5000 from 5",
        "consumer.session.timeout.ms": "45000 of 3 from 5; group.consumer.session.timeout.ms=45000 from 5",
        "share.assignment.interval.ms": "1000 of 3 from 5; group.share.assignment.interval.ms=1000 from 5",
        "share.auto.offset.reset": "latest of 2 from 5; share.auto.offset.reset=latest from 5",
        "share.delivery.count.limit": "5 of 3 from 5; group.share.delivery.count.limit=5 from 5",
        "share.heartbeat.interval.ms": "5000 of 3 from 5; group.share.heartbeat.interval.ms=5000 from 5",
        "share.isolation.level": "read_uncommitted of 2 from 5; share.isolation.level=read_uncommitted from 5",
        "share.partition.max.record.locks": "2000 of 3 from 5; group.share.partition.max.record.locks=2000 from 5",
        "share.record.lock.duration.ms": "30000 of 3 from 5; group.share.record.lock.duration.ms=30000 from 5",
        "share.renew.acknowledge.enable": "true of 1 from 5; share.renew.acknowledge.enable=true from 5",
        "share.session.timeout.ms": "45000 of 3 from 5; group.share.session.timeout.ms=45000 from 5",
        "streams.assignment.interval.ms": "1000 of 3 from 5; group.streams.assignment.interval.ms=1000 from 5",
        "streams.heartbeat.interval.ms": "5000 of 3 from 5; group.streams.heartbeat.interval.ms=5000 from 5",
        "streams.initial.rebalance.delay.ms": "3000 of 3 from 5; group.streams.initial.rebalance.delay.ms=3000 from 5",
        "streams.num.standby.replicas": "0 of 3 from 5; group.streams.num.standby.replicas=0 from 5",
        "streams.session.timeout.ms": "45000 of 3 from 5; group.streams.session.timeout.ms=45000 from 5",
        "listed": "False",
        "only validated": "NONE",
        "set": "NONE",
        "and one of share groups": "NONE",
        "set consumer.session.timeout.ms": "50000 of 3 from 8; consumer.session.timeout.ms=50000 from 8, "
        "group.consumer.session.timeout.ms=45000 from 5",
        "set share.auto.offset.reset": "earliest of 2 from 8; share.auto.offset.reset=earliest from 8, "
        "share.auto.offset.reset=latest from 5",
        "listed then": "True",
        "unknown name told": "{}",
        "replaced": "NONE",
        "replaced consumer.heartbeat.interval.ms": "6000 of 3 from 8; consumer.heartbeat.interval.ms=6000 from 8, "
        "group.consumer.heartbeat.interval.ms=5000 from 5",
        "replaced consumer.session.timeout.ms": "45000 of 3 from 5; group.consumer.session.timeout.ms=45000 from 5",
        "deleted": "NONE",
        "listed in the end": "False",
        "no name": "{'': 'INVALID_REQUEST(42)'}",
    },
)
def k25(world: World) -> Facts:
    group = world.fresh()
    facts = {f"{name}": text for name, text in told(world, group).items()}
    facts["listed"] = lists(world, group)
    facts["only validated"] = alter(world, group, SESSION, "50000", validate_only=True)
    facts["set"] = alter(world, group, SESSION, "50000")
    facts["and one of share groups"] = alter(world, group, "share.auto.offset.reset", "earliest")
    # Apache Kafka answers when its controller knows; its broker, who tells, hears of it a little later.
    world.wait(lambda: "earliest" in str(told(world, group)), "the setting")
    facts |= {f"set {name}": text for name, text in told(world, group, (SESSION, "share.auto.offset.reset")).items()}
    facts["listed then"] = lists(world, group)
    facts["unknown name told"] = str(told(world, group, ("nothing",)))
    facts["replaced"] = replace(world, group, consumer_heartbeat_interval_ms="6000")
    world.wait(lambda: "50000" not in str(told(world, group)), "the settings replaced")
    facts |= {f"replaced {name}": text for name, text in told(world, group, (SESSION, BEAT)).items()}
    facts["deleted"] = alter(world, group, BEAT, None, DELETE)
    world.wait(lambda: "6000" not in str(told(world, group)), "the setting deleted")
    facts["listed in the end"] = lists(world, group)
    facts["no name"] = str(told(world, ""))
    return facts


@scenario(
    "K26",
    "settings that a group cannot have, by IncrementalAlterConfigs and AlterConfigs",
    {
        "consumer.session.timeout.ms=999": "INVALID_CONFIG(40)",
        "consumer.session.timeout.ms=60001": "INVALID_CONFIG(40)",
        "consumer.session.timeout.ms=0": "INVALID_CONFIG(40)",
        "consumer.session.timeout.ms=abc": "INVALID_CONFIG(40)",
        "consumer.session.timeout.ms=": "INVALID_CONFIG(40)",
        "consumer.session.timeout.ms=None": "INVALID_REQUEST(42)",
        "consumer.session.timeout.ms=5000": "INVALID_CONFIG(40)",
        "consumer.heartbeat.interval.ms=499": "INVALID_CONFIG(40)",
        "consumer.heartbeat.interval.ms=15001": "INVALID_CONFIG(40)",
        "consumer.assignment.interval.ms=-1": "INVALID_CONFIG(40)",
        "consumer.assignment.interval.ms=15001": "INVALID_CONFIG(40)",
        "consumer.assignor.offload.enable=true": "INVALID_CONFIG(40)",
        "retention.ms=1": "INVALID_CONFIG(40)",
        "group.consumer.session.timeout.ms=50000": "INVALID_CONFIG(40)",
        "share.auto.offset.reset=soon": "INVALID_CONFIG(40)",
        "share.auto.offset.reset=by_duration:1h": "INVALID_CONFIG(40)",
        "share.isolation.level=x": "INVALID_CONFIG(40)",
        "share.renew.acknowledge.enable=x": "INVALID_CONFIG(40)",
        "share.record.lock.duration.ms=14999": "INVALID_CONFIG(40)",
        "share.record.lock.duration.ms=60001": "INVALID_CONFIG(40)",
        "share.delivery.count.limit=1": "INVALID_CONFIG(40)",
        "share.delivery.count.limit=11": "INVALID_CONFIG(40)",
        "share.partition.max.record.locks=99": "INVALID_CONFIG(40)",
        "share.partition.max.record.locks=4001": "INVALID_CONFIG(40)",
        "share.session.timeout.ms=44999": "INVALID_CONFIG(40)",
        "share.heartbeat.interval.ms=15001": "INVALID_CONFIG(40)",
        "share.assignment.interval.ms=15001": "INVALID_CONFIG(40)",
        "streams.num.standby.replicas=3": "INVALID_CONFIG(40)",
        "streams.initial.rebalance.delay.ms=-1": "INVALID_CONFIG(40)",
        "streams.session.timeout.ms=60001": "INVALID_CONFIG(40)",
        "streams.heartbeat.interval.ms=4999": "INVALID_CONFIG(40)",
        "streams.assignment.interval.ms=15001": "INVALID_CONFIG(40)",
        "appended": "INVALID_CONFIG(40)",
        "subtracted": "INVALID_CONFIG(40)",
        "unknown deleted": "NONE",
        "of no group": "INVALID_REQUEST(42)",
        "replaced by null": "INVALID_REQUEST(42)",
        "replaced by what is unknown": "INVALID_CONFIG(40)",
        "replaced, of no group": "INVALID_REQUEST(42)",
        "listed": "False",
    },
)
def k26(world: World) -> Facts:
    group = world.fresh()
    facts = {
        f"{name}={value}": alter(world, group, name, value)
        for name, value in [
            (SESSION, "999"),
            (SESSION, "60001"),
            (SESSION, "0"),
            (SESSION, "abc"),
            (SESSION, ""),
            (SESSION, None),
            (SESSION, "5000"),
            (BEAT, "499"),
            (BEAT, "15001"),
            ("consumer.assignment.interval.ms", "-1"),
            ("consumer.assignment.interval.ms", "15001"),
            ("consumer.assignor.offload.enable", "true"),
            ("retention.ms", "1"),
            ("group.consumer.session.timeout.ms", "50000"),
            ("share.auto.offset.reset", "soon"),
            ("share.auto.offset.reset", "by_duration:1h"),
            ("share.isolation.level", "x"),
            ("share.renew.acknowledge.enable", "x"),
            ("share.record.lock.duration.ms", "14999"),
            ("share.record.lock.duration.ms", "60001"),
            ("share.delivery.count.limit", "1"),
            ("share.delivery.count.limit", "11"),
            ("share.partition.max.record.locks", "99"),
            ("share.partition.max.record.locks", "4001"),
            ("share.session.timeout.ms", "44999"),
            ("share.heartbeat.interval.ms", "15001"),
            ("share.assignment.interval.ms", "15001"),
            ("streams.num.standby.replicas", "3"),
            ("streams.initial.rebalance.delay.ms", "-1"),
            ("streams.session.timeout.ms", "60001"),
            ("streams.heartbeat.interval.ms", "4999"),
            ("streams.assignment.interval.ms", "15001"),
        ]
    }
    facts["appended"] = alter(world, group, SESSION, "50000", APPEND)
    facts["subtracted"] = alter(world, group, SESSION, "50000", SUBTRACT)
    facts["unknown deleted"] = alter(world, group, "nothing", None, DELETE)
    facts["of no group"] = alter(world, "", SESSION, "50000")
    facts["replaced by null"] = replace(world, group, consumer_session_timeout_ms=None)
    facts["replaced by what is unknown"] = replace(world, group, nothing="1")
    facts["replaced, of no group"] = replace(world, "", consumer_session_timeout_ms="50000")
    facts["listed"] = lists(world, group)
    return facts
