"""Log lines: text for people, JSON for machines; the terminal decides."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from io import StringIO

import pytest

from barnabas.broker.host.logs import set_up


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("barnabas", "asyncio")]
    kept = [(one.handlers[:], one.level, one.propagate) for one in loggers]
    yield
    for one, (handlers, level, propagate) in zip(loggers, kept, strict=True):
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)


def _say(stream: StringIO) -> str:
    set_up(stream=stream)
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("barnabas.x").warning("closing %d", 7, exc_info=sys.exc_info())
    return stream.getvalue()


def test_a_terminal_gets_a_line_for_people_with_the_traceback_under_it() -> None:
    first, *rest = _say(Terminal()).splitlines()
    clock, level, message = first.split(maxsplit=2)
    assert (len(clock), level, message) == (len("12:04:31.250"), "warning", "closing 7")
    assert rest[0].startswith("Traceback")
    assert rest[-1] == "ValueError: why"


def test_everything_else_gets_one_object_per_line() -> None:
    (line,) = _say(StringIO()).splitlines()
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == ("warning", "barnabas.x", "closing 7")
    assert told["error"].endswith("ValueError: why")
