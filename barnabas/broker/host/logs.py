"""Log lines: for people on a terminal, one JSON object per line otherwise.

A line may hold what a peer sent (a client id, a topic's name, the text of an error about either). Whatever would move a
terminal's cursor, begin another line or turn the direction of reading is written as its number, and what is longer than
`MESSAGE_CHARS_MAX` is cut. Lines of one kind are written `KIND_LINES_MAX` times in a minute, then counted.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable
from typing import IO, Final, Literal

from barnabas.plain import plain as in_one_line

Format = Literal["text", "json"]
_LEVELS: Final = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error", "CRITICAL": "critical"}

MESSAGE_CHARS_MAX: Final = 2000
TRACEBACK_CHARS_MAX: Final = 16_000
KIND_LINES_MAX: Final = 100
_PERIOD_S: Final = 60.0
_KINDS_MAX: Final = 1000


def plain(text: str, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    """The text as one line that no terminal takes for anything else, cut to `chars_max` characters."""
    left = len(text) - chars_max
    text = in_one_line(text[:chars_max])
    return text if left <= 0 else f"{text}... ({left} characters more)"


def _traceback(text: str) -> str:
    """The lines of a traceback, indented: none of them, whatever the error's text is, reads like a log line."""
    return "\n".join(f"  {plain(line)}" for line in text[:TRACEBACK_CHARS_MAX].split("\n"))


class Repeats(logging.Filter):
    """Lets `KIND_LINES_MAX` lines of a kind through in a minute; the first of a later one tells how many were not.

    A kind is a place in the code: level, logger and the message before its arguments are filled in.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[int, str, object], list[float]] = {}  # the minute's begin, and lines since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line."""
        kind = (record.levelno, record.name, record.msg if isinstance(record.msg, str) else type(record.msg))
        seen = self._seen.get(kind)
        if seen is None or record.created - seen[0] >= _PERIOD_S:
            if len(self._seen) >= _KINDS_MAX:
                self._seen.clear()
            untold = int(seen[1]) - KIND_LINES_MAX if seen is not None else 0
            self._seen[kind] = [record.created, 1]
            if untold > 0:
                record.msg = f"{record.msg} ({untold} more of this kind were not written)"
            return True
        seen[1] += 1
        return seen[1] <= KIND_LINES_MAX


class TextFormatter(logging.Formatter):
    """`12:04:31.250 warning  closing the connection of ...`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback under it where there is one."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock}.{int(record.msecs):03d} {_LEVELS[record.levelname]:8s} {plain(record.getMessage())}"
        return f"{line}\n{_traceback(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One object per line: time (RFC 3339, UTC), level, logger, message, and the traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": _LEVELS[record.levelname],
            "logger": record.name,
            "message": plain(record.getMessage()),
        }
        if record.exc_info:
            entry["error"] = _traceback(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


def set_up(
    form: Format | None = None,
    stream: IO[str] | None = None,
    level: int = logging.INFO,
    others: Iterable[str] = ("asyncio",),
) -> None:
    """Send log lines to `stream` (stderr), this package's and those of `others`.

    Without `form` a terminal gets text, all else JSON.
    """
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    as_text = form == "text" or (form is None and target.isatty())
    handler.addFilter(Repeats())
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    logger = logging.getLogger("barnabas")
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    for other in map(logging.getLogger, others):
        other.addHandler(handler)
        other.propagate = False
