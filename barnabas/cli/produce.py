"""`barnabas produce TOPIC`: every line of standard input becomes a record."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from barnabas.cli.codes import HERE, WRONG, code_of, told
from barnabas.cli.formats import BadInput, Given, escaped, header, of_json
from barnabas.cli.lines import pieces
from barnabas.cli.options import Options, client_options, count, named, settings_of, shared_settings_of
from barnabas.cli.progress import Progress, size
from barnabas.cli.signals import ended_by_sigterm
from barnabas.cli.speak import fail, some
from barnabas.protocol.errors import BarnabasError, ErrorCode

if TYPE_CHECKING:
    from io import BufferedReader

    from barnabas.client.producer import Producer

_LOOK_S: Final = 0.05
"""How often it is looked whether the cluster has said that there is no such topic: less than between two of its answers
(`retry.backoff.ms`). Nothing is asked more often for it."""
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
_AUTO_CREATE: Final = "auto.create.topics.enable"
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_EXAMPLES: Final = (
    "barnabas produce flights < flights.txt                    # a record of each line",
    "barnabas produce flights -K : < keyed.txt                 # its key before the first colon",
    "barnabas produce flights -k EWR -H source=manual          # as they are typed, until Ctrl-D",
    "barnabas produce images -D '' -k cat < cat.png            # the whole input is one record",
    """echo '{"key": "a", "value": null}' | barnabas produce flights --json   # a tombstone""",
    "barnabas produce flights -z zstd -X linger.ms=100 < flights.txt",
)


def parser() -> Options:
    """The options of `barnabas produce`."""
    options = Options(
        prog="barnabas produce",
        description="Send every line of standard input as a record, byte for byte. All are acknowledged when it ends. "
        "A topic that is not there is made, where the cluster does that on first use.",
        examples=_EXAMPLES,
    )
    client_options(options)
    options.add_argument("topic", metavar="TOPIC", type=named("a topic"))
    options.add_argument("--partition", "-p", metavar="N", type=_partition, help="all to this; -1: as the keys say")
    options.add_argument("--key", "-k", metavar="TEXT", type=str.encode, help="the key of all that bring none")
    options.add_argument("--key-separator", "-K", metavar="TEXT", type=escaped, help="the key stands before this")
    options.add_argument(
        "--delimiter", "-D", metavar="TEXT", type=escaped, help=r"what ends a record (\n); '': nothing"
    )
    options.add_argument(
        "--header", "-H", metavar="NAME=VALUE", type=header, action="append", default=[], help="of all (repeatable)"
    )
    options.add_argument("--null", "-Z", action="store_true", help="what is empty, key or value, is null")
    options.add_argument(
        "--json",
        "-J",
        action="store_true",
        help="each line is an object with value, key, headers, partition, timestamp_ms, as consume --json prints them",
    )
    options.add_argument("--compression", "-z", choices=_CODECS, help="of the batches")
    options.add_argument("--count", "-c", "-n", metavar="N", type=count, help="end after so many records")
    return options


def _partition(text: str) -> int:
    if not text.removeprefix("-").isdigit() or not -1 <= int(text[:12]) < 2**31:
        raise argparse.ArgumentTypeError(f"{text}: write a partition's number, or -1 for what the key says")
    return int(text)


def main(arguments: Sequence[str]) -> int:
    """Send records until the input ends; all were acknowledged, or it says why not."""
    given = parser().read(arguments)
    if given.json and (given.key_separator is not None or given.null or given.delimiter == b""):
        return fail("-K, -Z and -D '' are for lines that are no JSON; drop them, or --json", WRONG)
    if given.key_separator == b"":
        return fail("-K: the text between key and value cannot be empty", WRONG)
    if sys.stdin is None:
        return fail("standard input is closed: there is nothing to send", HERE)

    from barnabas.client.producer import Producer

    settings = settings_of(given)
    settings.setdefault("max.block.ms", settings["default.api.timeout.ms"])
    if given.compression:
        settings["compression.type"] = given.compression
    if sys.stdin.isatty() and sys.stderr.isatty():
        print("a record in each line; Ctrl-D ends", file=sys.stderr)
    with ended_by_sigterm(), Producer(settings) as producer:
        return _Sending(producer, given).run(cast("BufferedReader", sys.stdin.buffer).read1)


