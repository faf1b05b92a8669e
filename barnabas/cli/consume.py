"""`barnabas consume TOPIC`: prints records, until Ctrl-C, the end (`-e`), a count (`-c`) or a time (`-o e@`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.codes import WRONG
from barnabas.cli.formats import TOKENS, Formatted, as_json, compiled, escaped
from barnabas.cli.options import Options, client_options, count, named, settings_of, shared_settings_of, whole
from barnabas.cli.places import Place, place, starts
from barnabas.cli.progress import Progress, size
from barnabas.cli.signals import ended_by_sigterm
from barnabas.cli.speak import fail, some

if TYPE_CHECKING:
    from barnabas.client.consume.record import ConsumerRecord
    from barnabas.client.consumer import Consumer
    from barnabas.protocol.ids import TopicPartition

LEADERLESS_MS: Final = 30_000
"""How long a partition whose broker is silent is waited for: others lead it once its session is over
(`broker.session.timeout.ms`, 9 s), and a controller is followed by another before that counts."""
_POLL_SECONDS: Final = 0.2
_NULL: Final = b"NULL"
_EXAMPLES: Final = (
    "barnabas consume flights                                  # what comes from now on, until Ctrl-C",
    "barnabas consume flights -e                               # all that is there",
    "barnabas consume flights -o -10 -e                        # the last ten of each partition",
    "barnabas consume flights -o s@2026-11-22T09:30:00 -c 100",
    "barnabas consume flights -f '%t-%p@%o %T %k: %s %h\\n' -e",
    "barnabas consume flights -e --json | barnabas produce copy --json",
    "barnabas consume flights --group billing                  # as a member; commits what was printed",
)


def parser() -> Options:
    """The options of `barnabas consume`."""
    tokens = ", ".join(f"%%{token} {what}" for token, what in TOKENS.items())
    options = Options(
        prog="barnabas consume",
        description="Print the values of records, one in a line. No topic is made by it.",
        examples=_EXAMPLES,
    )
    client_options(options)
    options.add_argument("topics", nargs="+", metavar="TOPIC", type=named("a topic"))
    options.add_argument("--partition", "-p", metavar="N", type=whole, action="append", help="only this (repeatable)")
    options.add_argument(
        "--offset",
        "-o",
        metavar="WHERE",
        type=place,
        action="append",
        default=[],
        help="where to begin: beginning, end (unless -e is given), an offset, +N or -N (so many after the first, "
        "before the end, of each partition), s@TIME; e@TIME is where to end. Outside of a log it is the nearer edge",
    )
    options.add_argument("--exit", "-e", action="store_true", help="end at the end of the topics as they are now")
    options.add_argument("--count", "-c", "-n", metavar="N", type=count, help="end after so many records")
    how = options.add_mutually_exclusive_group()
    how.add_argument("--format", "-f", metavar="FORMAT", help=rf"how a record is printed: {tokens}, %%%%, \n, \t, \xNN")
    how.add_argument("--json", "-J", action="store_true", help="one JSON object in a line for each; no byte is lost")
    options.add_argument(
        "--key-separator", "-K", metavar="TEXT", type=escaped, help="print the key, and this behind it"
    )
    options.add_argument("--delimiter", "-D", metavar="TEXT", type=escaped, help=r"what follows each record (\n)")
    options.add_argument("--null", "-Z", action="store_true", help="print NULL for a key or a value that is null")
    options.add_argument(
        "--group",
        "-g",
        metavar="NAME",
        type=named("a group"),
        help="as a member of this group: go on where it left off (-o and -e are for what it has not committed), "
        "and commit what was printed",
    )
    return options


def main(arguments: Sequence[str]) -> int:
    """Print records of topics."""
    options = parser()
    given = options.read(arguments)
    begin = [each for each in given.offset if each.kind != "until"]
    until = [each.number for each in given.offset if each.kind == "until"]
    if len(begin) > 1 or len(until) > 1:
        return fail("-o: there are two places to begin at, or to end at; drop one of them", WRONG)
    given.begin = begin[0] if begin else Place("beginning" if given.exit else "end")
    given.until = until[0] if until else None
    if given.group is not None and (given.until is not None or given.begin.kind not in ("beginning", "end")):
        return fail("-o with --group says where to go on without a committed offset: beginning or end", WRONG)
    if given.group is not None and given.partition:
        return fail("-p with --group: the group shares out the partitions; drop one of them", WRONG)
    if (given.format or given.json) and (given.key_separator is not None or given.delimiter is not None):
        return fail("-K and -D are for neither --format nor --json, which say it all", WRONG)
    try:
        given.printed = _formatted(given)
    except argparse.ArgumentTypeError as error:
        return fail(f"argument --format/-f: {error}", WRONG)
    with ended_by_sigterm():
        _consume(given)
    return 0


def _formatted(given: argparse.Namespace) -> Formatted:
    null = _NULL if given.null else b""
    if given.json:
        return as_json
    if given.format is not None:
        return compiled(given.format, null)
    separator, end = given.key_separator, b"\n" if given.delimiter is None else given.delimiter
    if separator is None:
        return lambda record: (null if record.value is None else record.value) + end
    return lambda record: b"".join(
        (null if record.key is None else record.key, separator, null if record.value is None else record.value, end)
    )


def _consume(given: argparse.Namespace) -> None:
    from barnabas.client.consumer import Consumer

    settings: dict[str, Any] = {
        "auto.offset.reset": "latest" if given.begin.kind == "end" else "earliest",
        "allow.auto.create.topics": False,
        **settings_of(given, LEADERLESS_MS),
    }
    if given.group is not None:
        settings |= {"group.id": given.group, "enable.auto.commit": False}
    meant = _check_topics(given)
    with Consumer(config=settings) as consumer:
        reading = _Reading(consumer, given)
        if given.group is not None:
            consumer.subscribe(*given.topics)
        else:
            reading.begin(meant)
        reading.run()


def _check_topics(given: argparse.Namespace) -> list[TopicPartition]:
    """The partitions that are meant. A consumer waits for topics that are not there; a person would wait with it."""
    from barnabas.cli.near import topic_meant
    from barnabas.client.admin import Admin
    from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
    from barnabas.protocol.ids import TopicPartition

    meant = []
    with Admin(shared_settings_of(given)) as admin:
        for topic in given.topics:
            try:
                there = len(admin.describe_topics(topic)[topic].partitions)
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                else_ = f"make it: barnabas topics create {topic}"
                raise BarnabasError(f"there is no topic {topic}; {topic_meant(admin, topic) or else_}") from None
            for number in given.partition or range(there):
                if number >= there:
                    raise BarnabasError(
                        f"topic {topic} has {some(there, 'partition')}, from 0 on; there is no {number}"
                    )
                meant.append(TopicPartition(topic, number))
    return meant


class _Reading:
    """Prints until the end, or the number, that was asked for. A group's are committed once printed, never before."""

    def __init__(self, consumer: Consumer, given: argparse.Namespace) -> None:
        self._consumer, self._given = consumer, given
        self._ends: dict[TopicPartition, int] = {}
        """Where to end, of the partitions for which that is known."""
        self._done: set[TopicPartition] = set()
        self._records = self._bytes = 0

    def run(self) -> None:
        """Print."""
        given = self._given
        with Progress(on=not sys.stdout.isatty()) as progress:
            left = given.count
            while left is None or left > 0:
                if self._at_end():
                    return
                records = self._consumer.poll(_POLL_SECONDS, max_records=left)
                printed = self._print(records)
                left = None if left is None else left - len(printed)
                if progress.due():
                    progress.tell(f"{some(self._records, 'record')}, {size(self._bytes)}")

    def begin(self, where: list[TopicPartition]) -> None:
        """Go to where to begin. Questions come before the first fetch: on its connection they would wait for it."""
        given, consumer = self._given, self._consumer
        begin = starts(consumer, where, given.begin)
        if given.exit:
            self._ends = dict(consumer.end_offsets(where))
        if given.until is not None:
            found = consumer.offsets_for_times(dict.fromkeys(where, given.until))
            self._ends |= {each: min(at.offset, self._ends.get(each, at.offset)) for each, at in found.items() if at}
        if given.partition:
            consumer.assign(where)
        else:
            consumer.subscribe(*given.topics)
        for each, offset in begin.items():
            consumer.seek(each, offset)

    def _print(self, records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
        from barnabas.protocol.ids import TopicPartition

        given, ends, write = self._given, self._ends, sys.stdout.buffer.write
        formatted: Callable[[ConsumerRecord], bytes] = given.printed
        printed, behind = [], {}
        for record in records:
            where = TopicPartition(record.topic, record.partition)
            if given.until is not None and record.timestamp >= given.until:
                ends[where] = min(record.offset, ends.get(where, record.offset))
            if given.group is None and record.offset >= ends.get(where, 0 if given.exit else record.offset + 1):
                continue  # it came later, or its partition did
            data = formatted(record)
            write(data)
            printed.append(record)
            behind[where] = record.offset + 1
            self._bytes += len(data)
        sys.stdout.flush()
        self._records += len(printed)
        if printed and given.group is not None:
            self._consumer.commit(behind)
        return printed

    def _at_end(self) -> bool:
        """Whether all is read. A group's member learns only by and by what it reads: the ends grow by that."""
        given, consumer = self._given, self._consumer
        if not given.exit and given.until is None:
            return False
        health = consumer.health()
        if health.state not in ("stable", "assigned"):
            return False
        if given.group is not None:
            self._ends |= consumer.end_offsets([where for where in health.assignment if where not in self._ends])
        for where in health.assignment:
            if where in self._done or (given.until is None and where not in self._ends):  # the latter came later
                continue
            if where not in self._ends or consumer.position(where) < self._ends[where]:
                return False
            self._done.add(where)
        return True
