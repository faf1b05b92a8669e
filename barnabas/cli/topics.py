"""`barnabas topics`: list, create, describe, alter and delete topics, and delete their oldest records."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.codes import WRONG, told
from barnabas.cli.near import MEANT_MAX, naming_topics, told_of
from barnabas.cli.options import (
    Options,
    Verbs,
    client_options,
    int16,
    int32,
    json_option,
    named,
    pair,
    settings_of,
    whole,
)
from barnabas.cli.places import Place, place, within
from barnabas.cli.speak import cell, fail, say, say_json, some, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.client.admin import Admin
    from barnabas.protocol.errors import KafkaError
    from barnabas.protocol.ids import TopicPartition

_SHOWN: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "min.insync.replicas")


def parser() -> Options:
    """The options of `barnabas topics`."""
    options = Options(
        prog="barnabas topics",
        description="List, create, describe, alter and delete topics.",
        examples=("barnabas topics list", "barnabas topics create flights --partitions 4"),
    )
    verbs = Verbs(options, client_options, json_option)
    listed = verbs.add("list", "the names of all topics", "barnabas topics list", "barnabas topics list --internal")
    listed.add_argument("--internal", action="store_true", help="the broker's own, too")
    created = verbs.add(
        "create",
        "create topics",
        "barnabas topics create flights --partitions 4 --set retention.ms=86400000",
        "barnabas topics create a b c --if-absent",
        "barnabas topics create flights --replica-assignment 1:2,2:3  # two partitions, on 1 and 2, and on 2 and 3",
    )
    _names(created)
    created.add_argument("--partitions", "-p", metavar="N", type=int32, default=-1, help="(num.partitions)")
    created.add_argument(
        "--replication-factor", "-r", metavar="N", type=int16, default=-1, help="(default.replication.factor)"
    )
    created.add_argument(
        "--replica-assignment",
        metavar="N:N,N:N",
        type=_assignment,
        help="the brokers of each partition, as kafka-topics.sh takes them; the first of each is to lead",
    )
    _set(created)
    created.add_argument("--if-absent", action="store_true", help="a topic that is there is left as it is")
    _dry_run(created)
    _names(verbs.add("describe", "partitions, offsets and settings", "barnabas topics describe flights"))
    altered = verbs.add(
        "alter",
        "add partitions, or change settings",
        "barnabas topics alter flights --partitions 8             # what there is keeps its keys' old places",
        "barnabas topics alter flights --set retention.ms=60000 --unset segment.bytes",
    )
    _names(altered)
    altered.add_argument("--partitions", "-p", metavar="N", type=int32, help="raise their number to this")
    _set(altered)
    altered.add_argument("--unset", metavar="KEY", action="append", default=[], help="back to its default (repeatable)")
    _dry_run(altered)
    _names(verbs.add("delete", "delete topics and their records", "barnabas topics delete flights arrivals"))
    trimmed = verbs.add(
        "delete-records",
        "delete the oldest records",
        "barnabas topics delete-records flights --before end",
        "barnabas topics delete-records flights --before s@2026-11-01 --partition 0",
    )
    trimmed.add_argument("name", metavar="TOPIC", type=named("a topic"))
    trimmed.add_argument(
        "--before", metavar="WHERE", type=place, required=True, help="end, an offset, -N (all but the last N), s@TIME"
    )
    trimmed.add_argument("--partition", metavar="N", type=whole, action="append", help="only this (repeatable)")
    return options


def _names(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("names", nargs="+", metavar="TOPIC", type=named("a topic"))


def _assignment(text: str) -> list[list[int]]:
    parts = [part.split(":") for part in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 9 for part in parts for word in part):
        raise argparse.ArgumentTypeError(f"{text}: write the brokers of each partition, such as 1:2,2:3 for two")
    return [list(map(int, part)) for part in parts]


def _set(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--set", "-c", metavar="KEY=VALUE", type=pair, action="append", default=[], help="a setting (repeatable)"
    )


def _dry_run(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--dry-run", action="store_true", help="only say whether the broker would")


def main(arguments: Sequence[str]) -> int:
    """Run one verb; the exit code."""
    given = parser().read(arguments)
    if given.verb == "alter" and not (given.partitions or given.set or given.unset):
        return fail("nothing to alter: give --partitions, --set or --unset", WRONG)
    if given.verb == "create" and given.replica_assignment and max(given.partitions, given.replication_factor) > 0:
        return fail("--replica-assignment says how many partitions and replicas there are: drop -p and -r", WRONG)
    if given.verb == "delete-records" and given.before.kind == "until":
        return fail("--before e@TIME: write s@TIME, which is the first record from then on", WRONG)

    from barnabas.client.admin import Admin

    names = getattr(given, "names", None) or [getattr(given, "name", "")]
    with Admin(settings_of(given)) as admin, naming_topics(admin, *names):
        _VERBS[given.verb](admin, given)
    return 0


def _list(admin: Admin, given: argparse.Namespace) -> None:
    for name in admin.list_topics(internal=given.internal):
        say_json(topic=name) if given.json else say(name)


def _create(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.client.admin import NewTopic
    from barnabas.protocol.errors import ErrorCode

    counts = given.partitions, given.replication_factor
    wanted = [NewTopic(name, *counts, dict(given.set), given.replica_assignment) for name in given.names]
    answers = _in_order(given.names, admin.create_topics(*wanted, validate_only=given.dry_run))
    there = {
        name
        for name, error in answers.items()
        if given.if_absent and error is not None and error.code == ErrorCode.TOPIC_ALREADY_EXISTS
    }
    answers |= dict.fromkeys(there)
    for name, error in answers.items():
        made = error is None and name not in there and not given.dry_run
        known = error is None and (name in there or made)
        partitions = len(admin.describe_topics(name)[name].partitions) if known else None
        if given.json:
            say_json(topic=name, created=made, partitions=partitions, error=error and told(error))
        elif error is None and given.dry_run:
            say(f"{name} is there" if name in there else f"{name} would be created")
        elif error is None:
            say(f"{'created ' if made else ''}{name} {'with' if made else 'has'} {some(partitions or 0, 'partition')}")
    _raise(None if error is None else told(error) for error in answers.values())


def _in_order(names: Sequence[str], answers: Mapping[str, KafkaError | None]) -> dict[str, KafkaError | None]:
    """Answers as they were asked for: Kafka gives them in an order of its own."""
    return {name: answers[name] for name in dict.fromkeys(names) if name in answers}


def _alter(admin: Admin, given: argparse.Namespace) -> None:
    for name in given.names:
        if given.partitions:
            admin.create_partitions(name, given.partitions, validate_only=given.dry_run)
        if given.set or given.unset:
            admin.alter_configs(name, dict(given.set), reset=given.unset, validate_only=given.dry_run)
        if given.json:
            say_json(topic=name, altered=not given.dry_run)
        else:
            say(f"{name} would be altered" if given.dry_run else f"altered {name}")


def _delete(admin: Admin, given: argparse.Namespace) -> None:
    answers = _in_order(given.names, admin.delete_topics(*given.names))
    sought = [name for name, error in answers.items() if error is not None][:MEANT_MAX]
    said = {
        name: None if error is None else told_of(admin if name in sought else None, error, name)
        for name, error in answers.items()
    }
    deleted = [name for name, error in said.items() if error is None]
    if given.json:
        for name, error in said.items():
            say_json(topic=name, deleted=error is None, error=error)
    elif deleted:
        say(f"deleted {', '.join(deleted)}")
    _raise(said.values())


def _raise(said: Iterable[str | None]) -> None:
    from barnabas.protocol.errors import BarnabasError

    if refused := list(filter(None, said)):
        raise BarnabasError("; ".join(refused))


def _delete_records(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.cli.group_reset import Chosen, select
    from barnabas.client.consumer import Consumer
    from barnabas.protocol.ids import TopicPartition

    parts = admin.describe_topics(given.name)[given.name].partitions
    there = {TopicPartition(given.name, part.partition) for part in parts}
    meant = select(admin, [Chosen(given.name, tuple(given.partition or ()))], there)
    with Consumer(config=settings_of(given)) as consumer:
        before = within(consumer, meant, given.before)
        ends = consumer.end_offsets(meant)
    # Kafka refuses an offset behind the end, and -1 is what stands for the end as it is when the request comes.
    first = admin.delete_records({where: -1 if _all(given.before) else before[where] for where in meant})
    rows = [(where, first[where], ends[where]) for where in meant]
    if given.json:
        for where, start, end in rows:
            say_json(topic=where.topic, partition=where.partition, first_offset=start, end_offset=end)
    else:
        say(table(("partition", "first offset", "end offset"), rows))


def _all(before: Place) -> bool:
    return before.kind == "end"


def _describe(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.client.consumer import Consumer
    from barnabas.net.errors import ClientTimeout, FeatureMissing
    from barnabas.protocol.errors import KafkaError
    from barnabas.protocol.ids import TopicPartition, format_uuid

    try:
        infos = admin.describe_partitions(*given.names)
    except FeatureMissing:  # who is eligible to lead is told since Apache Kafka 3.7
        infos = admin.describe_topics(*given.names)
    led = [(name, part) for name, info in infos.items() for part in info.partitions if part.leader >= 0]
    wanted = [TopicPartition(name, part.partition) for name, part in led]
    first: Mapping[TopicPartition, int] = {}
    last: Mapping[TopicPartition, int] = {}
    with Consumer(config=settings_of(given)) as consumer:
        try:
            first = consumer.beginning_offsets(wanted)
            last = consumer.end_offsets(wanted)
        except (
            ClientTimeout,
            KafkaError,
        ) as error:  # a new leader below its minimum tells no end; who may lead is the more wanted
            fail(f"{error}", 0)
    for name, info in infos.items():
        settings = admin.describe_configs(name)
        parts = [_part(name, part, first, last) for part in info.partitions]
        if given.json:
            say_json(topic=name, id=format_uuid(info.topic_id), partitions=parts, settings=settings)
            continue
        say(f"{name}  id {format_uuid(info.topic_id)}")
        rows = [
            (each["partition"], each["leader"], _words(each["replicas"]), _words(each["in_sync"]), *_edges(each))
            for each in parts
        ]
        say(table(("partition", "leader", "replicas", "in sync", "first offset", "end offset"), rows))
        for each in parts:
            if each["eligible"] or each["last_known"]:
                may = f"may lead without being in sync: {_words(each['eligible']) or 'nobody'}"
                before = f"; led last: {_words(each['last_known'])}" if each["last_known"] else ""
                say(f"  partition {each['partition']}: {may}{before}")
        for key in _SHOWN:
            if key in settings:
                say(f"  {key}={settings[key]}")


def _part(
    name: str, part: Any, first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    from barnabas.protocol.ids import TopicPartition

    where = TopicPartition(name, part.partition)
    return {
        "partition": part.partition,
        "leader": part.leader,
        "replicas": list(part.replicas),
        "in_sync": list(part.isr),
        "eligible": list(part.elr),
        "last_known": list(part.last_known),
        "first_offset": first.get(where),
        "end_offset": last.get(where),
    }


def _edges(part: Mapping[str, Any]) -> tuple[int | str, int | str]:
    return cell(part["first_offset"]), cell(part["end_offset"])


def _words(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


_VERBS: Final = {
    "list": _list,
    "create": _create,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
    "delete-records": _delete_records,
}
