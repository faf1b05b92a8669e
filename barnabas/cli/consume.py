"""`barnabas consume TOPIC`: prints records, one per line, until Ctrl-C (or the end, with --exit)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from barnabas.cli.speak import Options, fail, server_option

_POLL_SECONDS = 0.2


def main(arguments: Sequence[str]) -> int:
    """Print records of topics."""
    options = Options(prog="barnabas consume", description="Print records, one per line.")
    server_option(options)
    options.add_argument("topics", nargs="+", metavar="topic")
    options.add_argument("--from-beginning", "-f", action="store_true", help="all records, not only new ones")
    options.add_argument("--exit", "-e", action="store_true", help="end at the end of the topics as they are now")
    options.add_argument("--max", "-n", metavar="COUNT", type=int, help="end after so many records")
    options.add_argument("--json", action="store_true", help="topic, partition, offset, time, key and headers, too")
    given = options.parse_args(arguments)

    from barnabas.protocol.errors import BarnabasError

    try:
        _consume(given)
    except BarnabasError as error:
        return fail(str(error), 1)
    return 0


def _consume(given: argparse.Namespace) -> None:
    from barnabas.client.consumer import Consumer
    from barnabas.protocol.ids import TopicPartition

    reset = "earliest" if given.from_beginning or given.exit else "latest"
    left = given.max
    settings = {"bootstrap.servers": given.server, "default.api.timeout.ms": 10_000, "auto.offset.reset": reset}
    with Consumer(*given.topics, config=settings) as consumer:
        ends = consumer.end_offsets(consumer.assignment()) if given.exit else {}
        while left is None or left > 0:
            if given.exit and all(consumer.position(where) >= end for where, end in ends.items()):
                return
            records = consumer.poll(_POLL_SECONDS, max_records=left)
            for record in records:
                if given.exit and record.offset >= ends[TopicPartition(record.topic, record.partition)]:
                    continue
                _print(record, given.json)
                left = None if left is None else left - 1
            sys.stdout.flush()


def _print(record: Any, as_json: bool) -> None:
    if not as_json:
        sys.stdout.buffer.write((record.value or b"") + b"\n")
        return
    entry = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    sys.stdout.buffer.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")


def _text(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "backslashreplace")
