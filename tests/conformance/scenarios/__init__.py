"""All scenarios, by room; importing this package puts them on the list (`scenario.ALL`)."""

from tests.conformance.scenarios import fetch, log, log_files, metadata, produce, sessions, timers

__all__ = ["fetch", "log", "log_files", "metadata", "produce", "sessions", "timers"]
