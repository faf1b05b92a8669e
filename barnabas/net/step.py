"""The step that drives the network core and whoever acts on it. It exists once: shells and tests drive this one."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.net.metadata import NEVER
from barnabas.net.network import Action, NetworkClient

Driver = Callable[[int], int]
"""`driver(now_ms) -> deadline_ms`: a core part (sender, fetcher) that acts on each step and says when it is due."""


class Step:
    """What follows every event (a frame, a timer, a call): all act on the present time, decisions are carried out.

    Args:
        network: the core.
        perform: carries out one action. What it reports back at once (a write that left whole) may call `run`.
        clock: the time, monotonic, whole ms.
    """

    def __init__(self, network: NetworkClient, perform: Callable[[Action], None], clock: Callable[[], int]) -> None:
        self.drivers: list[Driver] = []
        self._network = network
        self._perform = perform
        self._clock = clock
        self._running = False
        self._again = False

    def run(self) -> int | None:
        """One step; returns when the next is due at the latest (absolute ms), None if one is under way: it goes on."""
        self._again = True
        if self._running:
            return None
        self._running = True
        network = self._network
        try:
            due = NEVER
            while self._again:
                self._again = False
                now_ms = self._clock()
                network.tick(now_ms)
                due = NEVER
                for driver in self.drivers:
                    due = min(due, driver(now_ms))
                network.maybe_refresh(now_ms)
                self.perform()
            return min(due, network.next_deadline_ms(self._clock()))
        finally:
            self._running = False

    def perform(self) -> None:
        """Carries out what is decided."""
        while actions := self._network.take_actions():
            for action in actions:
                self._perform(action)
