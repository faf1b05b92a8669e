"""From where on a log is not believed, kept in its directory until it is cut there: the next start must know it, too.

A start that finds records gone from the midst of a log tells of it once, and mends what told it: an index without its
segment is removed, for one. A process that ends before the log is cut and fetched anew would leave a log that looks
whole. So the offset stands in a file before anything is mended, and goes with the cut.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.log.losses import Loss, Report
from barnabas.broker.ports import Disk

LACKING_FILE: Final = "barnabas-lacking"

logger = logging.getLogger(__name__)


def note(disk: Disk, directory: str, offset: int) -> None:
    """The log is not believed from `offset` on; on return that stands there, or it is told why it does not."""
    try:
        disk.write_atomic(f"{directory}/{LACKING_FILE}", _text(offset))
    except OSError as error:
        _told(error)


def note_later(disk: Disk, directory: str, offset: int) -> None:
    """The same of a log that is in use, off the loop's thread."""
    disk.write_atomic(f"{directory}/{LACKING_FILE}", _text(offset), _told)


def _text(offset: int) -> bytes:
    return b"%d\n" % offset


def _told(error: OSError | None) -> None:
    if error is not None:
        logger.warning("what a log lacks was not noted: %s", error)


def before(disk: Disk, directory: str, report: Report) -> Report:
    """A `report` that notes down what is lost first: whatever is to be mended is still there then."""

    def noted(loss: Loss) -> None:
        known, first = load(disk, directory), max(loss.first_offset, 0)
        if not 0 <= known <= first:
            note(disk, directory, first)
        report(loss)

    return noted


def load(disk: Disk, directory: str) -> int:
    """What was noted; -1 if nothing was. One that cannot be read says that all of the log is in doubt."""
    path = f"{directory}/{LACKING_FILE}"
    if not disk.exists(path):
        return -1
    try:
        text = disk.load(path).strip()
    except OSError:
        text = b""
    return int(text) if text.isdigit() else 0


def forget(disk: Disk, directory: str) -> None:
    """The log was cut there, or it does not matter any more."""
    disk.remove(f"{directory}/{LACKING_FILE}")
