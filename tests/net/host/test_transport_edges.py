"""The transport without a socket: what it does not say any more, and what it leaves as it is."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from unittest.mock import Mock

import pytest

from barnabas.net.host.transport import Transport

FRAME = b"\x00\x00\x00\x04abcd"


class Told:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.written = 0
        self.leaves = False

    def transport_open(self, transport: Transport) -> None:
        """It is open."""

    def transport_frame(self, transport: Transport, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        if self.leaves:
            transport.abort()

    def transport_written(self, transport: Transport) -> None:
        self.written += 1

    def transport_lost(self, transport: Transport, reason: str) -> None:
        raise AssertionError(reason)


@pytest.fixture
async def opened() -> Any:
    told, below = Told(), Mock(asyncio.Transport)
    below.get_extra_info.return_value = None
    transport = Transport(1, told, -1, -1)
    transport.connection_made(below)
    return transport, told, below


def receive(transport: Transport, data: bytes) -> None:
    room = transport.get_buffer(-1)
    room[: len(data)] = data
    transport.buffer_updated(len(data))


async def test_nothing_of_what_came_together_is_told_once_it_is_aborted(opened: Any) -> None:
    transport, told, below = opened
    told.leaves = True
    receive(transport, 3 * FRAME)
    assert told.frames == [b"abcd"]
    below.abort.assert_called_once_with()


async def test_a_small_frame_that_comes_in_two_needs_no_room_of_its_own(opened: Any) -> None:
    transport, told, _ = opened
    receive(transport, FRAME + FRAME[:6])
    assert transport._frame is None
    receive(transport, FRAME[6:])
    assert told.frames == [b"abcd", b"abcd"]


async def test_what_is_aborted_has_written_nothing(opened: Any) -> None:
    transport, told, below = opened
    transport.pause_writing()
    transport.abort()
    transport.resume_writing()
    transport.write([b"more"])
    assert told.written == 0
    below.writelines.assert_not_called()


async def test_written_is_said_of_what_has_left_to_its_last_byte(opened: Any) -> None:
    """asyncio's own mark is 64 KiB: a connection would be taken for one that has taken so much more."""
    _, _, below = opened
    below.set_write_buffer_limits.assert_called_once_with(high=0)


@pytest.mark.parametrize(("there", "sized"), [(1000, True), (2000, False), (3000, False)])
async def test_buffers_of_the_system_are_made_larger_and_never_smaller(there: int, sized: bool) -> None:
    below, sock = Mock(asyncio.Transport), Mock()
    sock.getsockopt.return_value = there
    sock.fileno.return_value = -1
    below.get_extra_info.return_value = sock
    Transport(1, Told(), 2000, -1).connection_made(below)
    asked = [each.args for each in sock.setsockopt.call_args_list if each.args[1] == socket.SO_SNDBUF]
    assert asked == ([(socket.SOL_SOCKET, socket.SO_SNDBUF, 2000)] if sized else [])


def test_a_closed_loop_has_closed_the_socket_too() -> None:
    """Its number may be another file's by now, into whose place a child of a fork would put nothing."""
    loop = asyncio.new_event_loop()
    below, sock = Mock(asyncio.Transport), Mock()
    sock.fileno.return_value = 77
    below.get_extra_info.return_value = sock
    transport = Transport(1, Told(), -1, -1)

    async def made() -> None:
        transport.connection_made(below)
        assert transport.fileno() == 77

    loop.run_until_complete(made())
    loop.close()
    assert transport.fileno() == -1
