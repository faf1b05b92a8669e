from __future__ import annotations

import errno
import struct
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker import introduction, pages
from barnabas.broker.account import RECEIVED, Account
from barnabas.broker.host.receive import (
    GROWN_BYTES_MAX,
    GROWTH,
    OWN_BYTES_MIN,
    POOL_BYTES_MAX,
    STRANGERS_BYTES_MAX,
    ReceiveBuffers,
    Receiver,
    is_leased,
)
from barnabas.protocol.errors import ProtocolError

MAX = 104_857_600


def feed(receiver: Receiver, data: bytes) -> int:
    """Receive once, as much as the target takes."""
    target = memoryview(receiver.target())
    count = min(len(target), len(data))
    assert count, "a target without room would stall the connection"
    target[:count] = data[:count]
    target.release()
    receiver.received(count)
    return count


def take(receiver: Receiver) -> bytes:
    view = receiver.next_frame()
    assert view is not None
    return bytes(view)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@settings(max_examples=100)
@given(
    payloads=st.lists(st.integers(0, 3000) | st.integers(60_000, 300_000), max_size=6),
    cuts=st.lists(st.integers(1, 9) | st.integers(20_000, 70_000), max_size=12).map(lambda some: [*some, 50_000]),
    handle=st.lists(st.integers(0, 3), min_size=1, max_size=20),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut_and_whenever_they_are_handled(
    payloads: list[int], cuts: list[int], handle: list[int]
) -> None:
    sent = [bytes([index % 251]) * size for index, size in enumerate(payloads)]
    stream = b"".join(map(frame, sent))
    buffers = ReceiveBuffers()
    receiver = Receiver(buffers, MAX)
    got: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        chunk = stream[position : position + cuts[turn % len(cuts)]]
        position += feed(receiver, chunk)
        for _ in range(handle[turn % len(handle)]):
            view = receiver.next_frame()
            if view is None:
                break
            got.append(bytes(view))
            del view
        receiver.settle()
        # Another connection receives into the shared buffer: nothing of ours may lie in it.
        buffers.shared()[: len(chunk)] = b"\xff" * len(chunk)
        turn += 1
    while (view := receiver.next_frame()) is not None:
        got.append(bytes(view))
    receiver.settle()
    assert got == sent
    assert not receiver.has_bytes
    assert receiver.held_bytes == 0


def test_memory_follows_the_bytes_received_never_the_length_promised() -> None:
    buffers = ReceiveBuffers()
    receiver = Receiver(buffers, MAX)
    feed(receiver, struct.pack(">i", MAX) + b"x")
    assert receiver.next_frame() is None
    receiver.settle()
    assert receiver.held_bytes == OWN_BYTES_MIN
    received = 5
    while received < 3_000_000:
        received += feed(receiver, b"x" * 10_000)
        assert receiver.next_frame() is None
        receiver.settle()
        assert receiver.held_bytes <= max(OWN_BYTES_MIN, 2 * GROWTH * received)


@pytest.mark.parametrize("length", [-1, -(2**31), MAX + 1, 2**31 - 1])
def test_nonsense_lengths_are_refused(length: int) -> None:
    receiver = Receiver(ReceiveBuffers(), MAX)
    feed(receiver, struct.pack(">i", length))
    with pytest.raises(ProtocolError, match=f"frame length {length} is not between 0 and {MAX}"):
        receiver.next_frame()


def test_a_frame_of_no_bytes_is_a_frame() -> None:
    receiver = Receiver(ReceiveBuffers(), MAX)
    feed(receiver, frame(b"") + frame(b"a"))
    assert take(receiver) == b""
    assert take(receiver) == b"a"


def test_a_lease_on_the_shared_buffer_keeps_its_bytes() -> None:
    buffers = ReceiveBuffers()
    receiver = Receiver(buffers, MAX)
    feed(receiver, frame(b"kept"))
    leased = receiver.next_frame()
    assert leased is not None
    receiver.settle()
    first = buffers.current
    feed(Receiver(buffers, MAX), b"other bytes of another connection")
    assert buffers.current is not first
    assert bytes(leased) == b"kept"


def test_without_a_lease_the_shared_buffer_is_used_again() -> None:
    buffers = ReceiveBuffers()
    receiver = Receiver(buffers, MAX)
    first = buffers.current
    for _ in range(3):
        feed(receiver, frame(b"a"))
        assert take(receiver) == b"a"
        receiver.settle()
    assert buffers.shared() is first


def test_a_lease_on_an_own_buffer_keeps_it_from_being_used_again() -> None:
    buffers = ReceiveBuffers()
    payload = bytes(range(256)) * 1024

    def receive() -> memoryview | None:
        receiver = Receiver(buffers, MAX)
        stream, position = frame(payload), 0
        while position < len(stream):
            position += feed(receiver, stream[position : position + 50_000])
            found = receiver.next_frame()
            receiver.settle()
        assert receiver.held_bytes == 0
        return found

    first = receive()
    second = receive()
    assert first is not None
    assert second is not None
    assert bytes(first) == bytes(second) == payload
    assert first.obj is not second.obj
    kept = first.obj
    del first, second
    third = receive()
    assert third is not None
    assert third.obj is not kept
    assert bytes(third) == payload


def test_the_pool_is_bounded() -> None:
    buffers = ReceiveBuffers()
    for _ in range(100):
        buffers.give(bytearray(1 << 20))
    assert buffers.pooled_bytes <= POOL_BYTES_MAX
    taken = [buffers.take(10, 1 << 20) for _ in range(100)]
    assert buffers.pooled_bytes == 0
    assert sum(len(one) == 1 << 20 for one in taken) == POOL_BYTES_MAX >> 20


def test_is_leased_sees_views_and_views_of_views() -> None:
    buffer = bytearray(b"abc")
    assert not is_leased(buffer)
    view = memoryview(buffer)[1:]
    assert is_leased(buffer)
    inner = view[1:]
    view.release()
    assert is_leased(buffer)
    inner.release()
    assert not is_leased(buffer)
    assert buffer == b"abc"


LARGE = 5 * GROWN_BYTES_MAX


def test_a_large_buffer_grows_where_it_lies_some_at_a_time() -> None:
    """Copied into a larger one, a frame of 100 MiB stopped the loop for 80 ms."""
    receiver = Receiver(ReceiveBuffers(), 2 * LARGE)
    data = struct.pack(">i", LARGE) + bytes(range(250)) * (LARGE // 250 + 1)
    at = 0
    sizes = [0]
    own: object = None
    while at < LARGE + 4:
        at += feed(receiver, data[at : min(at + 1_000_000, LARGE + 4)])
        found = receiver.next_frame()
        if found is not None:
            assert found == data[4 : LARGE + 4]
            break
        receiver.settle()
        sizes.append(receiver.held_bytes)
        if receiver.held_bytes > GROWN_BYTES_MAX:
            own = receiver._own if own is None else own
            assert receiver._own is own
    assert max(later - earlier for earlier, later in pairwise(sizes)) <= GROWN_BYTES_MAX


def test_a_frame_that_comes_in_pieces_is_received_while_memory_is_short() -> None:
    """Its buffer was as large as what was there, and the loop ended the connection for a target of no bytes."""
    account = Account(160 << 20)
    account.charge(77, RECEIVED, account.low + 1)
    assert account.short
    receiver = Receiver(ReceiveBuffers(account), MAX)
    data = frame(bytes(30_000))
    at = 0
    for _ in range(100):
        at += feed(receiver, data[at : at + 5_000])
        found = receiver.next_frame()
        if found is not None:
            assert len(found) == 30_000
            return
        receiver.settle()
        assert receiver.held_bytes <= at + OWN_BYTES_MIN
    raise AssertionError(f"{at} bytes are received, and no more are taken")


def test_the_whole_of_a_frame_is_charged_before_it_is_received() -> None:
    account = Account(160 << 20)
    receiver = Receiver(ReceiveBuffers(account), LARGE)
    data = frame(bytes(LARGE - 4))
    at = feed(receiver, data[:100_000])
    assert receiver.next_frame() is None
    receiver.settle()
    receiver.make_whole()
    assert account.total == LARGE
    account.charge(77, RECEIVED, account.low)
    while receiver.next_frame() is None:
        receiver.settle()
        assert account.total == LARGE + account.low
        at += feed(receiver, data[at : at + 1_000_000])
    receiver.settle()
    receiver.clear()
    account.release(77, RECEIVED, account.low)
    assert account.total == receiver._buffers.pooled_bytes


def test_the_next_frame_is_known_by_its_api_once_it_is_whole() -> None:
    account = Account()
    receiver = Receiver(ReceiveBuffers(account), MAX)
    commit = frame(b"\x00\x08\x00\x0arest")
    assert not receiver.next_asks_for(8)
    feed(receiver, commit + commit[:-1])
    assert receiver.next_asks_for(8)
    assert not receiver.next_asks_for(9)
    take(receiver)
    assert not receiver.next_asks_for(8), "its last byte is missing"
    receiver.clear()
    for broken in (frame(b""), frame(b"\x00"), struct.pack(">ih", -1, 8), struct.pack(">ih", 2**31 - 1, 8)):
        feed(receiver, broken)
        assert not receiver.next_asks_for(8)
        receiver.clear()


def test_no_setting_is_named_to_a_stranger_among_brokers() -> None:
    assert STRANGERS_BYTES_MAX == introduction.REQUEST_BYTES_MAX
    receiver = Receiver(ReceiveBuffers(), STRANGERS_BYTES_MAX)
    feed(receiver, struct.pack(">i", STRANGERS_BYTES_MAX + 1))
    with pytest.raises(ProtocolError, match=r"is not between 0 and 1024$"):
        receiver.next_frame()


def test_a_frame_that_came_alone_is_handed_out_without_being_taken_in() -> None:
    receiver = Receiver(ReceiveBuffers(), 100)

    def came(data: bytes) -> bytes | None:
        target = memoryview(receiver.target())
        target[: len(data)] = data
        target.release()
        only = receiver.only_frame(len(data))
        return None if only is None else bytes(only)

    assert [came(frame(b"x" * size)) for size in (0, 1, 100)] == [b"", b"x", b"x" * 100]
    assert not receiver.has_bytes
    for other in (b"", b"\0\0\0", frame(b"abc")[:-1], frame(b"abc") + b"\0", frame(b"x" * 101)):
        assert came(other) is None, "too little, too much, more than a frame may have"
    assert came(struct.pack(">i", -1)) is None
    feed(receiver, frame(b"abc")[:5])
    assert receiver.settle()
    assert receiver.only_frame(len(frame(b"abc"))) is None, (
        "it has an own buffer; what the shared one holds came before"
    )


@pytest.mark.parametrize("why", ["somebody looks", "no room for a map"])
def test_a_large_buffer_that_cannot_grow_is_another_one(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver(ReceiveBuffers(), 2 * LARGE)
    data = struct.pack(">i", LARGE) + bytes(range(250)) * (LARGE // 250 + 1)

    def no_room(*args: object, **options: object) -> None:
        raise OSError(errno.ENOMEM, "no room for another map")

    if why == "no room for a map":
        monkeypatch.setattr(pages, "mmap", SimpleNamespace(mmap=no_room, MAP_PRIVATE=0, MAP_ANONYMOUS=0))
    at, frame = 0, None
    looks: list[memoryview] = []
    while frame is None:
        at += feed(receiver, data[at : min(at + 1_000_000, LARGE + 4)])
        frame = receiver.next_frame()
        if frame is None:
            receiver.settle()
            if why == "somebody looks":
                looks.append(receiver.unread())
    assert isinstance(receiver._own, bytearray) == (why == "no room for a map")
    assert frame == data[4 : LARGE + 4]
    assert all(look == data[: len(look)] for look in looks)
