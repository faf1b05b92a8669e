"""Several buffers written at once: whoever does not read is waited for, on every Python."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

import pytest

from barnabas.net.host import writing
from barnabas.net.host.writing import write_all
from barnabas.protocol.ids import Buffer


class Told(asyncio.Protocol):
    paused = False

    def pause_writing(self) -> None:
        self.paused = True


class Forgetful(asyncio.WriteTransport):
    """asyncio's transport as Python 3.13.0 has it: `writelines` leaves bytes and tells nobody."""

    __module__ = "asyncio.selector_events"

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Buffer] = []
        self.paused = self.is_lost = False

    def is_closing(self) -> bool:
        return self.is_lost

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        assert not self.is_lost, "the loop looks at a socket that is closed"
        self.written += buffers

    def write(self, data: Buffer) -> None:
        self.written.append(data)
        self.paused = True


@pytest.mark.parametrize("forgetful", [False, True])
async def test_who_does_not_read_is_told_of_on_any_loop(monkeypatch, forgetful):
    monkeypatch.setattr(writing, "FORGETFUL", forgetful or writing.FORGETFUL)
    ours, theirs = socket.socketpair()
    with theirs:
        transport, told = await asyncio.get_running_loop().create_connection(Told, sock=ours)
        write_all(transport, [b"x" * 1_000_000] * 10)
        assert told.paused
        transport.abort()


@pytest.mark.parametrize("buffers", [[], [b"1"], [b"1", b"2", b"3"]])
def test_a_loop_that_forgets_to_tell_is_given_the_last_buffer_alone(monkeypatch, buffers):
    monkeypatch.setattr(writing, "FORGETFUL", True)
    transport = Forgetful()
    write_all(transport, buffers)
    assert transport.written == buffers
    assert transport.paused == bool(buffers)


@pytest.mark.parametrize("forgetful", [False, True])
def test_what_is_written_to_a_connection_that_is_lost_comes_by_the_way_that_drops_it(monkeypatch, forgetful):
    """`writelines` from 3.12.0 on had the next connection with that socket's number wait for ever."""
    monkeypatch.setattr(writing, "FORGETFUL", forgetful)
    transport = Forgetful()
    transport.is_lost = True
    write_all(transport, [b"1", memoryview(b"2"), b"3"])
    assert transport.written == [b"123"]


@pytest.mark.parametrize("forgetful", [False, True])
def test_what_is_empty_is_not_written(monkeypatch, forgetful):
    """It stayed at the end of what is to be sent, and the loop came back to it for ever."""
    monkeypatch.setattr(writing, "FORGETFUL", forgetful)
    transport = Forgetful()
    write_all(transport, [b"1", b"", b"2", memoryview(b""), b""])
    assert transport.written == [b"1", b"2"]


async def test_a_connection_that_is_lost_is_forgotten_by_the_loop_whatever_is_written():
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(Told, sock=ours)
    theirs.close()
    transport.write(b"x")  # sees it
    write_all(transport, [b"a", b"b"])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ours.fileno() == -1
    assert transport.get_write_buffer_size() == 0


def test_a_transport_that_is_not_asyncios_is_given_all_at_once_under_every_python(monkeypatch):
    class OfAnotherLoop(Forgetful):
        __module__ = "uvloop.loop"

    monkeypatch.setattr(writing, "FORGETFUL", True)
    transport = OfAnotherLoop()
    write_all(transport, [b"1", b"2", b"3"])
    assert transport.written == [b"1", b"2", b"3"]
    assert not transport.paused, "one of them was written alone"
