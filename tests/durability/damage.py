"""Damaged forms of a file: each class of its bytes with a wrong bit, cuts where something begins or ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.durability.faults import LOG, METADATA, stored_batches

SNAPSHOT: Final = ".checkpoint"
"""A snapshot of the metadata: batches, as in a segment."""
BATCH_FIELDS: Final = {
    "base offset": (0, 7),
    "length": (8, 11),
    "leader epoch": (12, 15),
    "magic": (16,),
    "sum": (17, 20),
    "attributes": (21, 22),
    "last offset delta": (23, 26),
    "first timestamp": (27, 34),
    "largest timestamp": (35, 42),
    "producer id": (43, 50),
    "producer epoch": (51, 52),
    "sequence": (53, 56),
    "count": (57, 60),
    "body": (61,),
}
"""First and last byte of each field of a batch's head (Kafka's DefaultRecordBatch), and the first of its body."""
CUTS: Final = ("base offset", "length", "magic", "sum", "count", "body")
"""Before these a file is cut: at the edge of a batch, within its frame, its head, and at the head's end."""
OUTSIDE_THE_SUM: Final = ("base offset", "leader epoch")
"""See "What this does not cover, plainly" in docs/DURABILITY.md: nothing but their order tells that these are wrong."""
TEXT_BYTES: Final = 32
"""So much at the beginning and the end of a small file is damaged, every second byte: a whole entry, the sum."""


REFUSED: Final = ("metadata segment", "metadata checkpoint", "meta.properties")
"""Kinds of files without which a start is refused."""
REMEDY: Final = re.compile(
    r"barnabas log |restore|; start a newer|write cluster.id=|move this file|set this file aside"
)
"""What a refusal tells to do."""


class Damage(NamedTuple):
    """What a file holds instead (None: it is gone), what that is called, and the first byte (position) that differs."""

    way: str
    data: bytes | None
    position: int


def kind_of(path: str) -> str:
    """What sort of file it is."""
    directory, _, name = path.rpartition("/")
    if directory.endswith(("-delete", "-stray")):
        return directory[directory.rindex("-") :]
    if not directory:
        return name
    kind = name.rpartition(".")[2] if name[0].isdigit() else name
    kind = "segment" if kind == "log" else kind
    return f"metadata {kind}" if path.startswith(METADATA) else kind


def look_at_refusal(sentence: str, path: str) -> None:
    """A refusal is right for the metadata and the identity of the directory; it names the place and a remedy."""
    assert kind_of(path) in REFUSED, f"refused: {sentence}"
    place = METADATA[:-1] if path.startswith(METADATA) else path
    assert place in sentence, f"the refusal names no place: {sentence}"
    assert REMEDY.search(sentence), f"the refusal names no remedy: {sentence}"


def ways(path: str, data: bytes, other: bytes | None) -> Iterator[Damage]:
    """All damages of a file; `other` is one of its kind that belongs elsewhere, or an earlier state of it."""
    yield Damage("removed", None, 0)
    yield Damage("emptied", b"", 0)
    yield Damage("garbage appended", data + b"\xa5" * 100, len(data))
    yield Damage("doubled tail", data + data[-61:], len(data))
    if other is not None and other != data:
        yield Damage("another of its kind", other, 0)
    if data and (path.endswith(LOG) or (path.startswith(METADATA) and path.endswith(SNAPSHOT))):
        yield from _of_batches(data)
    else:
        yield from _of_bytes(data)


def _flipped(data: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= bit
    return bytes(changed)


def _of_batches(data: bytes) -> Iterator[Damage]:
    found = stored_batches(data)
    for batch in {one.start: one for one in (found[0], found[-1])}.values():
        for name, offsets in BATCH_FIELDS.items():
            for offset in offsets:
                at = batch.start + offset
                yield Damage(f"bit of {name} at {at}", _flipped(data, at, 0x01 if offset % 2 else 0x10), at)
            if name in CUTS and batch.start + offsets[0]:
                cut = batch.start + offsets[0]
                yield Damage(f"cut before {name} at {cut}", data[:cut], batch.start)
        tail = batch.end - 1
        yield Damage(f"bit of the tail at {tail}", _flipped(data, tail, 0x40), batch.start)
        yield Damage(f"cut in the tail at {tail}", data[:tail], batch.start)


def _of_bytes(data: bytes) -> Iterator[Damage]:
    size = len(data)
    near = [at for at in range(size) if at < TEXT_BYTES or at >= size - TEXT_BYTES]
    for at in near if size <= TEXT_BYTES else near[::2]:
        yield Damage(f"bit at {at}", _flipped(data, at, 0x01), at)
    for at in near[1:] if size <= 16 else [at for at in near[1:] if at % 8 == 0 or data[at - 1 : at] == b"\n"]:
        yield Damage(f"cut at {at}", data[:at], at)
