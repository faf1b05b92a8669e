"""The features of a cluster (KIP-584): at which level each is, and which levels a release can read and write.

    recorded    once, as the metadata begins (`FeatureLevel`), at the highest levels that this release knows
    kept        by every start and every later controller: a feature that is not there is off, also one that a newer
                release knows; and a newer release goes on at the level that is there, so both are in one cluster
    compared    at every start, and when a broker is taken in: a level that is not known is refused, nothing is changed
    changed     by UpdateFeatures alone, where the controller and every registered broker know the level (`refusal`)

Levels are Kafka's. `metadata.version` stands for the metadata records: whoever adds a kind of them, or a field that has
to be understood, raises it, and writes neither below the level where it began. It is never lowered.

Source: `FeatureControlManager`, `QuorumFeatures` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import FeatureLevel, MetadataRecord
from barnabas.protocol.errors import ErrorCode, KafkaError

Spans: TypeAlias = Mapping[str, tuple[int, int]]
"""Feature to (lowest, highest) level that a release knows."""

ELIGIBLE: Final = "eligible.leader.replicas.version"
GROUPS: Final = "group.version"
METADATA: Final = "metadata.version"
METADATA_VERSION: Final = 30
"""The feature level of Apache Kafka 4.3."""
SUPPORTED_FEATURES: Final[Spans] = {ELIGIBLE: (0, 1), GROUPS: (0, 1), METADATA: (7, METADATA_VERSION)}
"""Of this release. No level of what is not served is told."""

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""How a level may change (`FeatureUpdate.UpgradeType`)."""


class Update(NamedTuple):
    """A level that somebody asks for, and how it may change."""

    feature: str
    level: int
    how: int = UPGRADE


def first_levels(image: Image, known: Spans) -> list[FeatureLevel]:
    """The levels that metadata begins with; nothing where it has levels already."""
    return [] if METADATA in image.features else [FeatureLevel(name, high) for name, (_, high) in known.items()]


def not_known(levels: Mapping[str, int], known: Iterable[tuple[str, int, int]]) -> str:
    """The features whose level is none of these (name, lowest, highest), told in words; empty where all are known.

    A feature that is off asks nothing of anybody.
    """
    spans = {name: (low, high) for name, low, high in known}
    wrong = []
    for name, level in sorted(levels.items()):
        low, high = spans.get(name, (0, 0))
        if level and not low <= level <= high:
            wrong.append(f"{name} {level}, known from {low} to {high}" if high else f"{name} {level}, not known")
    return "; ".join(wrong)


def as_triples(known: Spans) -> tuple[tuple[str, int, int], ...]:
    """As (name, lowest, highest), which is how a broker tells of them."""
    return tuple((name, low, high) for name, (low, high) in known.items())


def refusal(image: Image, asked: Update, known: Spans, node_id: int, controllers: Sequence[int]) -> str:
    """Why a feature cannot have this level, in Apache Kafka's words; empty where it can.

    Args:
        image: what was decided until now.
        asked: the level.
        known: what the controller knows.
        node_id: its id.
        controllers: all of them, by id; each is a broker, too.
    """
    name, level, how = asked
    current = image.features.get(name, 0)
    why = ""
    if how not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        why = "The controller does not support the given upgrade type."
    elif level < 0:
        why = "A feature version cannot be less than 0."
    else:
        why = _not_known_to_all(image, asked, known, node_id, controllers)
    if why:
        pass
    elif level < current and how == UPGRADE:
        why = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    elif level > current and how != UPGRADE:
        why = "Can't downgrade to a newer version."
    elif name not in known:
        why = f"Feature {name} not found."
    elif name == METADATA and level < current:
        lost = "Refusing to perform the requested downgrade because it might delete metadata information."
        forced = "Unsafe metadata downgrade is not supported in this version."
        reason = forced if how == UNSAFE_DOWNGRADE else lost
        return f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    return f"Invalid update version {level} for feature {name}. {why}" if why else ""


def new_levels(
    image: Image, updates: Sequence[Update], known: Spans, node_id: int, controllers: Sequence[int]
) -> list[MetadataRecord]:
    """What is to be written for all of these levels; the arguments are those of `refusal`.

    Raises:
        KafkaError: INVALID_UPDATE_VERSION, for the first that cannot be.
    """
    for one in updates:
        why = refusal(image, one, known, node_id, controllers)
        if why:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)
    return [FeatureLevel(one.feature, one.level) for one in updates if one.level != image.features.get(one.feature, 0)]


def _not_known_to_all(image: Image, asked: Update, known: Spans, node_id: int, controllers: Sequence[int]) -> str:
    """Who does not know a level: the controller, or a broker, also one that is not there now."""
    brokers = sorted(image.brokers.values(), key=lambda one: one.broker_id)
    all_of_them = [(f"Local controller {node_id}", as_triples(known))]
    all_of_them += [(f"Broker {one.broker_id}", one.features) for one in brokers]
    for who, triples in all_of_them:
        low, high = next(((low, high) for name, low, high in triples if name == asked.feature), (0, 0))
        if not low <= asked.level <= high:
            return f"{who} only supports versions {low}-{high}" if high else f"{who} does not support this feature."
    for one in controllers:
        if one not in image.brokers and one != node_id:
            return f"controller {one} has not registered, and may not support this feature"
    return ""
