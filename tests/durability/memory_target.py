"""A whole core on a disk in memory, under a clock that only this moves: thousands of lives in the time of one."""

from __future__ import annotations

import logging
import random
from collections import deque
from typing import Any

from barnabas.broker.memory_disk import Faults, MemoryDisk, Names
from barnabas.protocol.api import REQUESTS, key_of
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.kafka.codec import decode_request, encode_request
from tests.broker.node.world import Answer, World
from tests.durability.target import SETTINGS, Gone, Refused

STEPS_MAX = 200_000


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname.lower()} {record.getMessage()}\n")


class MemoryTarget:
    """A core whose process dies when it is told to, or whose power fails."""

    def __init__(self, seed: str) -> None:
        chance = random.Random(f"the disk of {seed}")
        faults = Faults(chance.randrange, names=Names.ORDERED, blocks=True, cuts=True, unfinished=True)
        self.disk = MemoryDisk(faults=faults)
        self.said: list[str] = []
        self.hasty = True
        self._world = World(disk=self.disk, start=False)
        self._lines = _Lines()
        self._answers: deque[tuple[int, Answer]] = deque()
        self._next = 0
        logger = logging.getLogger("barnabas")
        self._level_before = logger.level
        logger.addHandler(self._lines)
        logger.setLevel(logging.INFO)

    def close(self) -> None:
        """Hear no more of the log."""
        logger = logging.getLogger("barnabas")
        logger.removeHandler(self._lines)
        logger.setLevel(self._level_before)

    def _step(self) -> bool:
        """One step of the core or of its disk; whether there was one to do."""
        core = self._world.core
        worked = core.run_job_step(self._world.now_ms)
        if not worked and self.disk.deliver():
            core.wake(self._world.now_ms)
            worked = True
        due_ms = core.next_deadline_ms()
        if due_ms is not None and due_ms <= self._world.now_ms:
            core.tick(self._world.now_ms)
            worked = True
        return worked

    def start(self, patience: int | None = None) -> bool:
        self._lines.lines = self.said = []
        self._answers.clear()
        self._world.settings = {key.replace(".", "_"): value for key, value in SETTINGS.items() if self.hasty}
        core = self._world.core = self._world._new_core()
        try:
            core.start(self._world.now_ms)
        except BarnabasError as error:
            raise Refused(str(error)) from error
        for _ in range(STEPS_MAX if patience is None else patience):
            if core.fault is not None:
                raise Refused(str(core.fault))
            worked = self._step()
            if core.ready:
                return True
            if not worked:
                break
        if core.fault is not None:
            raise Refused(str(core.fault))
        if patience is None:
            raise Refused("it comes to rest before it is ready")
        self.kill()
        return False

    def kill(self) -> None:
        self.disk.kill()

    def stop(self, patience: int | None = None) -> bool:
        ended: list[bool] = []
        self._world.core.stop(self._world.now_ms, lambda: ended.append(True))
        for _ in range(STEPS_MAX if patience is None else patience):
            if ended:
                return True
            self._step()
        assert patience is not None, "a stop never ends"
        self.kill()
        return bool(ended)

    def send(self, request: Any, version: int) -> int:
        self._next += 1
        api_key = key_of(type(request))
        frame = b"".join(encode_request(api_key, version, self._next, "soak", request))
        decoded = decode_request(memoryview(bytearray(frame))[4:])[1]
        assert isinstance(decoded, REQUESTS[api_key])
        self._answers.append((self._next, self._world.send(decoded, version)))
        return self._next

    def collect(self, patience: int | None = None) -> tuple[int, Any] | None:
        self._step()
        for _ in range(STEPS_MAX if patience is None else patience):
            if self._answers and self._answers[0][1].done:
                number, answer = self._answers.popleft()
                return number, answer.response
            if not self._step() and not (self._answers and self._answers[0][1].done):
                break
        if patience is None:
            raise Gone("the core came to rest without an answer")
        return None

    def fill(self, full: bool) -> None:
        self.disk.capacity = self.disk.used + 700 if full else None

    def lose_power(self) -> None:
        """The machine goes: unsynced bytes are lost or torn, unsynced names undone, work in hand done in part."""
        self.disk.crash()

    def rest(self, ms: int) -> None:
        self._world.advance(ms)

    def wall_ms(self) -> int:
        return self._world.wall_ms

    def files(self) -> list[str]:
        found: list[str] = []
        todo = [""]
        while todo:
            inside = todo.pop()
            for name in self.disk.list(inside):
                path = f"{inside}/{name}" if inside else name
                try:
                    self.disk.load(path)
                except FileNotFoundError:
                    todo.append(path)
                else:
                    found.append(path)
        return sorted(found)

    def load(self, path: str) -> bytes:
        return self.disk.load(path)

    def put(self, path: str, data: bytes | None) -> None:
        if data is None:
            self.disk.remove(path)
        else:
            self.disk.write_atomic(path, data)
