"""`barnabas produce TOPIC`: every line of standard input becomes a record."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from barnabas.cli.speak import Options, fail, server_option


def main(arguments: Sequence[str]) -> int:
    """Send lines until the input ends; 1 when a record was not delivered."""
    options = Options(prog="barnabas produce", description="Send every line of standard input as a record.")
    server_option(options)
    options.add_argument("topic")
    options.add_argument("--key-separator", "-K", metavar="TEXT", help="the key stands before this in each line")
    options.add_argument("--partition", "-p", type=int, help="all records to this partition")
    options.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a producer setting, such as linger.ms=100"
    )
    given = options.parse_args(arguments)

    from barnabas.client.producer import Producer
    from barnabas.protocol.errors import BarnabasError

    failed: list[BaseException] = []

    def told(_metadata: object, error: BaseException | None) -> None:
        if error is not None:
            failed.append(error)

    separator = given.key_separator.encode() if given.key_separator else None
    count = 0
    try:
        settings = dict(entry.partition("=")[::2] for entry in given.set)
        with Producer({"bootstrap.servers": given.server, "max.block.ms": 10_000} | settings) as producer:
            for line in sys.stdin.buffer:
                key, value = None, line.rstrip(b"\r\n")
                if separator is not None and separator in value:
                    key, value = value.split(separator, 1)
                producer.send(given.topic, value, key, partition=given.partition, on_delivery=told)
                count += 1
                if failed:
                    break
            producer.flush()
    except (BarnabasError, ValueError) as error:
        return fail(str(error), 1)
    if failed:
        return fail(f"{len(failed)} of {count} records were not delivered: {failed[0]}", 1)
    return 0
