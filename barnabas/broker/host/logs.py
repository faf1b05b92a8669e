"""Log lines: for people on a terminal, one JSON object per line otherwise."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import IO, Final, Literal

Format = Literal["text", "json"]
_LEVELS: Final = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error", "CRITICAL": "critical"}


class TextFormatter(logging.Formatter):
    """`12:04:31.250 warning  closing the connection of ...`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback under it where there is one."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock}.{int(record.msecs):03d} {_LEVELS[record.levelname]:8s} {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One object per line: time (RFC 3339, UTC), level, logger, message, and the traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": _LEVELS[record.levelname],
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up(form: Format | None = None, stream: IO[str] | None = None, level: int = logging.INFO) -> None:
    """Send this package's log lines to `stream` (stderr); without `form` a terminal gets text, all else JSON."""
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    as_text = form == "text" or (form is None and target.isatty())
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    logger = logging.getLogger("barnabas")
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    asyncio_logger = logging.getLogger("asyncio")
    asyncio_logger.addHandler(handler)
    asyncio_logger.propagate = False
