"""`barnabas consume TOPIC`: prints records, one per line, until Ctrl-C (or the end, with --exit)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.speak import Options, fail, server_option

if TYPE_CHECKING:
    from barnabas.client.consumer import Consumer
    from barnabas.protocol.ids import TopicPartition

_POLL_SECONDS = 0.2


def main(arguments: Sequence[str]) -> int:
    """Print records of topics."""
    options = Options(prog="barnabas consume", description="Print records, one per line. It makes no topic.")
    server_option(options)
    options.add_argument("topics", nargs="+", metavar="topic")
    options.add_argument("--from-beginning", "-f", action="store_true", help="all records, not only new ones")
    options.add_argument("--exit", "-e", action="store_true", help="end at the end of the topics as they are now")
    options.add_argument("--max", "-n", metavar="COUNT", type=int, help="end after so many records")
    options.add_argument("--json", action="store_true", help="topic, partition, offset, time, key and headers, too")
    options.add_argument(
        "--group",
        "-g",
        help="as a member of this group: go on where it left off (-f and -e are for what it has not committed), "
        "and commit what was printed",
    )
    given = options.parse_args(arguments)
    if given.group == "":
        return fail("--group: a group's name cannot be empty")

    from barnabas.protocol.errors import BarnabasError

    try:
        _consume(given)
    except BarnabasError as error:
        return fail(str(error), 1)
    return 0


def _consume(given: argparse.Namespace) -> None:
    from barnabas.client.consumer import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": given.server,
        "default.api.timeout.ms": 10_000,
        "auto.offset.reset": "earliest" if given.from_beginning or given.exit else "latest",
        "allow.auto.create.topics": False,
    }
    if given.group is not None:
        settings |= {"group.id": given.group, "enable.auto.commit": False}
    _check_topics(given.server, given.topics)
    with Consumer(*given.topics, config=settings) as consumer:
        _print_records(consumer, given)


def _check_topics(server: str, topics: Sequence[str]) -> None:
    """A consumer waits for topics that are not there; a person who misspelt one would wait with it."""
    from barnabas.client.admin import Admin
    from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError

    with Admin(bootstrap_servers=server, default_api_timeout_ms=10_000) as admin:
        for topic in topics:
            try:
                admin.describe_topics(topic)
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                raise BarnabasError(f"there is no topic {topic}; make it: barnabas topics create {topic}") from None


def _print_records(consumer: Consumer, given: argparse.Namespace) -> None:
    """Until the end, or the number, that was asked for. A group's are committed once they are printed, never before."""
    from barnabas.protocol.ids import TopicPartition

    left = given.max
    ends = consumer.end_offsets(consumer.assignment()) if given.exit else {}
    while left is None or left > 0:
        if given.exit and _at_end(consumer, ends):
            return
        printed: dict[TopicPartition, int] = {}
        for record in consumer.poll(_POLL_SECONDS, max_records=left):
            where = TopicPartition(record.topic, record.partition)
            if given.group is None and given.exit and record.offset >= ends.get(where, 0):
                continue  # it came later, or its partition did
            _print(record, given.json)
            printed[where] = record.offset + 1
            left = None if left is None else left - 1
        sys.stdout.flush()
        if printed and given.group is not None:
            consumer.commit(dict(printed))


def _at_end(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Whether all is read. A group's member learns only by and by what it reads: `ends` grows by that."""
    health = consumer.health()
    if health.state not in ("stable", "assigned"):
        return False
    ends |= consumer.end_offsets([where for where in health.assignment if where not in ends])
    return all(consumer.position(where) >= ends[where] for where in health.assignment)


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
