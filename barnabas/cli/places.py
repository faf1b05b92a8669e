"""Where to begin and where to end reading (`-o`), in the manner of kcat and rpk."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.cli.times import FORMS, number, time_ms

if TYPE_CHECKING:
    from barnabas.client.consumer import Consumer
    from barnabas.protocol.ids import TopicPartition

_HOW: Final = (
    "write beginning, end, an offset (42), +N or -N (so many after the first, before the end), "
    f"s@TIME or e@TIME (from then on, until then); TIME is {FORMS}"
)


class Place(NamedTuple):
    """A place in each partition. `kind`: beginning, end, offset, after, before, since, until (`number` in ms)."""

    kind: str
    number: int = 0


def place(text: str) -> Place:
    """What `-o` says."""
    if text in ("beginning", "earliest", "start"):
        return Place("beginning")
    if text in ("end", "latest"):
        return Place("end")
    head, at, time = text.partition("@")
    if at and head in ("s", "e", ""):
        kind, found = "until" if head == "e" else "since", time_ms(time)
    else:
        kind = {"+": "after", "-": "before"}.get(text[:1], "offset")
        found = number(text[1:] if text[:1] in ("+", "-") else text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text}: {_HOW}")
    return Place(kind, found)


def starts(consumer: Consumer, where: Iterable[TopicPartition], begin: Place) -> Mapping[TopicPartition, int]:
    """The offset to begin at, of each partition. What lies outside of a log is its nearer edge."""
    wanted = list(where)
    first = consumer.beginning_offsets(wanted)
    if begin.kind == "beginning":
        return first
    last = consumer.end_offsets(wanted)
    if begin.kind == "since":
        found = consumer.offsets_for_times(dict.fromkeys(wanted, begin.number))
        return {each: at.offset if at else last[each] for each, at in found.items()}
    return {each: max(first[each], min(_at(begin, first[each], last[each]), last[each])) for each in wanted}


def within(consumer: Consumer, where: Iterable[TopicPartition], begin: Place) -> Mapping[TopicPartition, int]:
    """As `starts`, for who does something that cannot be undone: a place beyond an end is a slip.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE.
    """
    wanted = list(where)
    if begin.kind in ("offset", "after"):
        first, last = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
        for each in wanted:
            at = _at(begin, first[each], last[each])
            if at > last[each]:
                from barnabas.protocol.errors import ErrorCode, KafkaError

                detail = f"{each} ends at offset {last[each]}, and {at} lies beyond it; write end for all there is"
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
    return starts(consumer, wanted, begin)


def _at(begin: Place, first: int, last: int) -> int:
    if begin.kind == "end":
        return last
    if begin.kind == "offset":
        return begin.number
    return first + begin.number if begin.kind == "after" else last - begin.number
