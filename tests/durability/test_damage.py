"""A walk over every kind of file of a data directory, and every way in which one can be damaged.

After each the broker starts, or refuses with a sentence that names the place and a remedy where that is the metadata or
the identity of the directory; it serves all that lies elsewhere, nothing corrupt as good, and names what is lost.

Base offset and leader epoch of a batch are outside its sum, and a whole segment of another partition has right sums:
see "What this does not cover, plainly" in docs/DURABILITY.md. There the broker starts, and serves no record that was
never written. What stands behind the last batch of a sealed segment is not looked for after a clean end (the line of
the bit flip below the recovery point): consumers refuse it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from barnabas.broker.log import manager
from barnabas.broker.log.checkpoint import OFFSET_FILES
from tests.durability.damage import OUTSIDE_THE_SUM, Damage, kind_of, look_at_refusal, ways
from tests.durability.faults import CLOSING, LOG, METADATA, stored_batches
from tests.durability.memory_target import MemoryTarget
from tests.durability.model import PartitionModel, Read
from tests.durability.reading import read_all
from tests.durability.target import Refused
from tests.durability.workload import Workload

SETTINGS = {
    "segment.ms": "1000",
    "index.interval.bytes": "100",
    "file.delete.delay.ms": "60000",
    "min.cleanable.dirty.ratio": "0.01",
}
KINDS = {
    "segment",
    "index",
    "timeindex",
    "snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "metadata segment",
    "metadata index",
    "metadata timeindex",
    "metadata checkpoint",
    "metadata leader-epoch-checkpoint",
    "cut",
    "deleted",
    "-delete",
    "-stray",
    "meta.properties",
    "barnabas-ledger",
    *OFFSET_FILES,
}
CLEAN_KINDS = {CLOSING, ".kafka_cleanshutdown"}
WITH_TWO = {"segment", "snapshot", "index"}
"""Of these the first is damaged, which nobody writes to any more, and the last."""


class Unguarded(PartitionModel):
    """A partition with a fault that no sum can tell: it serves nothing that nobody wrote, and that is all."""

    def __init__(self, part: PartitionModel, written: set[bytes]) -> None:
        super().__init__(part.topic, part.number)
        self.written = written

    def compare(self, read: Read, wall_ms: int, *, clean: bool = False) -> int:
        """Every record that is served was written by somebody."""
        assert {tag for *_, tag in read.records} <= self.written, f"{self.where} serves what nobody wrote"
        return 0


class Case(NamedTuple):
    """A damaged file of the directory."""

    path: str
    damage: Damage


class Directory:
    """A data directory that was lived in, with every kind of file, and what must be in it."""

    def __init__(self, *, clean: bool) -> None:
        self.target = MemoryTarget("memory/damage/1")
        self.work = Workload("memory/damage/1", self.target)
        self.clean = clean
        self.target.start()
        self._first_life()
        self.earlier = {path: self.target.load(path) for path in self.target.files()}
        self._second_life()
        self.files = {path: self.target.load(path) for path in self.target.files()}
        self.topics = self.work.topics
        batches = [(part, batch) for part in self.work.parts() for batch in part.batches]
        self.written = {part.tag(batch, index) for part, batch in batches for index in range(len(batch.values))}

    def _first_life(self) -> None:
        work, target = self.work, self.target
        work.create("a", 2, SETTINGS)
        work.create("b", 1, SETTINGS)
        work.create("keyed", 1, {**SETTINGS, "cleanup.policy": "compact"})
        work.create("going", 1, SETTINGS)
        for _ in range(8):
            work.write_everywhere(idempotent=True)
        while not any(kind_of(path) == "metadata checkpoint" for path in target.files()):
            work.alter(work.topics["going"])
            target.rest(20)
        work.delete("going")
        part = work.topics["a"].partitions[0]
        part.start_asked = part.end // 2
        work.delete_records(part)
        target.rest(600)
        target.stop()

    def _second_life(self) -> None:
        """A log of no topic, a torn tail, and the last life before the damage."""
        work, target = self.work, self.target
        torn = work.topics["a"].partitions[1]
        for path in [path for path in target.files() if path.startswith(f"{torn.where}/")]:
            self._put(path.replace(torn.where, "lost-0"), target.load(path))
        target.start()
        for _ in range(3):
            work.write_everywhere(idempotent=True)
        target.kill()
        path = [path for path in target.files() if path.startswith(f"{torn.where}/") and path.endswith(LOG)][-1]
        data = target.load(path)
        last = stored_batches(data)[-1]
        target.put(path, data[: last.end - 3])
        torn.damaged(last.base_offset)
        target.start()
        work.check()
        torn.damaged_from = None
        for _ in range(4):
            work.write_everywhere(idempotent=True)
        target.rest(600)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(manager, "_FILES_OF_LOGS_MAX", 2)
            if self.clean:
                target.stop()
        target.kill()

    def _put(self, path: str, data: bytes) -> None:
        directory = path.rpartition("/")[0]
        if directory and not self.target.disk.exists(directory):
            self.target.disk.make_dir(directory)
        self.target.put(path, data)

    def close(self) -> None:
        self.target.close()

    def cases(self) -> Iterator[Case]:
        """Every damage of a file of each kind, of some the first and the last."""
        kinds: dict[str, list[str]] = {}
        for path in sorted(self.files):
            kinds.setdefault(kind_of(path), []).append(path)
        expected = KINDS | CLEAN_KINDS if self.clean else KINDS
        assert set(kinds) == expected, set(kinds) ^ expected
        for kind, paths in kinds.items():
            full = [path for path in paths if self.files[path]] or paths
            for path in dict.fromkeys([full[0], full[-1]] if kind in WITH_TWO else full[:1]):
                for damage in ways(path, self.files[path], self._other(path, paths)):
                    yield Case(path, damage)

    def _other(self, path: str, paths: list[str]) -> bytes | None:
        """The same file of another partition, or an earlier state of the one that there is."""
        directory = path.rpartition("/")[0]
        if directory and not path.startswith(METADATA):
            return next((self.files[one] for one in paths if one.rpartition("/")[0] != directory), None)
        return self.earlier.get(path)

    def damaged(self, case: Case) -> None:
        """Put everything back as it was but for one file, start, and compare."""
        target, work = self.target, self.work
        wanted: dict[str, bytes | None] = {**self.files, case.path: case.damage.data}
        there = set(target.files())
        for name in there - {name for name, data in wanted.items() if data is not None}:
            target.put(name, None)
        for name, data in wanted.items():
            if data is not None and (name not in there or target.load(name) != data):
                self._put(name, data)
        work.topics = copy.deepcopy(self.topics)
        touched = next((part for part in work.parts() if case.path.startswith(f"{part.where}/")), None)
        if touched is not None:
            self._allow(touched, case)
        try:
            target.start()
        except Refused as refused:
            look_at_refusal(refused.sentence, case.path)
            return
        work.check(clean=self.clean and not case.path.startswith("log-start"))
        work.retry_last()
        said = "".join(target.said)
        if touched is not None and read_all(target, touched.topic.name, touched.number).error:
            assert touched.where in said, "an error, and not a word"
        for path, data in self.files.items():
            if "-stray/" in path and path != case.path:
                assert target.load(path) == data, f"{path} was touched"

    def _allow(self, part: PartitionModel, case: Case) -> None:
        """What a damage of this partition may take."""
        way, kind = case.damage.way, kind_of(case.path)
        if kind == "segment":
            if way == "another of its kind" or any(f"bit of {name}" in way for name in OUTSIDE_THE_SUM):
                part.topic.partitions[part.number] = Unguarded(part, self.written)
                return
            found = stored_batches(self.files[case.path])
            after = [batch.base_offset for batch in found if batch.end > case.damage.position]
            part.damaged(after[0] if after else found[-1].next_offset)
        elif kind == "partition.metadata":
            part.damaged(0)


@pytest.mark.parametrize("clean", [True, False])
def test_whatever_file_is_damaged_the_rest_is_served(clean: bool) -> None:
    directory = Directory(clean=clean)
    faults = []
    count = 0
    for case in directory.cases():
        count += 1
        try:
            directory.damaged(case)
        except Exception as error:  # each is told with its case
            faults.append(f"{case.path}, {case.damage.way}: {type(error).__name__} {str(error)[:300]}")
        directory.target.kill()
    directory.close()
    assert count > 600
    assert not faults, f"{len(faults)} of {count}:\n" + "\n".join(faults)
