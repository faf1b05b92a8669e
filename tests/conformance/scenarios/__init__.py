"""All scenarios, by room; importing this package puts them on the list (`scenario.ALL`)."""

from tests.conformance.scenarios import (
    admin,
    connections,
    fetch,
    groups,
    idempotence,
    log,
    log_files,
    metadata,
    metrics,
    produce,
    sessions,
    timers,
    versions,
    versions_of_cluster,
    versions_of_groups,
)

__all__ = [
    "admin",
    "connections",
    "fetch",
    "groups",
    "idempotence",
    "log",
    "log_files",
    "metadata",
    "metrics",
    "produce",
    "sessions",
    "timers",
    "versions",
    "versions_of_cluster",
    "versions_of_groups",
]
