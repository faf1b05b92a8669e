"""The transport over real sockets: frames however they are cut, written buffers, nonsense, the end."""

import asyncio
import contextlib
import random
import socket
import sys
from mmap import mmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.net.host.keepalive import AGAIN_S, IDLE_S, UNANSWERED_MAX
from barnabas.net.host.transport import MAX_FRAME_BYTES, Transport

WAIT = 60


class Told:
    """Collects what the transport says."""

    def __init__(self):
        self.frames = []
        self.written = 0
        self.lost = []
        self.changed = asyncio.Event()

    def transport_open(self, transport):
        self.changed.set()

    def transport_frame(self, transport, frame):
        self.frames.append(frame)
        self.changed.set()

    def transport_written(self, transport):
        self.written += 1
        self.changed.set()

    def transport_lost(self, transport, reason):
        self.lost.append(reason)
        self.changed.set()

    async def until(self, condition):
        async with asyncio.timeout(WAIT):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


async def pair(serve, receive_buffer=-1):
    """A transport connected to `serve(reader, writer)`."""

    async def served(reader, writer):
        await serve(reader, writer)
        writer.close()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(served, "127.0.0.1", 0)
    told = Told()
    transport = Transport(1, told, -1, receive_buffer)
    port = server.sockets[0].getsockname()[1]
    await asyncio.get_running_loop().create_connection(lambda: transport, "127.0.0.1", port)

    async def end():
        server.close()
        await asyncio.wait_for(ended.wait(), WAIT)
        await server.wait_closed()

    return end, transport, told


async def test_frames_arrive_whole_however_the_bytes_are_cut():
    chance = random.Random(5)
    sent = [chance.randbytes(size) for size in (4, 5, 100, 65532, 65533, 70_000, 8, 300_000, 4)]
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in sent)

    async def serve(reader, writer):
        at = 0
        while at < len(data):
            step = chance.choice((1, 3, 1000, 50_000, 200_000))
            writer.write(data[at : at + step])
            await writer.drain()
            at += step
        await reader.read()

    end, transport, told = await pair(serve)
    await told.until(lambda: len(told.frames) == len(sent))
    assert [bytes(frame) for frame in told.frames] == sent
    transport.abort()
    await end()


@pytest.mark.parametrize("tail", [1, 1000, 600_000])
async def test_the_end_of_a_large_frame_is_not_waited_for_in_vain(tail):
    """The system wakes late while much is still to come; neither a short end nor the small frame behind it waits."""
    size = 3_000_000
    step = asyncio.Event()

    async def serve(reader, writer):
        writer.write(size.to_bytes(4, "big") + b"x" * (size - tail))
        await writer.drain()
        await step.wait()
        writer.write(b"y" * tail)
        await reader.readexactly(1)
        writer.write((4).to_bytes(4, "big") + b"last")
        await reader.read()

    end, transport, told = await pair(serve)
    step.set()
    await told.until(lambda: told.frames)
    assert bytes(told.frames[0]) == b"x" * (size - tail) + b"y" * tail
    transport.write([b"?"])
    await told.until(lambda: len(told.frames) == 2)
    assert bytes(told.frames[1]) == b"last"
    transport.abort()
    await end()


