"""All scenarios, by room; importing this package puts them on the list (`scenario.ALL`)."""

from tests.conformance.scenarios import (
    connections,
    fetch,
    idempotence,
    log,
    log_files,
    metadata,
    metrics,
    produce,
    sessions,
    timers,
    versions,
)

__all__ = [
    "connections",
    "fetch",
    "idempotence",
    "log",
    "log_files",
    "metadata",
    "metrics",
    "produce",
    "sessions",
    "timers",
    "versions",
]
