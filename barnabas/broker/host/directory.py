"""A data directory that fails as a whole: the broker ends, as Apache Kafka's does, and others lead what it led.

    an append, a roll, a sync or a small file is refused by the device (EIO and its like; never a full disk)
        a small file of our own can be written    one file is bad, and costs what it costs (docs/DURABILITY.md)
        it is refused, too                        the directory has failed: no record can be kept, and none be lost
                                                  by waiting, while this broker leads and refuses

Apache Kafka takes a directory offline at the first error, whatever the others say of it, and halts with exit code 1
when that was the last one (`LogManager.handleLogDirFailure`). Here there is one, and one bad block does not end it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from barnabas.broker.ports import Disk
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

PROBE: Final = "barnabas-directory-probe"
"""What is written, and removed at once."""
_OF_THE_DEVICE: Final = frozenset({errno.EIO, errno.EROFS, errno.ENXIO, errno.ENODEV, errno.ESTALE})


class DirectoryFailed(BarnabasError):
    """Nothing can be written to the data directory any more; the text says what the device answers."""


def guard(host: Host) -> Directory:
    """Have a broker end when its data directory takes nothing any more."""
    directory = Directory(host.core.disk)
    directory.on_failed = host.directory_failed
    host.core.logs.losses.on_refused = directory.suspect
    return directory


class Directory:
    """Whether a data directory takes anything at all.

    Attributes:
        failed: what the device answered when it took nothing; None while it does.
        on_failed: is told of that, once.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._asks = False
        self.failed: OSError | None = None
        self.on_failed: Callable[[OSError], None] = lambda error: None

    def suspect(self, error: Exception) -> None:
        """Something could not be written: if the device is to blame, ask it. One question at a time."""
        of_the_device = isinstance(error, OSError) and error.errno in _OF_THE_DEVICE
        if of_the_device and not self._asks and self.failed is None:
            self._asks = True
            self._disk.write_atomic(PROBE, b"", self._answered)

    def _answered(self, error: OSError | None) -> None:
        self._asks = False
        if error is None:
            with suppress(OSError):
                self._disk.remove(PROBE)
        elif error.errno in _OF_THE_DEVICE:
            self.failed = error
            self.on_failed(error)
