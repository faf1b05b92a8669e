"""Log lines: text for people, JSON for machines; the terminal decides."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from io import StringIO

import pytest

from barnabas.broker.host.logs import KIND_LINES_MAX, MESSAGE_CHARS_MAX, Repeats, set_up


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
    assert rest[0].startswith("  Traceback")
    assert rest[-1] == "  ValueError: why"


def test_everything_else_gets_one_object_per_line() -> None:
    (line,) = _say(StringIO()).splitlines()
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == ("warning", "barnabas.x", "closing 7")
    assert told["error"].endswith("ValueError: why")


HOSTILE = "a\x1b[2J\r\n12:00:00.000 warning  all is well\x85\u2028\u202e\u200b\x00\x9b31m\udcff"


@pytest.mark.parametrize("kind", [Terminal, StringIO])
def test_what_a_peer_sends_is_one_line_and_moves_no_cursor(kind: type[StringIO]) -> None:
    stream = kind()
    set_up(stream=stream)
    logging.getLogger("barnabas.x").warning("closing the connection of %s", HOSTILE)
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert len(written.splitlines()) == 1
    assert all(char.isprintable() for char in written[:-1])
    told = json.loads(written)["message"] if kind is StringIO else written
    assert r"a\x1b[2J\x0d\x0a12:00:00.000" in told
    assert r"well\x85\u2028\u202e\u200b\x00\x9b31m\udcff" in told


@pytest.mark.parametrize("kind", [Terminal, StringIO])
def test_no_line_under_a_traceback_reads_like_a_log_line(kind: type[StringIO]) -> None:
    stream = kind()
    set_up(stream=stream)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("barnabas.x").exception("failed")
    text = stream.getvalue() if kind is Terminal else json.loads(stream.getvalue())["error"]
    lines = text.splitlines()[1 if kind is Terminal else 0 :]
    assert any("all is well" in line for line in lines)
    assert all(line.startswith("  ") and line.isprintable() for line in lines)


@pytest.mark.parametrize("kind", [Terminal, StringIO])
def test_a_long_string_is_cut(kind: type[StringIO]) -> None:
    stream = kind()
    set_up(stream=stream)
    try:
        raise ValueError("e" * 8_000_000)
    except ValueError:
        logging.getLogger("barnabas.x").exception("x%s", "y" * 8_000_000)
    assert len(stream.getvalue()) < 3 * MESSAGE_CHARS_MAX
    assert "yyy... (7998001 characters more)" in stream.getvalue()


def test_lines_of_one_kind_are_counted_once_there_are_many_of_them() -> None:
    stream = Terminal()
    set_up(stream=stream)
    logger = logging.getLogger("barnabas.x")
    for number in range(10 * KIND_LINES_MAX):
        logger.warning("closing %d", number)
    logger.warning("another kind")
    lines = stream.getvalue().splitlines()
    assert len(lines) == KIND_LINES_MAX + 1
    assert lines[-1].endswith("another kind")


def test_the_next_minute_tells_how_many_were_not_written() -> None:
    repeats = Repeats()

    def record(second: float) -> logging.LogRecord:
        made = logging.LogRecord("barnabas.x", logging.WARNING, "x.py", 1, "closing %d", (7,), None)
        made.created = second
        return made

    assert [repeats.filter(record(0)) for _ in range(KIND_LINES_MAX + 3)].count(False) == 3
    later = record(60)
    assert repeats.filter(later)
    assert later.getMessage() == "closing 7 (3 more of this kind were not written)"
    again = record(61)
    assert repeats.filter(again)
    assert again.getMessage() == "closing 7"
