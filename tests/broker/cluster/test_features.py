"""Levels of features: which somebody does not know."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.features import SUPPORTED_FEATURES, not_known, not_known_here

KNOWN = (("group.version", 0, 1), ("metadata.version", 7, 30))


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


def test_this_release_knows_what_it_writes() -> None:
    assert not not_known_here({name: high for name, (_, high) in SUPPORTED_FEATURES.items()})
    assert not_known_here({"metadata.version": SUPPORTED_FEATURES["metadata.version"][1] + 1})
