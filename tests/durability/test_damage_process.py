"""Damaged files on a real disk: a process that stopped or was killed, and the next one on what is left.

The walk over every byte class is that of `test_damage`, in memory. Here every kind of file is damaged in four ways,
many at a time: each kind that belongs to a log in a partition of its own, those of the whole directory together.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.log.checkpoint import OFFSET_FILES
from tests.durability.damage import REFUSED, kind_of, look_at_refusal
from tests.durability.faults import HEADER_BYTES, stored_batches
from tests.durability.model import PartitionModel
from tests.durability.process_target import ProcessTarget
from tests.durability.target import Refused
from tests.durability.workload import Workload

SETTINGS = {"segment.ms": "1000", "index.interval.bytes": "100"}
OF_LOGS = ("segment", "last segment", "index", "timeindex", "snapshot", "leader-epoch-checkpoint", "partition.metadata")
OF_ALL = (
    *OFFSET_FILES,
    "barnabas-ledger",
    ".kafka_cleanshutdown",
    "metadata index",
    "metadata timeindex",
    "metadata leader-epoch-checkpoint",
)
CLEAN_ALONE = {".kafka_cleanshutdown", "metadata leader-epoch-checkpoint"}
WAYS = ("one bit", "emptied", "cut", "removed")


class RealDirectory:
    """A data directory that a process lived in twice; `case` is a copy of it, to be damaged."""

    def __init__(self, path: Path, *, clean: bool) -> None:
        self.clean = clean
        self.origin, self.case = path / "origin", path / "case"
        self.target = ProcessTarget(self.origin)
        self.work = work = Workload("process/damage/1", self.target)
        self.target.start()
        work.create("damaged", len(OF_LOGS), SETTINGS)
        work.create("whole", 2, SETTINGS)
        for _ in range(8):
            work.write_everywhere(idempotent=True)
        while not any(kind_of(name) == "metadata checkpoint" for name in self.target.files()):
            work.alter(work.topics["whole"])
            self.target.rest(20)
        self.target.stop()
        self.target.start()
        for _ in range(3):
            work.write_everywhere(idempotent=True)
        self.target.rest(500)
        if clean:
            self.target.stop()
        else:
            self.target.kill()
        (self.origin / "barnabas.socket").unlink(missing_ok=True)
        self.topics = work.topics
        self.target.data_dir = self.case

    def files_of(self, kind: str) -> list[str]:
        """Files of the whole directory of a kind."""
        return [path for path in self.target.files() if kind_of(path) == kind]

    def damage_logs(self, way: str) -> list[str]:
        """Damage one file of each kind, each in a log of its own; which they are."""
        damaged = []
        for part, kind in zip(self.work.topics["damaged"].partitions, OF_LOGS, strict=True):
            inside = [path for path in self.target.files() if path.startswith(f"{part.where}/")]
            named = [path for path in inside if kind_of(path) == kind.rpartition(" ")[2]]
            full = [path for path in named if self.target.load(path)]
            assert full, f"{part.where} has no {kind}"
            path = full[-1] if kind == "last segment" else full[len(full) // 2]
            self.allow(part, kind, way, path)
            self.damage(path, way)
            damaged.append(path)
        return damaged

    def allow(self, part: PartitionModel, kind: str, way: str, path: str) -> None:
        """What this may take."""
        if kind == "partition.metadata":
            part.damaged(0)
        elif kind.endswith("segment"):
            found = stored_batches(self.target.load(path))
            part.damaged(found[-1 if way == "cut" else 0].base_offset)

    def damage(self, path: str, way: str) -> None:
        """Damage a file."""
        data = bytearray(self.target.load(path))
        if way == "one bit":
            data[HEADER_BYTES + 1 if path.endswith(".log") else len(data) // 2] ^= 4
        elif way == "cut":
            del data[-3 if path.endswith(".log") else len(data) // 2 :]
        self.target.put(path, None if way == "removed" else b"" if way == "emptied" else bytes(data))

    def anew(self) -> None:
        """A fresh copy, and a model of it."""
        self.target.kill()
        shutil.rmtree(self.case, ignore_errors=True)
        shutil.copytree(self.origin, self.case)
        self.work.topics = copy.deepcopy(self.topics)

    def compare(self, *, starts_are_noted: bool) -> None:
        """All that must be there is served by the next process."""
        self.target.start()
        self.work.check(clean=self.clean and starts_are_noted)
        self.work.retry_last()
        self.target.kill()


@pytest.fixture(scope="module", params=[True, False], ids=["stopped", "killed"])
def directory(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealDirectory]:
    made = RealDirectory(tmp_path_factory.mktemp("damage"), clean=request.param)
    yield made
    made.target.kill()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_damaged_on_a_real_disk_the_rest_is_served(directory: RealDirectory, way: str) -> None:
    directory.anew()
    assert len(directory.damage_logs(way)) == len(OF_LOGS)
    directory.compare(starts_are_noted=True)
    directory.anew()
    damaged = [path for kind in OF_ALL for path in directory.files_of(kind)]
    kinds = {kind_of(path) for path in damaged}
    assert kinds >= set(OF_ALL) - (set() if directory.clean else CLEAN_ALONE), kinds
    for path in damaged:
        if directory.target.load(path):
            directory.damage(path, way)
    directory.compare(starts_are_noted=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_without_metadata_or_identity_a_real_start_is_refused_or_nothing_is_missing(
    directory: RealDirectory, kind: str
) -> None:
    """A bit of `meta.properties` may matter to nobody; a snapshot that is cut is as broken as one with a wrong bit."""
    refusals = 0
    for way in ("one bit", "removed"):
        directory.anew()
        path = directory.files_of(kind)[-1]
        directory.damage(path, way)
        try:
            directory.compare(starts_are_noted=True)
        except Refused as refused:
            refusals += 1
            look_at_refusal(refused.sentence, path)
    assert refusals
