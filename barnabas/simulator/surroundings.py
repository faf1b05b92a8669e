"""What shipped code takes from the world besides its loop: chance; and the list of all that is replaced here."""

from __future__ import annotations

import random
from typing import Final

REPLACED: Final = {
    "barnabas.broker.host.assemble": "broker.py puts the same parts together",
    "barnabas.broker.host.clock": "clock.py",
    "barnabas.broker.host.cluster_secret": "broker.py gives all brokers the same one",
    "barnabas.broker.host.data_dir": "nobody else has the device: no lock is needed",
    "barnabas.broker.host.disk": "device.py",
    "barnabas.broker.host.disk_calls": "device.py",
    "barnabas.broker.host.disk_file": "device.py",
    "barnabas.broker.host.disk_root": "device.py",
    "barnabas.broker.host.disk_threads": "device.py",
    "barnabas.broker.host.embedded": "broker.py",
    "barnabas.broker.host.entropy": "SeededEntropy",
    "barnabas.broker.host.local": "no socket in the data directory",
    "barnabas.broker.host.logs": "lines of the log are kept with the run",
    "barnabas.broker.host.process": "broker.py",
    "barnabas.broker.host.collector": "the garbage collector is the program's own",
    "barnabas.broker.host.sockets": "network.py",
    "barnabas.broker.host.trim": "memory is the program's own",
    "barnabas.net.host.surroundings": "the clock of the machine, and chance of the seed",
}
"""Shipped modules that no run calls into, and what stands in their place. All others run as they are."""

_RESERVED_MAX: Final = 100


class SeededEntropy:
    """`ports.Entropy` from a seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def uuid(self) -> bytes:
        """16 random bytes in the form of a version 4 uuid; none that Kafka reserves, or whose text begins with -."""
        while True:
            raw = bytearray(self._chance.randbytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            if raw[0] >> 2 != 62 and int.from_bytes(raw) > _RESERVED_MAX:
                return bytes(raw)

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""
        return self._chance.randrange(bound)
