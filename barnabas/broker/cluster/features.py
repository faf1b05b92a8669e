"""The features of a cluster (KIP-584): at which level each is, and which levels this release can read and write.

    recorded    once, by the first controller that finds none (`FeatureLevel`), at the highest level it knows
    compared    at every start, and when a broker is taken in: a level that is not known is refused, nothing is changed
    kept        a newer release goes on at the level that is there, so brokers of both are in one cluster

Levels are Kafka's. `metadata.version` stands for the metadata records: whoever adds a kind of them, or a field that has
to be understood, raises it, and writes neither below the level where it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

METADATA_VERSION: Final = 30
"""The feature level of Apache Kafka 4.3."""
SUPPORTED_FEATURES: Final = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "metadata.version": (7, METADATA_VERSION),
}
"""Feature to (lowest, highest) level, which is the one it is given. No level of what is not served is told."""


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


def not_known_here(levels: Mapping[str, int]) -> str:
    """The same of this release."""
    return not_known(levels, ((name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()))
