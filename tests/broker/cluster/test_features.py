"""Levels of features: which somebody does not know, with what metadata begins, and which may be asked for."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.features import (
    ELIGIBLE,
    GROUPS,
    METADATA,
    SAFE_DOWNGRADE,
    SUPPORTED_FEATURES,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    Spans,
    Update,
    as_triples,
    first_levels,
    not_known,
    refusal,
)
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import FeatureLevel, RegisterBroker

KNOWN = (("group.version", 0, 1), ("metadata.version", 7, 30))
NEXT = {**SUPPORTED_FEATURES, METADATA: (7, 31), "next.version": (0, 1)}
"""The release after this one."""


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ({}, ""),
        ({"metadata.version": 7, "group.version": 1}, ""),
        ({"metadata.version": 30, "share.version": 0}, ""),
        ({"metadata.version": 31}, "metadata.version 31, known from 7 to 30"),
        ({"metadata.version": 6}, "metadata.version 6, known from 7 to 30"),
        (
            {"share.version": 1, "group.version": 2},
            "group.version 2, known from 0 to 1; share.version 1, not known",
        ),
    ],
)
def test_a_level_is_within_what_is_known_or_told(levels: dict[str, int], told: str) -> None:
    assert not_known(levels, KNOWN) == told


def test_metadata_begins_at_the_highest_levels_and_is_left_alone_afterwards() -> None:
    image = Image()
    image.apply(first_levels(image, SUPPORTED_FEATURES))
    assert image.features == {ELIGIBLE: 1, GROUPS: 1, METADATA: 30}
    assert not not_known(image.features, as_triples(SUPPORTED_FEATURES))
    assert first_levels(image, NEXT) == [], "a newer release raises nothing, and begins nothing of its own"
    image.apply([FeatureLevel(GROUPS, 0)])
    assert image.features == {ELIGIBLE: 1, METADATA: 30}, "what is off is not there"
    assert first_levels(image, SUPPORTED_FEATURES) == [], "and a start does not put it back"


def cluster(*knowing: Spans) -> Image:
    """Metadata of this release, and brokers 1, 2 ... that know these levels; the last is fenced."""
    image = Image()
    image.apply(first_levels(image, SUPPORTED_FEATURES))
    for number, known in enumerate(knowing, 1):
        image.apply([RegisterBroker(number, 0, bytes(16), (), None, number == len(knowing), as_triples(known))])
    return image


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Update(METADATA, 31), ""),
        (Update(METADATA, 30), ""),
        (Update("next.version", 1), ""),
        (Update(GROUPS, 0, SAFE_DOWNGRADE), ""),
        (Update(GROUPS, 0, UNSAFE_DOWNGRADE), ""),
        (Update(METADATA, 32), "Local controller 1 only supports versions 7-31"),
        (Update("missing", 1), "Local controller 1 does not support this feature."),
        (Update("missing", 0), "Feature missing not found."),
        (Update(METADATA, -1), "A feature version cannot be less than 0."),
        (Update(METADATA, 30, 4), "The controller does not support the given upgrade type."),
        (Update(METADATA, 31, SAFE_DOWNGRADE), "Can't downgrade to a newer version."),
        (
            Update(GROUPS, 0, UPGRADE),
            "Can't downgrade the version of this feature without setting the upgrade type to ",
        ),
        (Update(METADATA, 29, SAFE_DOWNGRADE), "it might delete metadata information."),
        (Update(METADATA, 29, UNSAFE_DOWNGRADE), "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_a_level_may_be_asked_for_or_is_refused(asked: Update, why: str) -> None:
    told = refusal(cluster(NEXT, NEXT, NEXT), asked, NEXT, 1, (1, 2, 3))
    assert why in told
    assert bool(told) == bool(why)


def test_what_brokers_know_outlives_a_snapshot() -> None:
    image, again = cluster(NEXT, SUPPORTED_FEATURES), Image()
    again.apply(image.to_records())
    assert again.brokers == image.brokers
    assert again.brokers[1].features == as_triples(NEXT)
    assert again.features == image.features


def test_every_broker_and_controller_must_know_a_level_one_that_is_away_too() -> None:
    up = Update(METADATA, 31)
    older = cluster(NEXT, NEXT, SUPPORTED_FEATURES)
    assert refusal(older, up, NEXT, 1, (1,)).endswith("Broker 3 only supports versions 7-30")
    first = cluster(NEXT, {}, NEXT)
    assert refusal(first, up, NEXT, 1, (1,)).endswith("Broker 2 does not support this feature.")
    two = cluster(NEXT, NEXT)
    assert refusal(two, up, NEXT, 1, (1, 2)) == ""
    assert refusal(two, up, NEXT, 1, (1, 2, 3)).endswith(
        "controller 3 has not registered, and may not support this feature"
    )
