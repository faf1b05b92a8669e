"""`barnabas topics list|create|delete|describe`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.speak import Options, fail, say, server_option, table

if TYPE_CHECKING:
    from barnabas.client.admin import Admin


def main(arguments: Sequence[str]) -> int:
    """Run one of the four; the exit code."""
    options = Options(prog="barnabas topics", description="List, create, delete and describe topics.")
    server_option(options)
    verbs = options.add_subparsers(dest="verb", required=True, metavar="list|create|delete|describe")
    verbs.add_parser("list", help="the names of all topics")
    create = verbs.add_parser("create", help="create a topic")
    create.add_argument("name")
    create.add_argument("--partitions", type=int, default=-1, help="number of partitions (the broker's num.partitions)")
    create.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting (repeatable)")
    delete = verbs.add_parser("delete", help="delete topics and their records")
    delete.add_argument("names", nargs="+", metavar="name")
    describe = verbs.add_parser("describe", help="partitions, offsets and settings")
    describe.add_argument("names", nargs="+", metavar="name")
    for verb in verbs.choices.values():  # it may stand behind the verb, too
        server_option(verb, argparse.SUPPRESS)
    given = options.parse_args(arguments)

    from barnabas.client.admin import Admin
    from barnabas.protocol.errors import BarnabasError

    try:
        with Admin(bootstrap_servers=given.server, default_api_timeout_ms=10_000) as admin:
            _run(admin, given)
    except BarnabasError as error:
        return fail(str(error), 1)
    return 0


def _run(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.protocol.errors import BarnabasError

    if given.verb == "list":
        for name in admin.list_topics():
            say(name)
    elif given.verb == "create":
        settings = dict(_setting(entry) for entry in given.set)
        admin.create_topic(given.name, partitions=given.partitions, config=settings)
        count = len(admin.describe_topics(given.name)[given.name].partitions)
        say(f"created {given.name} with {count} partition{'s' if count != 1 else ''}")
    elif given.verb == "delete":
        answers = admin.delete_topics(*given.names)
        deleted = [name for name, error in answers.items() if error is None]
        if deleted:
            say(f"deleted {', '.join(deleted)}")
        refused = [error for error in answers.values() if error is not None]
        if refused:
            raise BarnabasError("; ".join(map(str, refused)))
    else:
        _describe(admin, given.server, given.names)


def _setting(entry: str) -> tuple[str, str]:
    from barnabas.protocol.errors import BarnabasError

    name, equals, value = entry.partition("=")
    if not equals:
        raise BarnabasError(f"--set {entry}: write it as KEY=VALUE")
    return name, value


def _describe(admin: Admin, server: str, names: list[str]) -> None:
    from barnabas.client.consumer import Consumer
    from barnabas.protocol.ids import TopicPartition, format_uuid

    infos = admin.describe_topics(*names)
    wanted = [TopicPartition(name, part.partition) for name, info in infos.items() for part in info.partitions]
    with Consumer(bootstrap_servers=server, default_api_timeout_ms=10_000) as consumer:
        first, last = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
    for name, info in infos.items():
        settings = admin.describe_configs(name)
        say(f"{name}  id {format_uuid(info.topic_id)}")
        rows = []
        for part in info.partitions:
            where = TopicPartition(name, part.partition)
            rows.append(
                (part.partition, part.leader, _words(part.replicas), _words(part.isr), first[where], last[where])
            )
        say(table(("partition", "leader", "replicas", "in sync", "first offset", "end offset"), rows))
        for key in ("cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "min.insync.replicas"):
            if key in settings:
                say(f"  {key}={settings[key]}")


def _words(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
