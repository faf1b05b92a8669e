"""The batches of a log as they stand on its disk: read past the broker, which notices nothing."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice

from barnabas.broker.log import Log
from barnabas.broker.log.segment import LOG_SUFFIX
from barnabas.protocol.batch import BatchHeader, batches, read_header
from barnabas.simulator.device import Device


class Sight:
    """One log's batches, in order, as far as they are asked for.

    Attributes:
        next_offset: what comes next begins here, or behind it.
    """

    def __init__(self) -> None:
        self.next_offset = 0
        self._base = -1
        self._position = 0

    def up_to(self, device: Device, log: Log, offset: int) -> list[tuple[BatchHeader, memoryview]]:
        """The batches below `offset` that were not given yet. What was given must not be cut off meanwhile."""
        found: list[tuple[BatchHeader, memoryview]] = []
        first = max(bisect_right(log.bases, self._base) - 1, 0)
        for segment in islice(log.segments, first, None):
            if segment.base < self._base:  # what was there is gone
                continue
            if segment.base >= offset:
                break
            position = self._position if segment.base == self._base else 0
            data = device.bytes_of(segment.path(LOG_SUFFIX))
            for at, size in batches(data, position, min(segment.size, len(data))):
                header = read_header(data, at)
                if header.base_offset >= offset:
                    return found
                found.append((header, data[at : at + size]))
                self._base, self._position, self.next_offset = segment.base, at + size, header.next_offset
        return found


def synced_end(device: Device, log: Log) -> int:
    """The offset below which all of a log is on stable storage."""
    for segment in log.segments:
        path = segment.path(LOG_SUFFIX)
        size = device.synced_bytes_of(path)
        if size < 0:
            return segment.base
        if size < segment.size:
            end = segment.base
            data = device.bytes_of(path)
            for at, length in batches(data, 0, segment.size):
                if at + length > size:
                    break
                end = read_header(data, at).next_offset
            return end
    return log.log_end_offset


def epochs_of(device: Device, log: Log) -> tuple[tuple[int, int], ...]:
    """Leader epochs as the batches have them: each with the offset of its first one."""
    found: list[tuple[int, int]] = []
    for header, _ in Sight().up_to(device, log, log.log_end_offset):
        if not found or found[-1][0] != header.leader_epoch:
            found.append((header.leader_epoch, header.base_offset))
    return tuple(found)
