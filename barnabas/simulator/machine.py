"""One machine: an address, two clocks, and what happens to them."""

from __future__ import annotations

import random

from barnabas.net.host.surroundings import Surroundings
from barnabas.simulator.clock import Clock
from barnabas.simulator.loop import ProcessLoop, new_loop
from barnabas.simulator.network import Network
from barnabas.simulator.world import MS, SECOND, World

FAST_PPM_MAX = 50_000
"""A clock gains or loses one second in twenty at most."""
SKEW_MS_MAX = 3_600_000


class Machine:
    """A machine of a world. Its clocks are its own, and so is its chance.

    Attributes:
        boots: how often it had power anew, itself at the beginning among them.
    """

    def __init__(self, world: World, network: Network, name: str, host: str) -> None:
        self.world = world
        self.network = network
        self.name = name
        self.host = host
        self.chance: random.Random = world.chance(name)
        drifts = self.chance.randrange(2)
        self.clock = Clock(
            world,
            fast_ppm=self.chance.randint(-FAST_PPM_MAX, FAST_PPM_MAX) if drifts else 0,
            skew_ms=self.chance.randint(-SKEW_MS_MAX, SKEW_MS_MAX) if drifts else 0,
            base_ns=self.chance.randrange(1000 * SECOND),
            work_ns=self.chance.choice((0, MS // 20, MS)),
        )
        self.boots = 1
        world.count("clocks that drift", drifts)

    def new_loop(self, name: str) -> ProcessLoop:
        """The loop of a process that begins here."""
        return new_loop(self.world, self.clock, self.network, self.host, name)

    def surroundings(self) -> Surroundings:
        """What a client on this machine is given."""
        clock = self.clock
        return Surroundings(lambda: clock.mono_ns() // MS, clock.now_ms, self.chance.random)

    def lose_power(self) -> None:
        """All that runs here ends, and nobody outside is told."""
        self.network.power(self.host, on=False)

    def boot(self) -> None:
        """If it was gone, power is back, and the monotonic clock begins somewhere else."""
        if self.host in self.network.off:
            self.boots += 1
            self.network.power(self.host, on=True)
            self.clock.restart(self.chance.randrange(1000 * SECOND))
