"""What a client says while a command waits: on standard error, as all that is wrong. `logging` costs help 9 ms."""

from __future__ import annotations

import logging

from barnabas.plain import plain


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return "barnabas: " + plain(super().format(record), "\n\t")


def hear_clients() -> None:
    """From now on. A command with a log of its own, as a broker has, keeps it."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Line())
