"""Batches as a log would place them."""

from __future__ import annotations

from barnabas.protocol.batch import read_header, set_place


def placed(data: bytearray | memoryview, position: int, offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` an offset and a leader epoch."""
    set_place(data, position, offset, read_header(data, position).length, leader_epoch)
