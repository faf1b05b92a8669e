"""U01 and U02: levels of features are raised and lowered (UpdateFeatures, KIP-584, KIP-1022), and what follows."""

import re

from tests.conformance.recordings import recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import World, error

UPGRADE, SAFE, UNSAFE = 1, 2, 3
GROUPS, ELIGIBLE, METADATA = "group.version", "eligible.leader.replicas.version", "metadata.version"


def update(world: World, *changes: tuple[str, int, int], dry: bool = False, version: int = 2) -> str:
    """Ask for levels, and tell the answer: error and text, of the whole and, up to v1, of each feature."""
    updates = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in changes]
    body = {"timeout": 5000, "feature_updates": updates, "validate_only": dry}
    found = world.call("update_features", version, body).body
    each = [f"{one.feature}: {error(one.error_code)}" for one in getattr(found, "results", ())]
    return "; ".join([f"{error(found.error_code)}, {found.error_message}", *each])


def levels(world: World, *names: str) -> str:
    """The levels in force, as a client is told them; one that is off is not told of."""
    found = world.call("api_versions", 4, {"client_software_name": "me", "client_software_version": "1"}).body
    told = {str(one.name): one.max_version_level for one in found.finalized_features}
    return ", ".join(f"{name} {told.get(name, 'not told')}" for name in names)


def in_force(world: World, name: str, level: str) -> None:
    """Wait until a client is told this level: a broker hears of it a moment after the answer."""
    world.wait(lambda: levels(world, name) == f"{name} {level}", f"{name} {level}")


def epoch(world: World) -> int:
    """At which offset of the metadata the levels are those that are told."""
    body = {"client_software_name": "me", "client_software_version": "1"}
    return int(world.call("api_versions", 4, body).body.finalized_features_epoch)


@scenario(
    "U01",
    "UpdateFeatures, looked at only: metadata.version at each level, up, down and down at any price; two at once",
    recorded("U01"),
)
def u01(world: World) -> Facts:
    facts: Facts = {}
    for kind, name in ((UPGRADE, "up"), (SAFE, "down"), (UNSAFE, "down at any price")):
        for level in range(6, 32):
            text = re.sub(rf"\b{level}(?= for|\. )", "N", update(world, (METADATA, level, kind), dry=True))
            facts.setdefault(f"{name}: {text}", "")
            facts[f"{name}: {text}"] += f" {level}"
    groups, eligible = (GROUPS, 0, SAFE), (ELIGIBLE, 0, SAFE)
    return {
        **{name: told.strip() for name, told in facts.items()},
        "groups down": update(world, groups, dry=True),
        "groups down as up": update(world, (GROUPS, 0, UPGRADE), dry=True),
        "groups down at any price": update(world, (GROUPS, 0, UNSAFE), dry=True),
        "as it is, as down": update(world, (GROUPS, 1, SAFE), dry=True),
        "groups and eligible": update(world, groups, eligible, dry=True),
        "groups and eligible, v1": update(world, groups, eligible, dry=True, version=1),
        "groups, and what is not": update(world, groups, ("no.such.feature", 1, UPGRADE), dry=True),
        "too high": update(world, (GROUPS, 2, UPGRADE), dry=True),
        "in force": levels(world, GROUPS, ELIGIBLE, METADATA),
    }


@scenario(
    "U02",
    "group.version is lowered and raised: who is told, what ConsumerGroupHeartbeat says meanwhile; all or nothing",
    recorded("U02"),
    alone=True,
)
def u02(world: World) -> Facts:
    group = f"{world.fresh()}-u02"
    coordinator(world, group)

    def beat() -> str:
        body = {
            "group_id": group,
            "member_id": "A",
            "rebalance_timeout": 5000,
            "subscribed_topic_names": ("missing",),
            "topic_partitions": (),
        }
        return error(world.call("consumer_group_heartbeat", 1, body).body.error_code)

    def describe() -> str:
        found = world.call("consumer_group_describe", 1, {"group_ids": ("nobody",)}).body.groups[0]
        return f"{error(found.error_code)}, {found.error_message}"

    before = epoch(world)
    facts = {"before": levels(world, GROUPS), "heartbeat before": beat()}
    facts["lowered, looked at only"] = update(world, (GROUPS, 0, SAFE), dry=True)
    facts["still"] = levels(world, GROUPS)
    try:
        facts["one good, one bad"] = update(world, (GROUPS, 0, SAFE), (METADATA, 31, UPGRADE))
        facts["nothing changed"] = levels(world, GROUPS)
        facts["lowered"] = update(world, (GROUPS, 0, SAFE))
        world.wait(lambda: not levels(world, GROUPS).endswith(" 1"), "the lower level")
        facts["told"] = levels(world, GROUPS)
        facts["a later epoch"] = str(epoch(world) > before)
        facts["heartbeat"] = beat()
        facts["describe"] = describe()
        facts["lowered again"] = update(world, (GROUPS, 0, SAFE))
        facts["raised, called a downgrade"] = update(world, (GROUPS, 1, SAFE))
    finally:
        facts["raised"] = update(world, (GROUPS, 1, UPGRADE), version=1)
        in_force(world, GROUPS, "1")
    facts["heartbeat after"] = beat()
    return facts
