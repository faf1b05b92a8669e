"""What a broker of a cluster can show of its last life: that nothing which its logs had is lost (KIP-966).

    .kafka_cleanshutdown   the last stop was clean, in this broker epoch; a start takes it away, as in Kafka
    barnabas-life          the broker epoch of the last life, and the boot of the machine that it was in: as long as the
                           machine was not started anew only the process died, and the system has all that it wrote;
                           emptied as soon as a start finds something lost, before it mends it

The epoch must be the one that the controller knows: a file of an earlier life, or of a directory that was put in the
place of another, shows nothing. Neither file has to be on the device to be true; one that is missing or torn shows
nothing, and costs no more than a warning.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.config.properties import parse_properties
from barnabas.broker.log.checkpoint import CLEAN_SHUTDOWN_FILE
from barnabas.broker.log.closing import epoch_of_mark
from barnabas.broker.ports import Disk
from barnabas.protocol.errors import BarnabasError

LIFE_FILE: Final = "barnabas-life"
_NONE_NAMED: Final = -2

logger = logging.getLogger(__name__)


def previous_epoch(disk: Disk, boot_id: str) -> int:
    """The broker epoch since whose registration nothing was lost; -1 where nothing shows it."""
    return max(_of_marker(disk), _of_life(disk, boot_id), -1)


def shows(disk: Disk, boot_id: str, broker_epoch: int) -> bool:
    """The same of a controller's own broker, last registered in `broker_epoch`: it needs nobody to believe it.

    A clean stop that names no epoch counts, too: it was that of an earlier release.
    """
    return _of_life(disk, boot_id) == broker_epoch or _of_marker(disk) in (_NONE_NAMED, broker_epoch)


def note(disk: Disk, boot_id: str, broker_epoch: int) -> None:
    """Another life has begun."""
    if boot_id:
        text = f"version=1\nbroker.epoch={broker_epoch}\nboot.id={boot_id}\n"
        disk.write_atomic(LIFE_FILE, text.encode(), _written, durable=False)


def withdraw(disk: Disk) -> None:
    """Something of the logs is lost, and about to be cut: a start that is killed here leaves nothing that tells it."""
    try:
        disk.write_atomic(LIFE_FILE, b"", durable=False)
    except OSError as error:  # a full disk
        _written(error)
        disk.remove(LIFE_FILE)
    disk.write_atomic(LIFE_FILE, b"", _written, durable=False)  # after the note that may be under way


def _written(error: OSError | None) -> None:
    if error is not None:
        logger.warning("%s was not written: %s", LIFE_FILE, error)


def _of_marker(disk: Disk) -> int:
    try:
        epoch = epoch_of_mark(disk.load(CLEAN_SHUTDOWN_FILE))
    except (OSError, ValueError):
        return -1
    return _NONE_NAMED if epoch < 0 else epoch


def _of_life(disk: Disk, boot_id: str) -> int:
    try:
        entries = parse_properties(disk.load(LIFE_FILE).decode("utf-8", "replace"))
    except (OSError, BarnabasError):
        return -1
    epoch = entries.get("broker.epoch", "")
    same = bool(boot_id) and entries.get("boot.id") == boot_id and entries.get("version") == "1"
    return int(epoch) if same and epoch.isascii() and epoch.isdigit() else -1
