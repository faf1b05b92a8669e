"""`barnabas-ledger`: what this broker has promised, kept in a second place.

    version=1
    metadata.end=57              records below are in the metadata log, and were announced
    producer.ids.end=3000        producer ids below may have been given out
    sum=1a2b3c4d                 CRC-32C of the lines above, in hexadecimal digits

Both numbers are bounds from below that never fall. `producer.ids.end` is on the device before any id of a block is
given out; `metadata.end` is brought up to date at a start, at a stop, and whenever the file is written anyway. A log
that ends before it has lost records, whatever it looks like. One who cuts the metadata log on purpose writes a new one.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.ports import Disk, Done
from barnabas.protocol.primitives import crc32c

LEDGER_FILE: Final = "barnabas-ledger"
_VERSION: Final = "1"

logger = logging.getLogger(__name__)


class LedgerUnreadable(ValueError):
    """The file is not what was written, or the device does not give it back."""


class Ledger:
    """The file, and what it shall say next. `present`: there was one when it was loaded."""

    __slots__ = ("_disk", "metadata_end", "present", "producer_ids_end")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.present = False
        self.metadata_end = 0
        self.producer_ids_end = 0

    def load(self) -> None:
        """Read it. Nothing happens if there is none: a directory of an earlier release, or a first start.

        Raises:
            LedgerUnreadable: it is damaged, or cannot be read.
        """
        try:
            data = self._disk.load(LEDGER_FILE)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LedgerUnreadable(f"{LEDGER_FILE} cannot be read: {error}") from error
        self.metadata_end, self.producer_ids_end = _parse(data)
        self.present = True

    def raise_to(self, metadata_end: int, producer_ids_end: int) -> None:
        """Say so much at the next `write`; never less than before."""
        self.metadata_end = max(self.metadata_end, metadata_end)
        self.producer_ids_end = max(self.producer_ids_end, producer_ids_end)

    def write(self, done: Done) -> None:
        """Write it, durably, off the loop's thread."""
        self._disk.write_atomic(LEDGER_FILE, format_ledger(self.metadata_end, self.producer_ids_end), done)


def format_ledger(metadata_end: int, producer_ids_end: int) -> bytes:
    """The file."""
    body = f"version={_VERSION}\nmetadata.end={metadata_end}\nproducer.ids.end={producer_ids_end}\n".encode()
    return body + f"sum={crc32c(body):08x}\n".encode()


def _parse(data: bytes) -> tuple[int, int]:
    body, mark, crc = data.rpartition(b"sum=")
    lines = dict(line.split(b"=", 1) for line in body.splitlines() if b"=" in line)
    try:
        if not mark or int(crc, 16) != crc32c(body):
            raise LedgerUnreadable(f"{LEDGER_FILE} is damaged: its sum is wrong")
        if lines.get(b"version") != _VERSION.encode():
            raise LedgerUnreadable(f"{LEDGER_FILE} is of another version")
        return int(lines[b"metadata.end"]), int(lines[b"producer.ids.end"])
    except (KeyError, ValueError) as fault:
        raise LedgerUnreadable(f"{LEDGER_FILE} is damaged: {fault}") from fault
