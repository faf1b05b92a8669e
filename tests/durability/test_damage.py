"""A walk over every file of a data directory, and every way in which one can be damaged.

After each the broker starts, or refuses with a sentence that names the place where that is the metadata or the identity
of the directory; it serves all that lies elsewhere, and nothing corrupt as good.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.durability.faults import METADATA
from tests.durability.memory_target import MemoryTarget
from tests.durability.run import Run
from tests.durability.target import Refused

STORY = "memory/damage/1"
DEEDS = 60
MAY_REFUSE = (METADATA, "meta.properties", "barnabas-")


class Directory:
    """A data directory that was lived in, and what must be in it."""

    def __init__(self, *, clean: bool) -> None:
        self.target = MemoryTarget(STORY)
        self.run = Run(STORY, self.target)
        while self.run.deeds < DEEDS or not self.run.serving:
            self.run.step()
        (self.run.stop if clean else self.run.kill)()
        self.files = {path: self.target.load(path) for path in self.target.files()}
        self.topics = self.run.work.topics

    def close(self) -> None:
        self.target.close()

    def damaged(self, path: str, data: bytes | None) -> None:
        """Put everything back as it was but for one file, start, and compare."""
        target, work = self.target, self.run.work
        for there in set(target.files()) - set(self.files):
            target.put(there, None)
        for name, content in {**self.files, path: data}.items():
            if name not in target.files() or (content is not None and target.load(name) != content):
                target.put(name, content)
            elif content is None:
                target.put(name, None)
        work.topics = copy.deepcopy(self.topics)
        for part in work.parts():
            part.start_done = 0
            part.producer = None
            if path.startswith(f"{part.where}/"):
                part.damaged(0)
            elif "checkpoint" in path:
                part.start_asked = part.end  # a changed digit has no sum
        try:
            target.start()
        except Refused as refused:
            if not path.startswith(MAY_REFUSE):
                raise
            if path.endswith(".log") and path.rpartition("/")[0] not in refused.sentence:
                raise AssertionError(f"the refusal names no place: {refused.sentence}") from refused
            return
        finally:
            work.fuse = None
        work.check()
        target.kill()


def ways(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Damaged forms of a file: one bit in each class of bytes that a sum or a length guards, and cuts.

    Base offset and leader epoch are outside the sum, see docs/DURABILITY.md.
    """
    yield "removed", None
    yield "emptied", b""
    yield "doubled tail", data + data[-61:]
    yield "garbage appended", data + b"\xa5" * 100
    for position in sorted({at for at in (8, 16, 17, 21, 43, 57, 61, len(data) - 1) if 0 <= at < len(data)}):
        changed = bytearray(data)
        changed[position] ^= 0x10
        yield f"bit at {position}", bytes(changed)
    for size in sorted({at for at in (1, 60, len(data) // 2, len(data) - 1) if 0 < at < len(data)}):
        yield f"cut at {size}", data[:size]


def examples(files: dict[str, bytes]) -> dict[str, bytes]:
    """The two largest files of each kind."""
    kinds: dict[tuple[bool, str], list[str]] = {}
    for path in sorted(files, key=lambda path: -len(files[path])):
        name = path.rpartition("/")[2]
        kinds.setdefault((path.startswith(METADATA), name.lstrip("0123456789")), []).append(path)
    return {path: files[path] for paths in kinds.values() for path in paths[:2]}


@pytest.mark.parametrize("clean", [True, False])
def test_whatever_file_is_damaged_the_rest_is_served(clean: bool) -> None:
    directory = Directory(clean=clean)
    faults = []
    count = 0
    for path, data in examples(directory.files).items():
        for way, damaged in ways(data):
            count += 1
            try:
                directory.damaged(path, damaged)
            except (AssertionError, OSError) as error:
                faults.append(f"{path}, {way}: {str(error)[:300]}")
            directory.target.kill()
    directory.close()
    assert count > 100
    assert not faults, "\n".join(faults)
