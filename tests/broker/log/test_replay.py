"""Reading a whole log in bounded steps, for who keeps his state in it."""

from __future__ import annotations

import pytest

from barnabas.broker.log import Log
from barnabas.broker.log.replay import RECORDS_PER_STEP, replay
from barnabas.broker.ports import NotYet
from tests.broker.log.harness import append


def test_all_records_come_in_order_in_pieces_of_bounded_size(memory):
    log = memory.new_log()
    many = [b"%d" % number for number in range(2 * RECORDS_PER_STEP + 1)]
    append(log, b"a", b"b")
    append(log, *many, codec=1)
    append(log, b"c")
    seen: list[tuple[int, int, bytes | None]] = []
    sizes = []

    def take(header, records):
        sizes.append(len(records))
        seen.extend((header.base_offset, record.offset, record.value) for record in records)

    def whole():
        read_bytes = yield from replay(log, 0, take)
        assert read_bytes == log.size_bytes

    pieces_after_step = []
    for waits in whole():
        assert waits is None
        pieces_after_step.append(len(sizes))
    assert [(offset, value) for _, offset, value in seen] == list(enumerate([b"a", b"b", *many, b"c"]))
    assert {base for base, offset, _ in seen if 2 <= offset < 2 + len(many)} == {2}
    assert max(sizes) == RECORDS_PER_STEP
    assert max(later - earlier for earlier, later in zip([0, *pieces_after_step], pieces_after_step, strict=False)) <= 2


def test_it_begins_where_it_is_asked_to(memory):
    log = memory.new_log()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    seen: list[bytes | None] = []
    for _ in replay(log, 1, lambda _, records: seen.extend(record.value for record in records)):
        pass
    assert seen == [b"b", b"c"]


def test_what_is_not_in_memory_is_waited_for_and_read_again(memory, monkeypatch):
    log = memory.new_log()
    append(log, b"a")
    reads = []
    real = Log.read

    class Token:
        def on_ready(self, callback):
            raise AssertionError("who runs the job waits")

    def cold(*asked):
        reads.append(asked)
        if len(reads) == 1:
            raise NotYet(token)
        return real(*asked)

    token = Token()
    monkeypatch.setattr(Log, "read", cold)
    seen: list[bytes | None] = []
    steps = replay(log, 0, lambda _, records: seen.extend(record.value for record in records))
    assert next(steps) is token
    assert not seen
    assert next(steps) is None
    assert seen == [b"a"]
    assert reads[0] == reads[1]
    with pytest.raises(StopIteration):
        next(steps)
