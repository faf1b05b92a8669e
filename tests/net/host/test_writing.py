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
        self.paused = False

    def writelines(self, buffers: Iterable[Buffer]) -> None:
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


def test_a_transport_that_is_not_asyncios_is_given_all_at_once_under_every_python(monkeypatch):
    class OfAnotherLoop(Forgetful):
        __module__ = "uvloop.loop"

    monkeypatch.setattr(writing, "FORGETFUL", True)
    transport = OfAnotherLoop()
    write_all(transport, [b"1", b"2", b"3"])
    assert transport.written == [b"1", b"2", b"3"]
    assert not transport.paused, "one of them was written alone"
