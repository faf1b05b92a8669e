"""`barnabas groups list|describe|lag|offsets|reset|delete`."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.codes import WRONG
from barnabas.cli.group_file import lines_of
from barnabas.cli.group_look import (
    Group,
    Standing,
    as_json,
    find_all,
    found,
    occupied,
    standings,
    total_lag,
    unknown,
)
from barnabas.cli.group_reset import Chosen, ago, chosen, listed, plan, shift, target
from barnabas.cli.near import MEANT_MAX
from barnabas.cli.options import Options, Verbs, client_options, json_option, named, settings_of
from barnabas.cli.speak import cell, fail, say, say_json, table
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.protocol.ids import TopicPartition

_KNOWN: Final = ("classic", "consumer", "")
_TOGETHER: Final = 100
"""So many groups are looked at together."""
_name = named("a group")


def main(arguments: Sequence[str]) -> int:
    """Run one of the six; the exit code."""
    given = parser().read(arguments)
    if given.verb == "offsets" and given.delete and not given.topic:
        return fail("--delete wants --topic TOPIC; barnabas groups delete forgets a group as a whole", WRONG)

    if given.verb == "reset" and given.to.kind == "file" and given.topic:
        return fail("--from-file says which partitions, too; leave --topic out", WRONG)
    if given.verb == "reset" and given.export and given.json:
        return fail("--export and --json are two forms of the same; take one of them", WRONG)

    from barnabas.client.admin import Admin

    with Admin(settings_of(given)) as admin:
        _VERBS[given.verb](admin, given)
    return 0


def parser() -> Options:
    """The options of `barnabas groups`."""
    options = Options(
        prog="barnabas groups",
        description="Who reads in a group, how far it is behind, and where it goes on.",
        examples=("barnabas groups list", "barnabas groups lag billing", "barnabas groups reset billing --to earliest"),
    )
    verbs = Verbs(options, client_options, json_option)
    verbs.add("list", "all groups: state, type, protocol, number of members", "barnabas groups list")
    for verb, what in (("describe", "members, and the lag of each partition"), ("lag", "the lag of each partition")):
        verbs.add(verb, what, f"barnabas groups {verb} billing").add_argument(
            "groups", nargs="+", metavar="GROUP", type=_name
        )
    offsets = verbs.add(
        "offsets",
        "what a group has committed, and what it noted with it",
        "barnabas groups offsets billing",
        "barnabas groups offsets billing --topic orders --delete",
    )
    offsets.add_argument("--delete", action="store_true", help="forget what it committed of --topic")
    reset = verbs.add(
        "reset",
        "let a group without members go on elsewhere",
        "barnabas groups reset billing --to earliest                          # what it would do",
        "barnabas groups reset billing --to earliest --execute                # and do it",
        "barnabas groups reset billing --to 2026-11-22T09:30:00 --topic orders:0,2",
        "barnabas groups reset billing --shift-by -100",
        "barnabas groups reset billing --by-duration 1h30m                    # or PT1H30M, as in Kafka's tool",
        "barnabas groups reset billing --shift-by 0 --export > billing.csv    # where it is, to come back to",
        "barnabas groups reset billing --from-file billing.csv --execute",
    )
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to", metavar="WHERE", type=target, help="earliest, latest, an offset, a time")
    to.add_argument(
        "--shift-by", metavar="N", dest="to", type=shift, help="so many records further than it is, or -N back"
    )
    to.add_argument("--by-duration", metavar="DURATION", dest="to", type=ago, help="where it was so long ago (1h30m)")
    to.add_argument(
        "--from-file", metavar="FILE", dest="to", type=listed, help="as a file says: TOPIC,PARTITION,OFFSET a line"
    )
    reset.add_argument("--export", action="store_true", help="show it as such a file, and nothing else")
    reset.add_argument("--execute", action="store_true", help="do it; else it is only shown")
    for one in (offsets, reset):
        one.add_argument("group", metavar="GROUP", type=_name)
        one.add_argument(
            "--topic", metavar="TOPIC[:P,P]", type=chosen, action="append", default=[], help="only these (repeatable)"
        )
    delete = verbs.add(
        "delete", "delete groups without members, and what they committed", "barnabas groups delete billing"
    )
    delete.add_argument("groups", nargs="+", metavar="GROUP", type=_name)
    return options


def _list(admin: Admin, given: argparse.Namespace) -> None:
    rows = []
    listed = admin.list_groups()
    groups = find_all(admin, [each.name for each in listed if each.kind in _KNOWN])
    for each in listed:
        group = groups.get(each.name)
        members = None if group is None or group.members is None else len(group.members)
        if given.json:
            say_json(group=each.name, state=each.state, type=each.kind, protocol=each.protocol_type, members=members)
        rows.append((each.name, each.state or "-", each.kind or "-", each.protocol_type or "-", cell(members)))
    if not given.json:
        say(table(("group", "state", "type", "protocol", "members"), rows))


def _describe(admin: Admin, given: argparse.Namespace) -> None:
    for group, rows in _looked_at(admin, given.groups):
        if given.json:
            say_json(
                group=group.name,
                state=group.state,
                type=group.kind,
                protocol=group.protocol_type,
                assignor=group.assignor,
                epoch=group.epoch if group.epoch >= 0 else None,
                members=_members_json(group),
                partitions=as_json(rows),
                total_lag=total_lag(rows),
            )
        else:
            epoch = f"epoch {group.epoch}" if group.epoch >= 0 else ""
            say("  ".join(filter(None, (group.name, group.state, group.protocol_type, group.assignor, epoch))))
            _say_members(group)
            _say_lag(rows)


def _looked_at(admin: Admin, names: Sequence[str]) -> Iterator[tuple[Group, list[Standing]]]:
    """The groups and where they stand, up to the first that is not there, which is raised then; many at a time."""
    for some in (names[at : at + _TOGETHER] for at in range(0, len(names), _TOGETHER)):
        told = find_all(admin, some)
        groups = []
        for name in some:
            if (group := told[name]) is None:
                break
            groups.append(group)
        yield from zip(groups, standings(admin, *groups), strict=True)
        if len(groups) < len(some):
            raise unknown(admin, some[len(groups)])


def _members_json(group: Group) -> list[dict[str, Any]] | None:
    if group.members is None:
        return None
    return [
        {
            "member_id": each.member_id,
            "instance_id": each.instance_id,
            "client_id": each.client_id,
            "host": each.host,
            "epoch": each.epoch if each.epoch >= 0 else None,
            "partitions": _places(each.assignment),
            "target": _places(each.target) if each.epoch >= 0 else None,
        }
        for each in group.members
    ]


def _places(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": where.topic, "partition": where.partition} for where in partitions]


def _say_members(group: Group) -> None:
    if group.members is None:
        say(f"its members are not known to this release, which knows no {group.kind or 'such'} groups")
    elif not group.members:
        say("no members")
    else:
        rows = [[each.member_id, each.client_id, each.host, _words(each.assignment)] for each in group.members]
        head = ["member", "client id", "host", "partitions"]
        if any(each.instance_id for each in group.members):  # static members
            head.append("instance")
            for row, each in zip(rows, group.members, strict=True):
                row.append(each.instance_id or "-")
        if group.epoch >= 0:  # of the consumer protocol: where each is on its way to what it is to have
            head += ["epoch", "is to have"]
            for row, each in zip(rows, group.members, strict=True):
                row += [str(each.epoch), "-" if each.target == each.assignment else _words(each.target)]
        say(table(head, rows))


def _words(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(map(str, partitions)) or "-"


def _lag(admin: Admin, given: argparse.Namespace) -> None:
    for group, rows in _looked_at(admin, given.groups):
        if given.json:
            say_json(group=group.name, partitions=as_json(rows), total_lag=total_lag(rows))
        else:
            say(group.name)
            _say_lag(rows)


def _say_lag(rows: Sequence[Standing]) -> None:
    cells = [
        (row.where, cell(row.committed), cell(row.end), cell(row.lag), row.member.client_id if row.member else "-")
        for row in rows
    ]
    say(table(("partition", "committed", "end", "lag", "client id"), cells))
    say(f"total lag {total_lag(rows)}")


def _offsets(admin: Admin, given: argparse.Namespace) -> None:
    found(admin, given.group)
    offsets = admin.group_offsets(given.group)
    if given.topic:
        offsets = {at: each for at, each in offsets.items() if any(_means(one, at) for one in given.topic)}
    if given.delete:
        _forget(admin, given, offsets)
    elif given.json:
        told = [
            {"topic": at.topic, "partition": at.partition, "committed": each.offset, "metadata": each.metadata}
            for at, each in offsets.items()
        ]
        say_json(group=given.group, offsets=told)
    else:
        rows = [(where, each.offset, each.metadata or "-") for where, each in offsets.items()]
        say(table(("partition", "committed", "metadata"), rows))


def _means(one: Chosen, where: TopicPartition) -> bool:
    return one.topic == where.topic and (not one.partitions or where.partition in one.partitions)


def _forget(admin: Admin, given: argparse.Namespace, offsets: Collection[TopicPartition]) -> None:
    name = given.group
    if not offsets:
        raise BarnabasError(
            f"group {name} has committed nothing of that; barnabas groups offsets {name} shows what it has"
        )
    try:
        admin.delete_group_offsets(name, *offsets)
    except KafkaError as error:
        if error.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
            raise occupied(name, "reads the topic at present") from None
        raise
    if given.json:
        say_json(group=name, forgotten=[{"topic": at.topic, "partition": at.partition} for at in offsets])
    else:
        say(f"forgot what {name} committed of {', '.join(map(str, offsets))}")


def _reset(admin: Admin, given: argparse.Namespace) -> None:
    moves = plan(admin, settings_of(given), given.group, given.to, given.topic)
    new = {move.where: move.new for move in moves if move.new is not None}
    if not new:
        raise BarnabasError(
            f"group {given.group} has committed nothing that is still there; name what it will read with --topic"
        )
    if given.execute:
        try:
            admin.alter_group_offsets(given.group, new)
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:  # somebody joined since the plan was made
                raise occupied(given.group) from None
            raise
    if given.json:
        told = [
            {"topic": at.topic, "partition": at.partition, "committed": committed, "new": to, "note": note}
            for at, committed, to, note in moves
        ]
        say_json(group=given.group, executed=given.execute, offsets=told)
        return
    if given.export:
        for line in lines_of(sorted(new.items())):
            say(line)
        return
    say(table(("partition", "committed", "new", ""), [(at, cell(was), cell(to), why) for at, was, to, why in moves]))
    say(f"{given.group} goes on there" if given.execute else "nothing was changed: --execute does it")


def _delete(admin: Admin, given: argparse.Namespace) -> None:
    answers = admin.delete_groups(*given.groups)
    deleted = [name for name, error in answers.items() if error is None]
    if given.json:
        for name, error in answers.items():
            say_json(group=name, deleted=error is None)
    elif deleted:
        say(f"deleted {', '.join(deleted)}")
    refused = [(name, error) for name, error in answers.items() if error is not None]
    if refused:
        said = [_refused(admin if number < MEANT_MAX else None, *one) for number, one in enumerate(refused)]
        raise BarnabasError("; ".join(map(str, said)))


def _refused(admin: Admin | None, name: str, error: KafkaError) -> BarnabasError:
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return unknown(admin, name)
    return occupied(name) if error.code == ErrorCode.NON_EMPTY_GROUP else error


_VERBS: Final = {
    "list": _list,
    "describe": _describe,
    "lag": _lag,
    "offsets": _offsets,
    "reset": _reset,
    "delete": _delete,
}
