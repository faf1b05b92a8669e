"""The brokers of a cluster of this machine as processes: started, killed, held, damaged, and what they wrote."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from barnabas.cli.cluster_files import (
    VOTERS,
    controllers_of,
    plan_for,
    plan_of,
    voters_told,
    with_controllers,
    write_settings,
)
from barnabas.cli.cluster_processes import find, gone, stem, tell
from barnabas.protocol.batch import HEADER_SIZE, batches
from tests.cli.process import BOUND_S, clean_environment, run
from tests.cli.small_disk import SmallDisk

SETTINGS: Final = (
    "broker.session.timeout.ms=3000",
    "broker.heartbeat.interval.ms=500",
    "replica.lag.time.max.ms=3000",
    "offsets.topic.num.partitions=5",
)
GROWN_CALLS_MAX: Final = 5
KEPT: Final = ("__cluster", "meta.properties", "quorum-state", "barnabas-ledger")
"""What a controller cannot lose: which is beyond the fault model."""


class Brokers:
    """Three or more, of which some are controllers, and those that are added.

    The data of broker 3 may lie on a small disk.
    """

    def __init__(self, directory: Path, *, small_disk: bool, controllers: int = 3) -> None:
        self.directory = directory
        self.plan = plan_for(directory, max(3, controllers), 0)
        with_controllers(directory, self.plan, {VOTERS: voters_told(self.plan.brokers[:controllers])})
        self.disk: SmallDisk | None = None
        if small_disk:
            with contextlib.suppress(OSError):  # this machine gives none
                self.disk = SmallDisk(directory / "small", "400m", "10000")
        if self.disk is not None:
            file = Path(f"{stem(directory, 3)}.properties")
            text = file.read_text()
            file.write_text(text.replace(f"log.dirs={directory}/broker-3\n", f"log.dirs={self.disk.data}\n"))
        write_settings(directory, SETTINGS)
        self._began: dict[int, subprocess.Popen[str]] = {}
        for node_id in self.ids():
            self.launch(node_id)
        for node_id in self.ids():
            self.serves(node_id)

    def ids(self) -> list[int]:
        return [one.node_id for one in plan_of(self.directory).brokers]

    @property
    def servers(self) -> str:
        return self.plan.bootstrap_servers

    # Lives

    def launch(self, node_id: int) -> None:
        """Begin a process; `serves` waits for it."""
        where = stem(self.directory, node_id)
        inside = self.disk.inside if self.disk is not None and node_id == 3 else ()
        words = [word for one in SETTINGS for word in ("--set", one)]
        options = ("--config", f"{where}.properties", "--log-format", "text", *words)
        with open(f"{where}.log", "a") as log:
            process = subprocess.Popen(
                [*inside, sys.executable, "-m", "barnabas.broker", *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=clean_environment(),
            )
        Path(f"{where}.pid").write_text(f"{process.pid}\n")
        self._began[node_id] = process

    def serves(self, node_id: int) -> None:
        """Wait until it says so.

        Raises:
            AssertionError: it ended instead.
        """
        stdout = self._began[node_id].stdout
        assert stdout is not None
        assert stdout.readline(), f"broker {node_id} does not serve: {self.said(node_id)[-1:]}"

    def start(self, node_id: int) -> None:
        self.launch(node_id)
        self.serves(node_id)

    def kill(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGKILL)
        self._wait(node_id)

    def stop(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGTERM)
        self._wait(node_id)

    def pause(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGCONT)

    def verb(self, *words: str) -> None:
        """A command of `barnabas cluster`.

        Raises:
            AssertionError: it failed.
        """
        where = () if words[0] == "drain" else ("--dir", str(self.directory))
        done = run("cluster", *words, *where)
        assert not done.returncode, f"{words}: {done.stderr}"

    def grow(self, until: Callable[[], str]) -> list[str]:
        """`barnabas cluster grow` until three are controllers, and all serve; what each call came to.

        Args:
            until: called while the first call runs; "kill" ends that, too, wherever it is.
        """
        told: list[str] = []
        while len(controllers_of(self.directory)) < 3 or not told:
            assert len(told) < GROWN_CALLS_MAX, f"it does not grow: {told}"
            command = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "cluster", "grow", "--dir", str(self.directory)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=clean_environment(),
            )
            if not told and until() == "kill":
                command.kill()
            _, wrong = command.communicate(timeout=4 * BOUND_S)
            told.append(wrong.strip().rpartition("\n")[2] or f"ended with {command.returncode}")
            for node_id, process in list(self._began.items()):  # it has started others in their place
                if process.poll() is not None:
                    self._wait(node_id)
        for node_id in self.ids():
            if find(self.directory, node_id) is None:
                self.start(node_id)
        return told

    def hit(self, node_id: int) -> bool:
        """Kill a broker, if it runs."""
        running = find(self.directory, node_id)
        if running is not None:
            tell(running.pid, signal.SIGKILL)
        return running is not None

    def _signal(self, node_id: int, number: int) -> None:
        running = find(self.directory, node_id)
        assert running is not None, f"broker {node_id} has ended: {self.said(node_id)[-3:]}"
        tell(running.pid, number)

    def _wait(self, node_id: int) -> None:
        """Until a process has ended; one that `add` began is nobody's child here, and was forgotten."""
        process = self._began.pop(node_id, None)
        if process is None:
            running = find(self.directory, node_id)
            assert running is None or gone(self.directory, {node_id: running}, BOUND_S)
            return
        process.wait(BOUND_S)
        assert process.stdout is not None
        process.stdout.close()

    def end(self, *, orderly: bool = True) -> None:
        """Stop whoever runs, and let go of the disk."""
        running = [node_id for node_id in self.ids() if find(self.directory, node_id) is not None]
        for node_id in running:
            self._signal(node_id, signal.SIGCONT)
            self._signal(node_id, signal.SIGTERM if orderly else signal.SIGKILL)
        for node_id in running:
            self._wait(node_id)

    def let_go(self) -> None:
        if self.disk is not None:
            self.disk.end()

    # What lies on their disks

    def data(self, node_id: int) -> Path:
        return self.disk.seen if self.disk is not None and node_id == 3 else Path(stem(self.directory, node_id))

    def logs(self, node_id: int, topic: str, partitions: int) -> list[bytes]:
        """The bytes of all batches of each partition."""
        found = []
        for number in range(partitions):
            files = sorted((self.data(node_id) / f"{topic}-{number}").glob("*.log"))
            found.append(b"".join(file.read_bytes() for file in files))
        return found

    def said(self, node_id: int) -> list[str]:
        return Path(f"{stem(self.directory, node_id)}.log").read_text(errors="replace").splitlines()

    def wipe(self, node_id: int) -> None:
        """Take all partitions away from a broker that does not run."""
        for each in sorted(self.data(node_id).iterdir()):
            if each.name.startswith(KEPT):
                continue
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()

    def damage(self, node_id: int, chance: random.Random, count: int, *, records: bool) -> list[str]:
        """Damage some files of a broker that does not run; what was done to which.

        `records`: also those that hold records. After a clean stop nobody looks for a wrong bit in these.
        """
        files = [file for file in self._files(node_id) if records or file.suffix != ".log"]
        done = []
        for file in chance.sample(files, min(count, len(files))):
            data = file.read_bytes()
            how = chance.choice(("flipped", "cut", "emptied", "removed", "zeroed"))
            done.append(f"{file.relative_to(self.data(node_id))} {how}")
            if how == "removed" or not data:
                file.unlink()
                continue
            at = chance.randrange(len(data))
            changed = {
                "flipped": data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
                "cut": data[:at],
                "emptied": b"",
                "zeroed": data[:at] + bytes(len(data) - at),
            }
            file.write_bytes(changed[how])
        return done

    def flip(self, node_id: int, partition: str, chance: random.Random) -> str:
        """Turn a bit that a batch's sum covers, under a broker that runs; where."""
        file = chance.choice(
            [each for each in sorted((self.data(node_id) / partition).glob("*.log")) if each.stat().st_size]
        )
        data = file.read_bytes()
        position, size = chance.choice(list(batches(data)))
        at, bit = position + chance.randrange(HEADER_SIZE, size), 1 << chance.randrange(8)
        with open(file, "r+b") as log:
            log.seek(at)
            log.write(bytes([data[at] ^ bit]))
        return f"{partition}/{file.name}, byte {at}"

    def _files(self, node_id: int) -> Iterator[Path]:
        where = self.data(node_id)
        for file in sorted(where.rglob("*")):
            if file.is_file() and not str(file.relative_to(where)).startswith(KEPT):
                yield file
