"""All scenarios of the cluster; importing this package puts them on the list (`acts.CLUSTER`)."""

from tests.conformance.cluster.scenarios import addressed, placement, stalled

__all__ = ["addressed", "placement", "stalled"]
