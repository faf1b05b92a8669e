"""A real process on a real directory, spoken to over a socket in Kafka's protocol."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barnabas.protocol.api import key_of
from barnabas.protocol.kafka.codec import decode_response, encode_request
from tests.cli.process import clean_environment
from tests.cli.small_disk import SmallDisk
from tests.durability.target import SETTINGS, Gone, Refused

ANSWER_S_MAX = 60.0
PATIENCE_S = 0.0005


class ProcessTarget:
    """`barnabas broker` on `data_dir`; `plants` names the defects that it is given (see `planted`).

    With a `disk` it serves from that one, which is really full then; else a limit on the size of its files stands in.
    """

    def __init__(self, data_dir: Path, plants: Sequence[str] = (), disk: SmallDisk | None = None) -> None:
        self.data_dir = data_dir if disk is None else disk.seen
        self._disk = disk
        self.said: list[str] = []
        self.hasty = True
        self._plants = plants
        self._popen: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._asked: dict[int, tuple[int, int]] = {}
        self._next = 0

    def start(self, patience: int | None = None) -> bool:
        settings = [part for key, value in SETTINGS.items() if self.hasty for part in ("--set", f"{key}={value}")]
        options = [
            "--port",
            "0",
            "--data-dir",
            str(self._disk.data if self._disk else self.data_dir),
            "--log-format",
            "text",
            *settings,
        ]
        module = ["tests.durability.planted", *self._plants, "--"] if self._plants else ["barnabas.broker"]
        self._popen = subprocess.Popen(
            [*(self._disk.inside if self._disk else ()), sys.executable, "-m", *module, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
        )
        self.said = []
        self._reader = threading.Thread(target=self._read_log, args=(self._popen, self.said), daemon=True)
        self._reader.start()
        banner = self._banner(patience)
        if banner is None:
            self.kill()
            return False
        found = re.search(r"127\.0\.0\.1:(\d+)", banner)
        if found is None:
            self._end()
            raise Refused("".join(self.said[-3:]).strip())
        self._socket = socket.create_connection(("127.0.0.1", int(found[1])), timeout=ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received.clear()
        self._asked.clear()
        return True

    def _banner(self, patience: int | None) -> str | None:
        assert self._popen is not None
        assert self._popen.stdout is not None
        bound_s = ANSWER_S_MAX if patience is None else patience * PATIENCE_S
        if select.select([self._popen.stdout], [], [], bound_s)[0]:
            return self._popen.stdout.readline().decode()
        if patience is None:
            self.kill()
            raise Refused(f"nothing is heard of it in {ANSWER_S_MAX} s: {''.join(self.said[-3:])}")
        return None

    @staticmethod
    def _read_log(popen: subprocess.Popen[bytes], said: list[str]) -> None:
        assert popen.stderr is not None
        for line in popen.stderr:
            said.append(line.decode())  # noqa: PERF401  # as they come

    def _end(self) -> int:
        assert self._popen is not None
        assert self._reader is not None
        code = self._popen.wait(ANSWER_S_MAX)
        self._reader.join(ANSWER_S_MAX)
        for stream in (self._popen.stdout, self._popen.stderr):
            assert stream is not None
            stream.close()
        self._popen = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        return code

    def kill(self) -> None:
        if self._popen is not None:
            self._popen.kill()
            self._end()

    def stop(self, patience: int | None = None) -> bool:
        assert self._popen is not None
        self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.wait(ANSWER_S_MAX if patience is None else patience * PATIENCE_S)
        except subprocess.TimeoutExpired:
            assert patience is not None, "a stop never ends"
            self._popen.kill()
        return self._end() == 0

    def send(self, request: Any, version: int) -> int:
        assert self._socket is not None
        self._next += 1
        api_key = key_of(type(request))
        self._asked[self._next] = (api_key, version)
        try:
            self._socket.sendall(b"".join(encode_request(api_key, version, self._next, "soak", request)))
        except OSError as error:
            raise Gone(str(error)) from error
        return self._next

    def collect(self, patience: int | None = None) -> tuple[int, Any] | None:
        assert self._socket is not None
        bound_s = ANSWER_S_MAX if patience is None else patience * PATIENCE_S
        deadline = time.monotonic() + bound_s
        while (frame := self._frame()) is None:
            if not select.select([self._socket], [], [], max(deadline - time.monotonic(), 0))[0]:
                if patience is None:
                    raise Gone(f"no answer in {ANSWER_S_MAX} s")
                return None
            try:
                part = self._socket.recv(1 << 20)
            except OSError as error:
                raise Gone(str(error)) from error
            if not part:
                raise Gone("closed by the broker")
            self._received += part
        number = int.from_bytes(frame[:4], "big")
        return decode_response(*self._asked.pop(number), memoryview(frame))

    def _frame(self) -> bytes | None:
        if len(self._received) < 4:
            return None
        end = 4 + int.from_bytes(self._received[:4], "big")
        if len(self._received) < end:
            return None
        frame = bytes(self._received[4:end])
        del self._received[:end]
        return frame

    def fill(self, full: bool) -> None:
        if self._disk is not None:
            self._disk.fill() if full else self._disk.free()
            return
        assert self._popen is not None
        hard = resource.prlimit(self._popen.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self._popen.pid, resource.RLIMIT_FSIZE, (1 if full else hard, hard))

    def rest(self, ms: int) -> None:
        assert self._popen is not None
        assert self._popen.stdout is not None
        select.select([self._popen.stdout], [], [], ms / 1000)

    def wall_ms(self) -> int:
        return int(time.time() * 1000)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.data_dir)) for path in self.data_dir.rglob("*") if path.is_file())

    def load(self, path: str) -> bytes:
        return (self.data_dir / path).read_bytes()

    def put(self, path: str, data: bytes | None) -> None:
        whole = self.data_dir / path
        if data is None:
            whole.unlink()
        elif not whole.exists() or whole.stat().st_size != len(data):
            whole.write_bytes(data)
        else:  # in place: who has the file mapped sees it
            with open(whole, "r+b") as file:
                os.pwrite(file.fileno(), data, 0)
