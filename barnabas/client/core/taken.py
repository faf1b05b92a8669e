"""What a consumer took undecoded: checked and unpacked by whoever decodes it, not where it arrives.

The position has moved behind them already, so that the next fetch is under way meanwhile. What turns out to be corrupt
goes back (`Fetcher.give_back`), and so does what comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.client.core.batches import Batch, readable_batches
from barnabas.client.core.columnar import Columns, Part, decode_parts
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import AbortedTransaction


@dataclass(slots=True, eq=False)
class Taken:
    """One partition's buffer from `position` up to `next_position`.

    It is either `data`, whole batches as they came (`aborted` names what a read_committed reader may not see of them),
    or the `batches` that reading record by record had unpacked already.
    """

    where: TopicPartition
    position: int
    next_position: int
    data: memoryview | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    check_crcs: bool = True
    batches: Sequence[Batch] = ()

    def open(self) -> Part:
        """Checks the sums, unpacks, leaves out what a reader may not see.

        Raises:
            KafkaError: CORRUPT_MESSAGE.
        """
        batches = self.batches
        if self.data is not None:
            batches, end = readable_batches(
                self.where, self.data, self.position, check_crcs=self.check_crcs, aborted=self.aborted
            )
            if end != self.next_position:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{self.where}: the offsets of its batches reach {end}, those of the last one {self.next_position}",
                )
        return Part(*self.where, batches, self.position)


def decode_taken(
    taken: Sequence[Taken], *, headers: bool = False
) -> tuple[list[Columns], Sequence[Taken], BarnabasError | None]:
    """Decodes as much as can be.

    Returns:
        The columns of all before the first corrupt one, then that one and those after it, then what is wrong.

    Raises:
        BarnabasError: numpy or pyarrow is absent.
    """
    parts: list[Part] = []
    trouble: BarnabasError | None = None
    for each in taken:
        try:
            parts.append(each.open())
        except KafkaError as error:
            trouble = error
            break
    try:
        return list(decode_parts(parts, headers=headers)), taken[len(parts) :], trouble
    except KafkaError:
        pass  # once more, one by one, to learn which part it is
    found: list[Columns] = []
    for index, part in enumerate(parts):
        try:
            found += list(decode_parts([part], headers=headers))
        except KafkaError as error:
            return found, taken[index:], error
    raise AssertionError("parts that cannot be decoded together can be decoded one by one")
