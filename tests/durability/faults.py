"""What a machine does to a broker's files: bits that flip, tails that tear, files that go, a disk that is full."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.protocol.batch import batch_size, read_header
from barnabas.protocol.ids import Buffer
from tests.durability.model import Broken, PartitionModel
from tests.durability.target import Refused
from tests.durability.workload import Workload

LOG = ".log"
HEADER_BYTES = 61
METADATA = "__cluster_metadata-0/"
CLOSING = "barnabas-closing-files"


@dataclass(slots=True, frozen=True)
class Stored:
    """A batch as it lies in a file: where its bytes begin and end, and its offsets."""

    start: int
    end: int
    base_offset: int
    next_offset: int


def stored_batches(data: Buffer) -> list[Stored]:
    """The whole batches of a segment file, as far as it can be read."""
    found = []
    position = 0
    while position + HEADER_BYTES <= len(data):
        size = batch_size(data, position)
        if size < HEADER_BYTES or position + size > len(data):
            break
        header = read_header(data, position)
        found.append(Stored(position, position + size, header.base_offset, header.next_offset))
        position += size
    return found


class Faults:
    """Faults that are drawn from the workload's seed, and told to its model."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.target = work.target
        self.random = work.random
        self._closed_before: bytes | None = None
        self.all_is_noted = False
        """The broker came to a clean end: how far each log reaches stands in its checkpoints and in the ledger."""

    def _segments(self, part: PartitionModel) -> list[str]:
        """Files of a partition's segments that hold batches, oldest first."""
        inside = f"{part.where}/"
        names = [path for path in self.target.files() if path.startswith(inside) and path.endswith(LOG)]
        return [path for path in names if self._load(path)]

    def _load(self, path: str) -> bytes:
        """A file; nothing of one that the living broker takes away between two looks."""
        try:
            return self.target.load(path)
        except FileNotFoundError:
            return b""

    def flip_in_a_sealed_segment(self) -> None:
        """One bit of a batch that nobody writes to any more."""
        part = self.work.pick()
        if part is None:
            return
        sealed = self._segments(part)[:-1]
        if not sealed:
            return
        path = self.random.choice(sealed)
        data = bytearray(self._load(path))
        if not data:
            return
        batch = self.random.choice(stored_batches(data))
        position = self.random.randrange(min(batch.start + HEADER_BYTES, batch.end - 1), batch.end)
        data[position] ^= 1 << self.random.randrange(8)
        self.work.tell(f"a bit of {path[-30:]} flips at {position}, offset {batch.base_offset}")
        part.damaged(batch.base_offset)
        self.target.put(path, bytes(data))

    def tear_a_tail(self) -> None:
        """The last file of a partition ends in the middle of a batch. The broker must be down."""
        part = self.work.pick()
        segments = self._segments(part) if part else []
        if part is None or not segments:
            return
        data = self.target.load(segments[-1])
        found = stored_batches(data)
        batch = self.random.choice(found[-3:])
        size = self.random.randrange(batch.start + 1, batch.end)
        self.work.tell(f"{segments[-1][-30:]} is cut at {size}, offset {batch.base_offset}")
        part.damaged(batch.base_offset)
        self.target.put(segments[-1], data[:size])

    def remove_a_segment(self) -> None:
        """A file is gone. The broker must be down.

        After a kill nothing tells that there was a last one: its end is noted nowhere, and a log may end before it.
        """
        part = self.work.pick()
        segments = self._segments(part) if part else []
        if not self.all_is_noted:
            segments = segments[:-1]
        if part is None or not segments:
            return
        path = self.random.choice(segments)
        first = stored_batches(self.target.load(path))[0].base_offset
        self.work.tell(f"{path[-30:]} is removed, offset {first}")
        # with the first file goes the log start: what retention took lies at or above the new one, and is not there
        part.damaged(0 if path == segments[0] else min(first, part.start_asked))
        self.target.put(path, None)

    def change_the_closing_files(self) -> None:
        """What a clean stop wrote for many logs is gone, or is that of an earlier stop. The broker must be down."""
        if CLOSING not in self.target.files():
            return
        whole = self.target.load(CLOSING)
        data = self.random.choice([None, self._closed_before])
        self.work.tell(f"{CLOSING} ({len(whole)} bytes) is {'removed' if data is None else 'an earlier one'}")
        self._closed_before = whole
        self.target.put(CLOSING, data)

    def damage_the_metadata(self) -> None:
        """The metadata log is damaged: the start refuses and names the place, or nothing is missing.

        Whole batches that are gone are missed below what the ledger says, which is all only after a clean end:
        "a cut behind that, after a kill, at the very edge of a batch, cannot be seen" (docs/DURABILITY.md).
        """
        files = [path for path in self.target.files() if path.startswith(METADATA) and path.endswith(LOG)]
        files = [path for path in files if self.target.load(path)]
        if not files:
            return
        path = self.random.choice(files)
        whole = self.target.load(path)
        way = self.random.choice(["flip", "flip", "flip", *(["empty", "remove"] if self.all_is_noted else [])])
        damaged: bytes | None = None
        if way == "flip":
            changed = bytearray(whole)
            changed[self.random.randrange(len(whole))] ^= 1 << self.random.randrange(8)
            damaged = bytes(changed)
        elif way == "empty":
            damaged = b""
        self.work.tell(f"{way} {path}")
        before = {name: self.target.load(name) for name in self.target.files()}
        self.target.put(path, damaged)
        try:
            self.target.start()
        except Refused as refused:
            if METADATA[:-1] not in refused.sentence:
                raise Broken(f"the refusal of damaged metadata names no place: {refused.sentence}") from refused
            self.target.kill()
            left = set(self.target.files())
            for name, data in before.items():
                if name not in left or self.target.load(name) != data:
                    self.target.put(name, data)
            return
        self.work.check()
        self.target.kill()

    def fill_the_disk(self) -> None:
        """The disk is full while records come, and has room again: everything takes writes then."""
        self.work.tell("the disk is full")
        self.target.fill(True)
        self.work.full = True
        for _ in range(self.random.randrange(1, 4)):
            self.work.burst()
        self.target.rest(self.random.choice([20, 300]))
        self.work.full = False
        self.target.fill(False)
        self.work.tell("the disk has room")
        self.target.rest(1000)
        self.work.write_everywhere()
