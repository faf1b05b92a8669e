"""All scenarios of the cluster; importing this package puts them on the list (`acts.CLUSTER`)."""

from tests.conformance.cluster.scenarios import (
    addressed,
    coordinators,
    killed,
    losses,
    moved,
    placement,
    racks,
    reassigned,
    stalled,
    told,
)

__all__ = [
    "addressed",
    "coordinators",
    "killed",
    "losses",
    "moved",
    "placement",
    "racks",
    "reassigned",
    "stalled",
    "told",
]
