"""Walking over batches: whole windows of a file, batch by batch, in jobs and in single calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from barnabas.broker.jobs import Job
from barnabas.broker.ports import File, NotYet, Token
from barnabas.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, read_header

T = TypeVar("T")
WINDOW: Final = 1024 * 1024
"""Bytes one step of a job looks at (a larger batch is taken whole)."""


def patient(step: Callable[[], T]) -> Job[T]:
    """Run a step inside a job until its bytes are there, holding every token it was given."""
    held: list[Token] = []
    while True:
        try:
            return step()
        except NotYet as pending:
            token = pending.token
        held.append(token)
        yield token


def window_at(file: File, position: int, end: int, size: int = WINDOW) -> memoryview:
    """Bytes from `position` with at least one whole batch, if one is there before `end`.

    Raises:
        NotYet: the bytes must be read first.
    """
    view = file.read(position, min(size, end - position), once=True)
    if len(view) >= LOG_OVERHEAD:
        length = LOG_OVERHEAD + int.from_bytes(view[8:12], "big", signed=True)
        if len(view) < length <= end - position:
            view = file.read(position, length, once=True)
    return view


def batches_in(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position in `view` and header of each whole batch; stops at the first that is cut or senseless."""
    position = 0
    end = len(view)
    while end - position >= HEADER_SIZE:
        header = read_header(view, position)
        size = header.size
        if header.magic != MAGIC or size < HEADER_SIZE or size > end - position:
            return
        yield position, header
        position += size


def scan(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch in [start, end), in one go.

    Raises:
        NotYet: a window must be read first; begin again from the start.
    """
    while start < end:
        view = window_at(file, start, end)
        advanced = 0
        for position, header in batches_in(view):
            yield start + position, header
            advanced = position + header.size
        if not advanced:
            return
        start += advanced
