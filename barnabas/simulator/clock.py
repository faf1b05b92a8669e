"""The two clocks of one machine, neither of which is right."""

from __future__ import annotations

from typing import Final

from barnabas.simulator.world import MS, World

_MILLION: Final = 1_000_000
BEGINNING_MS: Final = 1_700_000_000_000
"""Time of day at the beginning of every world (ms since the epoch)."""


class Clock:
    """A monotonic clock that runs a little fast or slow, and the time of day, which may jump.

    Attributes:
        work_ns: so much time passes whenever somebody looks: what he did since he looked last.
    """

    def __init__(
        self, world: World, *, fast_ppm: int = 0, skew_ms: int = 0, base_ns: int = 0, work_ns: int = 0
    ) -> None:
        """`fast_ppm`: microseconds gained in a second; `skew_ms`: the time of day is so far off."""
        self._world = world
        self._rate = _MILLION + fast_ppm
        self._base_ns = base_ns - world.now_ns * self._rate // _MILLION
        self._wall_ms = BEGINNING_MS + skew_ms - base_ns // MS
        self.work_ns = work_ns

    def mono_ns(self) -> int:
        """The monotonic clock."""
        return self._base_ns + self._world.now_ns * self._rate // _MILLION

    def mono_ms(self) -> int:
        """Whole ms of the monotonic clock, after some work."""
        world = self._world
        world.now_ns += self.work_ns
        return (self._base_ns + world.now_ns * self._rate // _MILLION) // MS

    def now_ms(self) -> int:
        """Time of day in whole ms since the epoch (`ports.WallClock`)."""
        return self._wall_ms + self.mono_ns() // MS

    def jump(self, ms: int) -> None:
        """Somebody sets the time of day."""
        self._wall_ms += ms

    def when(self, mono_ns: int) -> int:
        """The world's time at which the monotonic clock will have come to `mono_ns`."""
        return -((self._base_ns - mono_ns) * _MILLION // self._rate)

    def restart(self, base_ns: int) -> None:
        """The machine starts anew: the monotonic clock begins somewhere else, the time of day goes on."""
        wall_ms = self.now_ms()
        self._base_ns = base_ns - self._world.now_ns * self._rate // _MILLION
        self._wall_ms = wall_ms - self.mono_ns() // MS