def records_of(given: argparse.Namespace, read: Callable[[int], bytes]) -> Iterator[Given]:
    """The records that the input holds.

    Raises:
        BadInput: a piece of it is none; says which.
    """
    for number, piece in enumerate(pieces(read, b"\n" if given.delimiter is None else given.delimiter), 1):
        if given.json:
            if piece.strip():
                try:
                    record = of_json(piece)
                except BadInput as error:
                    raise BadInput(f"line {number}: {error}") from None
                partition = record.partition if given.partition is None else given.partition
                yield record._replace(
                    key=given.key if record.key is None else record.key,
                    partition=None if partition == -1 else partition,
                    headers=[*record.headers, *given.header],
                )
            continue
        key, value = given.key, piece
        if given.key_separator is not None and given.key_separator in piece:
            key, value = piece.split(given.key_separator, 1)
        empty = None if given.null else b""
        partition = None if given.partition == -1 else given.partition
        yield Given(value or empty, key or (None if key is None else empty), given.header, partition)


class _Sending:
    """Records on their way, and what became of them."""

    def __init__(self, producer: Producer, given: argparse.Namespace) -> None:
        self._producer, self._given = producer, given
        self._sent = self._bytes = 0
        self._failed: list[BaseException] = []

    def _told(self, _metadata: object, error: BaseException | None) -> None:
        if error is not None:
            self._failed.append(error)

    def run(self, read: Callable[[int], bytes]) -> int:
        """Send all; the exit code."""
        wrong = ""
        self._check_partition()
        with Progress(on=not sys.stdin.isatty()) as progress:
            try:
                for record in islice(records_of(self._given, read), self._given.count):
                    self._send(record)
                    if self._failed:
                        break
                    if self._sent % 100 == 0 and progress.due():
                        progress.tell(f"{some(self._sent, 'record')}, {size(self._bytes)}")
            except BadInput as error:
                wrong = f"{error}; {some(self._sent, 'record')} before it {_were(self._sent)} sent"
            self._producer.flush()
        if self._failed:
            why = self._failed[0]
            what = f"{len(self._failed)} of {some(self._sent, 'record')} {_were(len(self._failed))} not delivered"
            return fail(f"{what}: {told(why)}", code_of(why))
        return fail(wrong, WRONG) if wrong else 0

    def _check_partition(self) -> None:
        """One that the topic has not would be waited for; it may be made at any time."""
        topic, partition = self._given.topic, self._given.partition
        if partition is not None and partition >= 0:
            there = self._know_topic()
            if partition >= there:
                raise BarnabasError(f"topic {topic} has {some(there, 'partition')}, from 0 on; there is no {partition}")

    def _know_topic(self) -> int:
        """Wait for the topic, as the first record would: how many partitions it has.

        A cluster says that there is none, and makes it, or never will: which of both, it is asked only then.
        """
        from barnabas.net.errors import ClientTimeout

        topic, until_s = self._given.topic, time.monotonic() + self._producer.config.max_block_ms / 1000
        meant = None
        while True:
            left_s = max(until_s - time.monotonic(), 0)
            try:
                there = len(self._producer.partitions_for(topic, left_s if meant is not None else min(left_s, _LOOK_S)))
            except ClientTimeout as error:
                if meant is None and _UNKNOWN in str(error):
                    meant = self._meant()
                elif time.monotonic() >= until_s:
                    why = str(error).partition(": ")[2]
                    told = f"topic {topic} is not known after {self._producer.config.max_block_ms} ms"
                    raise ClientTimeout("; ".join(filter(None, (f"{told}: {why}" if why else told, meant)))) from None
                continue
            if meant:
                fail(f"made topic {topic}; {meant}", 0)
            return there

    def _meant(self) -> str:
        """The topic that may have been meant instead of one that is not there.

        Raises:
            BarnabasError: the cluster makes none on first use.
        """
        from barnabas.cli.near import did_you_mean
        from barnabas.client.admin import BROKER, Admin

        topic, values, meant = self._given.topic, set(), ""
        with suppress(BarnabasError), Admin(shared_settings_of(self._given)) as admin:  # who may not ask, waits
            meant = did_you_mean(topic, set(admin.list_topics(internal=True)) - {topic})
            for node, _, _ in admin.describe_cluster().brokers:
                entries = admin.config_entries(str(node), kind=BROKER, keys=[_AUTO_CREATE])
                values |= {entry.value for entry in entries}
        if values == {"false"}:
            make = f"make it: barnabas topics create {topic}"
            raise BarnabasError(f"there is no topic {topic}, and the cluster makes none on first use; {meant or make}")
        return meant

    def _send(self, record: Given) -> None:
        if not self._sent:
            self._know_topic()
        try:
            self._producer.send(
                self._given.topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                on_delivery=self._told,
            )
        except ValueError as error:  # a partition, a time or a header that is none
            raise BadInput(f"record {self._sent + 1}: {error}") from None
        self._sent += 1
        self._bytes += len(record.value or b"")


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
