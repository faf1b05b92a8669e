"""What goes wrong in a run: a plan that is drawn from its seed, and how each of its faults is done."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.network import Network
from barnabas.simulator.world import MS, World

KILL, KILLS, POWER, STOP, PAUSE = "kill", "kills", "power", "stop", "pause"
CUT, CUT_TO, CUT_FROM, RESET, SLOW = "cut", "cut to", "cut from", "reset", "slow"
FULL, JUMP = "full", "jump"

KINDS: Final = (KILL, KILLS, POWER, POWER, STOP, PAUSE, CUT, CUT_TO, CUT_FROM, RESET, SLOW, FULL, JUMP)
RESTARTS: Final = frozenset({KILL, KILLS, POWER, STOP})
_JUMP_MS_MAX: Final = 7_200_000
_KILLS: Final = 4
_KILL_AGAIN_MS_MAX: Final = 40


class Fault(NamedTuple):
    """One fault: when it begins, what it is, how long it lasts, and how far a clock jumps.

    `on_answer`: it begins with the broker's next answer from then on, while that is on its way: what it says counts.
    """

    at_ms: int
    kind: str
    for_ms: int
    jump_ms: int = 0
    on_answer: bool = False


def draw_faults(chance: random.Random, duration_ms: int, *, power: bool) -> list[Fault]:
    """At least five faults; those of `power` only where every acknowledged record was synced."""
    kinds = [kind for kind in KINDS if power or kind != POWER]
    faults = []
    for _ in range(chance.randrange(5, 13)):
        kind = chance.choice(kinds)
        for_ms = chance.choice((chance.randrange(20, 300), chance.randrange(300, 8000)))
        jump_ms = chance.randint(-_JUMP_MS_MAX, _JUMP_MS_MAX) if kind == JUMP else 0
        on_answer = kind in (KILL, POWER) and chance.randrange(4) > 0
        faults.append(Fault(chance.randrange(1000, duration_ms), kind, for_ms, jump_ms, on_answer))
    return sorted(faults)


class Adversary:
    """Does the faults of a plan to one broker and the ways to it."""

    def __init__(self, world: World, network: Network, broker: BrokerProcess, clients: list[str]) -> None:
        self._world = world
        self._network = network
        self._broker = broker
        self._clients = clients
        self._healed = False
        self._waiting: list[Fault] = []

    def plan(self, faults: list[Fault]) -> None:
        """Have them happen when their time comes."""
        for fault in faults:
            begin = self._wait if fault.on_answer else self._begin
            self._world.at(fault.at_ms * MS, partial(begin, fault))

    def _wait(self, fault: Fault) -> None:
        self._waiting.append(fault)

    def answered(self) -> None:
        """The broker has answered something."""
        waiting, self._waiting = self._waiting, []
        for fault in waiting:
            self._world.after(0, partial(self._begin, fault))

    def heal(self) -> None:
        """End all that is wrong: ways are open, the disk has room, the broker runs."""
        self._healed = True
        self._world.note("all is healed")
        self._network.heal()
        self._broker.device.fill(full=False)
        self._broker.resume()
        self._start()

    def _begin(self, fault: Fault) -> None:
        if self._healed:
            return
        deeds: dict[str, Callable[[Fault], None]] = {
            KILL: self._kill,
            KILLS: self._kills,
            POWER: self._power,
            STOP: self._stop,
            PAUSE: self._pause,
            CUT: self._cut,
            CUT_TO: self._cut,
            CUT_FROM: self._cut,
            RESET: self._reset,
            SLOW: self._slow,
            FULL: self._full,
            JUMP: self._jump,
        }
        if fault.kind in (KILL, KILLS, POWER, STOP, PAUSE) and not self._broker.runs:
            return
        if fault.kind == STOP and self._broker.stops:
            return
        self._world.note(f"fault: {fault.kind} for {fault.for_ms} ms")
        self._world.count(f"fault: {fault.kind}")
        deeds[fault.kind](fault)

    def _after(self, fault: Fault, call: Callable[[], None]) -> None:
        def later() -> None:
            if not self._healed:
                call()

        self._world.after(fault.for_ms * MS, later)

    def _count_if_early(self) -> None:
        core = self._broker.core
        self._world.count("ends while it recovers", core is not None and not core.ready)

    def _start(self) -> None:
        if not self._broker.runs:
            self._broker.start()

    def _kill(self, fault: Fault) -> None:
        self._count_if_early()
        self._broker.kill()
        self._after(fault, self._start)

    def _kills(self, fault: Fault) -> None:
        """Again and again, while it recovers."""
        chance = self._world.chance(f"kills at {fault.at_ms}")

        def again(left: int) -> None:
            if self._healed or not self._broker.runs:
                return
            self._count_if_early()
            self._broker.kill()
            if left:
                self._start()
                self._world.after(chance.randrange(_KILL_AGAIN_MS_MAX * MS), partial(again, left - 1))
            else:
                self._after(fault, self._start)

        again(_KILLS)

    def _power(self, fault: Fault) -> None:
        self._count_if_early()
        self._broker.lose_power()
        self._after(fault, self._start)

    def _stop(self, fault: Fault) -> None:
        def ended() -> None:
            self._world.count("clean stops")
            if self._healed:
                self._start()
            else:
                self._after(fault, self._start)

        self._broker.resume()
        self._broker.stop(ended)

    def _pause(self, fault: Fault) -> None:
        self._broker.pause()
        self._after(fault, self._broker.resume)

    def _cut(self, fault: Fault) -> None:
        """Of every client by chance: some still reach the broker."""
        chance, here = self._world.chance(f"cut at {fault.at_ms}"), self._broker.machine.host
        for client in [client for client in self._clients if chance.randrange(2)] or self._clients:
            if fault.kind != CUT_FROM:
                self._network.cut(client, here)
            if fault.kind != CUT_TO:
                self._network.cut(here, client)
        self._after(fault, self._network.heal)

    def _reset(self, fault: Fault) -> None:
        self._world.count("connections reset", self._network.reset(self._broker.machine.host))

    def _slow(self, fault: Fault) -> None:
        self._network.slow = 50
        self._after(fault, self._network.heal)

    def _full(self, fault: Fault) -> None:
        self._broker.device.fill(full=True)
        self._after(fault, lambda: self._broker.device.fill(full=False))

    def _jump(self, fault: Fault) -> None:
        self._broker.machine.clock.jump(fault.jump_ms)