async def test_written_is_told_once_the_bytes_have_left():
    got = asyncio.Event()
    go = asyncio.Event()
    size = 30_000_000

    async def serve(reader, writer):
        await go.wait()
        await reader.readexactly(size)
        got.set()

    end, transport, told = await pair(serve)
    transport.write([memoryview(bytes(size // 2)), bytes(size // 2)])
    assert told.written == 0  # more than any socket buffer holds, and nobody reads
    go.set()
    await told.until(lambda: told.written)
    await asyncio.wait_for(got.wait(), WAIT)
    transport.abort()
    await end()


async def test_a_small_request_does_not_overtake_a_large_one(monkeypatch):
    go = asyncio.Event()
    size = 30_000_000
    got = []

    async def serve(reader, writer):
        await go.wait()
        got.append((await reader.readexactly(size)).count(b"l"))
        got.append(await reader.readexactly(2))

    end, transport, told = await pair(serve)
    transport.write([b"l" * size])
    tried = []

    def write(*_):
        tried.append(1)
        raise BlockingIOError

    with monkeypatch.context() as patched:  # the system would most likely refuse it, but not always
        patched.setattr("barnabas.net.host.transport.os.write", write)
        transport.write([b"s", b"m"])
    assert told.written == 0
    go.set()
    await told.until(lambda: told.written)
    await end()
    assert got == [size, b"sm"]
    assert tried == []
    transport.abort()


async def test_small_requests_go_out_at_once_and_in_order():
    got = asyncio.get_running_loop().create_future()

    async def serve(reader, writer):
        got.set_result(await reader.readexactly(2000))

    end, transport, told = await pair(serve)
    for _ in range(1000):
        transport.write([b"a", memoryview(b"b")])
    assert told.written == 1000
    assert await asyncio.wait_for(got, WAIT) == b"ab" * 1000
    transport.abort()
    await end()


async def test_a_socket_that_takes_little_gets_the_rest_later(monkeypatch):
    """The system may take a part of a small request, or nothing."""
    taken = [3, 0]

    def write(_, data):
        if not taken:
            raise BlockingIOError
        count = taken.pop(0)
        sent.append(bytes(data[:count]))
        return count

    got = asyncio.get_running_loop().create_future()
    sent: list[bytes] = []

    async def serve(reader, writer):
        got.set_result(await reader.readexactly(12))

    end, transport, _ = await pair(serve)
    monkeypatch.setattr("barnabas.net.host.transport.os.write", write)
    for _ in range(3):
        transport.write([b"ab", b"cde"])
    assert await asyncio.wait_for(got, WAIT) == b"deabcdeabcde"
    assert b"".join(sent) == b"abc"
    monkeypatch.undo()
    transport.abort()
    await end()


@pytest.mark.parametrize("length", [MAX_FRAME_BYTES + 1, 3, 0xFFFFFFFF])
async def test_a_length_that_is_nonsense_ends_the_connection(length):
    async def serve(reader, writer):
        writer.write(length.to_bytes(4, "big") + b"xxxxxxxx")
        await reader.read()

    end, _, told = await pair(serve)
    await told.until(lambda: told.lost)
    assert f"a frame of {length} bytes" in told.lost[0]
    assert told.frames == []
    await end()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bytes.fromhex("15030300020246"), "no broker answered there, but TLS, which this release does not speak"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "no broker answered there, but an HTTP server: give the port of a broker",
        ),
        (b"SSH-2.0-x\r\n", "no broker answered there, but an SSH server"),
        (b"-ERR unknown\r\n", "but something that began with b'-ERR unknown\\r\\n'"),
    ],
)
async def test_who_is_no_broker_is_called_by_its_name(data, said):
    async def serve(reader, writer):
        writer.write(data)
        await reader.read()

    end, _, told = await pair(serve)
    await told.until(lambda: told.lost)
    assert said in told.lost[0]
    await end()


async def test_a_broker_that_sends_nonsense_later_is_still_one():
    async def serve(reader, writer):
        writer.write(b"\0\0\0\4abcd" + b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    end, _, told = await pair(serve)
    await told.until(lambda: told.lost)
    assert "a frame of 1213486160 bytes is none of Kafka's" in told.lost[0]
    assert len(told.frames) == 1
    await end()


async def test_tcp_asks_a_broker_that_says_nothing_whether_it_is_there():
    end, transport, _ = await pair(lambda reader, writer: reader.read())
    sock = transport._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if sys.platform == "linux":
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [sock.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [IDLE_S, AGAIN_S, UNANSWERED_MAX]
    transport.abort()
    await end()


async def test_the_brokers_end_is_told_once_and_ours_not_at_all():
    async def serve(reader, writer):
        await reader.read(1)

    end, transport, told = await pair(serve)
    transport.write([b"x"])
    await told.until(lambda: told.lost)
    assert told.lost == ["the broker closed the connection"]
    transport.write([b"y"])
    await end()
    end, transport, told = await pair(serve)
    transport.abort()
    await end()
    assert told.lost == []


# ---- how the system wakes the loop, on both loops -------------------------------------------------------------------

LOOPS = [asyncio.new_event_loop]
with contextlib.suppress(ImportError):
    import uvloop

    LOOPS.append(uvloop.new_event_loop)

WAKE = 512 * 1024
NEAR = st.integers(-2, 2)
SIZES = st.one_of(
    st.integers(4, 300),
    st.builds(int.__add__, st.sampled_from([65_532, WAKE, WAKE + 65_532, 2 * WAKE, 2 * WAKE + 65_532]), NEAR),
    st.integers(65_000, 3 * WAKE),
)


@pytest.mark.parametrize("loop", LOOPS)
@settings(max_examples=25)
@given(data=st.data(), receive_buffer=st.sampled_from([-1, 4 * 1024 * 1024]))
def test_no_frame_waits_for_bytes_that_do_not_come(loop, data, receive_buffer):
    """The peer stops within every frame at some place, and goes on only when the last frame was told."""
    sizes = data.draw(st.lists(SIZES, min_size=1, max_size=5))
    cuts = [data.draw(st.integers(0, size + 3)) for size in sizes]

    async def serve(reader, writer):
        for number, (size, cut) in enumerate(zip(sizes, cuts, strict=True)):
            frame = size.to_bytes(4, "big") + bytes([number]) * size
            for piece in (frame[:cut], frame[cut:]):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.readexactly(1)

    async def run():
        end, transport, told = await pair(serve, receive_buffer)
        for number, size in enumerate(sizes, 1):
            await told.until(lambda number=number: len(told.frames) == number)
            assert bytes(told.frames[-1]) == bytes([number - 1]) * size
            transport.write([b"+"])
        await end()
        transport.abort()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("sent", [10, 70_000, 3 * WAKE - 1])
def test_a_peer_that_dies_within_a_large_frame_is_noticed(loop, sent):
    async def serve(_, writer):
        writer.write((3 * WAKE).to_bytes(4, "big") + bytes(sent))
        await writer.drain()

    async def run():
        end, _, told = await pair(serve)
        await told.until(lambda: told.lost)
        assert told.frames == []
        await end()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_small_request_waits_for_a_large_one_on_any_loop(loop, monkeypatch):
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test_a_small_request_does_not_overtake_a_large_one(monkeypatch))


async def test_a_system_that_cannot_be_told_when_to_wake_does_all_the_same(monkeypatch):
    async def serve(reader, writer):
        writer.write(WAKE.to_bytes(4, "big") + bytes(WAKE))
        await reader.read()

    def refuse(*_):
        raise OSError("no such option")

    monkeypatch.setattr("asyncio.trsock.TransportSocket.setsockopt", refuse)
    end, transport, told = await pair(serve)
    await told.until(lambda: told.frames)
    transport.abort()
    await end()


async def test_a_closed_loop_leaves_no_number_to_write_to(monkeypatch):
    """Whoever forgets to close and goes on: uvloop has closed the socket, and another file may have its number."""

    async def serve(reader, writer):
        await reader.read()

    end, transport, _ = await pair(serve)
    with monkeypatch.context() as patched:
        patched.setattr(transport, "_loop", closed := asyncio.new_event_loop())
        closed.close()
        patched.setattr("barnabas.net.host.transport.os.write", lambda *_: pytest.fail("it was written to"))
        transport.write([b"request"])
    transport.abort()
    await end()


def test_a_frame_that_announces_much_costs_what_comes_of_it(monkeypatch):
    """Its pages come as its bytes do; a smaller one has memory that may have been used before. Both are whole."""
    monkeypatch.setattr("barnabas.net.host.transport._MAPPED_BYTES_MIN", 1_000_000)
    told = Told()
    transport = Transport(1, told, -1, -1)
    for size, kind in ((999_999, bytearray), (1_234_567, mmap)):
        sent = random.Random(3).randbytes(size)
        left = memoryview(len(sent).to_bytes(4, "big") + sent)
        rooms = []
        while left:
            room = transport.get_buffer(-1)
            taken = min(len(room), len(left), 100_000)
            room[:taken] = left[:taken]
            left = left[taken:]
            transport.buffer_updated(taken)
            rooms.append(room.obj)
        assert {type(one) for one in rooms[1:]} == {kind}
        assert bytes(told.frames.pop()) == sent
