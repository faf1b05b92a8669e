"""What a consumer took undecoded: checked, unpacked and decoded to columns by whoever wants them, not where it arrives.

The position has moved behind them already, so that the next fetch is under way meanwhile. What turns out to be corrupt
goes back (`Fetcher.give_back`), and so does what comes after it, and what would make one call's columns too large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from barnabas.client.consume.batches import Walk, corrupt
from barnabas.client.consume.columnar import Area, Columns, Part, areas_of, decode_group
from barnabas.client.libraries import require_libraries
from barnabas.protocol.errors import BarnabasError, KafkaError, ProtocolError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import AbortedTransaction

AREA_BYTES_MAX: Final = 1 << 28
"""What is decoded together has at most this many record bytes (or one batch): Arrow's offsets have 31 bits."""

GROUP_RECORDS_MIN: Final = 4096
"""Partitions are decoded together until they have so many records: a call costs 0.1 ms whatever it holds."""

GROUP_RECORDS_MAX: Final = 1 << 20
"""More are decoded piece by piece: 100 to 200 bytes of work space a record."""

CALL_RECORDS_MAX: Final = 1 << 22
CALL_BYTES_MAX: Final = 1 << 28
"""Once a call has so many records, or so many bytes of them, the rest is left for the next one."""


@dataclass(slots=True, eq=False)
class Taken:
    """One partition's buffer from `position` up to `next_position`: whole batches as they came.

    `aborted` names what a read_committed reader may not see of them; `leader_epoch` is that of whoever gave them.
    """

    where: TopicPartition
    position: int
    next_position: int
    data: memoryview
    aborted: Sequence[AbortedTransaction] | None = None
    check_crcs: bool = True
    leader_epoch: int = -1

    def areas(self) -> Iterator[Area]:
        """The record areas, opened one by one, in pieces of at most `GROUP_RECORDS_MAX` records.

        Raises:
            KafkaError: CORRUPT_MESSAGE.
        """
        walk = Walk(self.where, self.data, self.position, check_crcs=self.check_crcs, aborted=self.aborted)
        for batch in walk:
            try:
                yield from areas_of(batch, GROUP_RECORDS_MAX)
            except (ProtocolError, IndexError) as error:
                raise corrupt(self.where, batch.header.base_offset, error) from error


def decode_taken(
    taken: Sequence[Taken], *, headers: bool = False, only: Collection[str] | None = None
) -> tuple[list[Columns], Sequence[Taken], BarnabasError | None]:
    """Decodes as much as can be, and as one call should; of the columns those that `decode_group` is asked for.

    Returns:
        The columns, then what is left of the parts, then what is wrong with the first of these, if anything is.

    Raises:
        BarnabasError: numpy or pyarrow is absent.
    """
    require_libraries()
    call = _Call(taken, headers, only)
    try:
        call.run()
    except KafkaError as error:
        return call.found, call.left(), error
    return call.found, call.left(), None


class _Call:
    """One call: collects areas to groups, decodes them, and knows how far each part came."""

    def __init__(self, taken: Sequence[Taken], headers: bool, only: Collection[str] | None) -> None:
        self.found: list[Columns] = []
        self._taken = taken
        self._headers, self._only = headers, only
        self._group: list[tuple[int, Part]] = []
        self._size = self._records = 0  # of the group
        self._all_bytes = self._all_records = 0
        self._first = 0  # the parts before this one are decoded, and this one up to the position
        self._position = taken[0].position if taken else -1

    def left(self) -> list[Taken]:
        """What is not decoded."""
        left = list(self._taken[self._first :])
        if left and self._position > left[0].position:
            left[0] = replace(left[0], position=self._position)
        return left

    def run(self) -> None:
        """Decode until the end, or until it is enough for one call.

        Raises:
            KafkaError: CORRUPT_MESSAGE in the first of what is left; what came before it is decoded.
        """
        for index, taken in enumerate(self._taken):
            try:
                self._collect(index, taken)
            except KafkaError:
                self._decode(index)
                raise
            if self._records >= GROUP_RECORDS_MIN:
                self._decode(index + 1)
            if self._is_enough:
                return
        self._decode(len(self._taken))

    @property
    def _is_enough(self) -> bool:
        return self._all_records >= CALL_RECORDS_MAX or self._all_bytes >= CALL_BYTES_MAX

    def _collect(self, index: int, taken: Taken) -> None:
        part: Part | None = None
        for area in taken.areas():
            records = self._records + area.header.record_count
            if self._group and (records > GROUP_RECORDS_MAX or self._size + len(area.data) > AREA_BYTES_MAX):
                self._decode(index)
                if self._is_enough:
                    return
                part = None
            if part is None:
                begun = index == self._first and self._position > taken.position
                position = self._position if begun else taken.position
                part = Part(*taken.where, [], position, begun, taken.leader_epoch)
                self._group.append((index, part))
            part.areas.append(area)
            self._size += len(area.data)
            self._records += area.header.record_count

    def _decode(self, first: int) -> None:
        """Decodes the group: all there is of the parts before `first`, and perhaps a piece of that one."""
        group, self._group = self._group, []
        size, self._size, self._records = self._size, 0, 0
        try:
            found = decode_group([part for _, part in group], self._headers, self._only) if group else []
        except (IndexError, ProtocolError):
            self._decode_singly(group)
            raise AssertionError("parts that cannot be decoded together can be decoded one by one") from None
        self.found += found
        if found:  # what lies below the position costs the next call's time, but must not keep it from getting on
            self._all_bytes += size
            self._all_records += sum(map(len, found))
        self._go_to(first)
        if found and group[-1][0] == first and (found[-1].topic, found[-1].partition) == self._taken[first].where:
            self._position = found[-1].offset[-1].as_py() + 1

    def _decode_singly(self, group: Sequence[tuple[int, Part]]) -> None:
        for index, part in group:  # those before the corrupt one are whole
            try:
                self.found += decode_group([part], self._headers, self._only)
            except (IndexError, ProtocolError) as error:
                self._go_to(index)
                raise corrupt(self._taken[index].where, part.areas[0].header.base_offset, error) from None

    def _go_to(self, first: int) -> None:
        if first != self._first:
            self._first = first
            self._position = self._taken[first].position if first < len(self._taken) else -1
