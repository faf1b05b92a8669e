"""The event loop of one process: asyncio's contract, under the clock of its machine.

It is the port that everything shipped runs on unchanged: what asyncio's own loop takes from the system (time, sockets)
it takes from the world. A turn is one event of the world: all that was ready when it began, as asyncio's loop does it.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import Context
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from barnabas.simulator.clock import Clock
from barnabas.simulator.world import World

if TYPE_CHECKING:
    from barnabas.simulator.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ProcessLoop(asyncio.AbstractEventLoop):
    """The loop of a process, which may be killed or paused between any two turns.

    Attributes:
        looks: called after every turn.
    """

    def __init__(self, world: World, clock: Clock, network: Network, host: str, name: str) -> None:
        self.world = world
        self.clock = clock
        self.network = network
        self.host = host
        self.name = name
        self.looks: list[Callable[[], None]] = []
        self._ready: deque[asyncio.Handle] = deque()
        self._turn_due = False
        self._dead = False
        self._paused = False

    # -- life

    def kill(self) -> None:
        """The process ends here: nothing of it runs any more."""
        self._dead = True
        self._ready.clear()
        self.looks.clear()
        self.network.process_ended(self)

    def pause(self) -> None:
        """Stop it where it stands (SIGSTOP)."""
        self._paused = True

    def resume(self) -> None:
        """Let it go on."""
        self._paused = False
        self._turn_later()

    @property
    def runs(self) -> bool:
        """Whether it is neither dead nor paused."""
        return not (self._dead or self._paused)

    def is_running(self) -> bool:
        """Whether it is in a turn."""
        return _get_running_loop() is self

    def is_closed(self) -> bool:
        """Whether the process has ended."""
        return self._dead

    def get_debug(self) -> bool:
        """Never."""
        return False

    def close_tasks(self, own: Iterable[asyncio.Task[Any]]) -> None:
        """Once it is killed: nothing that it had under way goes on, `own` among it, and Python complains of none."""
        for task in asyncio.all_tasks(self):
            coroutine = task.get_coro()
            if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()
        before = _get_running_loop()
        _set_running_loop(self)  # what runs at their end asks for it, and would make a real one
        try:
            for task in own:
                with suppress(RuntimeError):  # it would have waited for something at its end
                    task.get_coro().close()
        finally:
            _set_running_loop(before)

    # -- turns

    def _turn_later(self) -> None:
        if not (self._turn_due or self._dead or self._paused) and self._ready:
            self._turn_due = True
            self.world.after(0, self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if self._dead or self._paused:
            return
        before = _get_running_loop()
        _set_running_loop(self)
        try:
            ready = self._ready
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            for look in self.looks:
                look()
        finally:
            _set_running_loop(before)
        self._turn_later()

    def time(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return self.clock.mono_ns() / 1e9

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self._dead:
            self._ready.append(handle)
            self._turn_later()
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call in the next turn: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call after so many seconds of the machine's clock."""
        return self.call_at(self.clock.mono_ns() / 1e9 + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call when the machine's clock has come there."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self.world.at(self.clock.when(ceil(when * 1e9)), partial(self._due, timer))
        return timer

    def _due(self, timer: asyncio.TimerHandle) -> None:
        if not (self._dead or timer.cancelled()):
            self._ready.append(timer)
            self._turn_later()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **named: Any) -> asyncio.Task[T]:  # type: ignore[override]
        """A task of this loop."""
        return asyncio.Task(coro, loop=self, **named)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody caught ends the run; what a dead process left undone is no error."""
        if not self._dead:
            error = f"{context.get('message')}: {context.get('exception')!r}"
            self.world.fail(f"an error that nobody caught: {self.name}: {error}")

    # -- the network

    async def create_server(self, protocol_factory: Any, *args: Any, **named: Any) -> Any:
        """Accept on a listening socket of the world's network (`sock`)."""
        return self.network.listen(self, named["sock"].address, protocol_factory)

    async def create_connection(self, protocol_factory: Any, *args: Any, **named: Any) -> Any:
        """Connect to a host and a port of the world's network.

        Raises:
            OSError: nobody listens there.
        """
        host, port = args
        wire = await self.network.connect(self, (host, port))
        protocol = protocol_factory()
        wire.attach(protocol)
        return wire, protocol


def new_loop(world: World, clock: Clock, network: Network, host: str, name: str) -> ProcessLoop:
    """The loop of a new process. Nothing here asks for what it lacks of asyncio's contract: threads, files, signals."""
    return ProcessLoop(world, clock, network, host, name)  # type: ignore[abstract]
