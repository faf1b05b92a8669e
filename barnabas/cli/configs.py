"""`barnabas configs get|set|delete`: settings of topics, brokers and groups, and where their values come from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.cli.codes import WRONG
from barnabas.cli.near import did_you_mean, naming_topics
from barnabas.cli.options import Options, Verbs, client_options, json_option, settings_of
from barnabas.cli.speak import fail, say, say_json, table

if TYPE_CHECKING:
    from barnabas.client.admin import Admin, ConfigEntry

KINDS: Final = ("topic", "broker", "group")
ALL_BROKERS: Final = "all"
_HIDDEN: Final = "(secret)"
_NAME: Final = "its name; a broker's is its id, or all for what all brokers share"


def parser() -> Options:
    """The options of `barnabas configs`."""
    options = Options(
        prog="barnabas configs",
        description="Show and change settings of topics, brokers and groups.",
        examples=("barnabas configs get topic flights", "barnabas configs set topic flights retention.ms=86400000"),
    )
    verbs = Verbs(options, client_options, json_option)
    shown = verbs.add(
        "get",
        "settings, and where each value comes from",
        "barnabas configs get topic flights                        # those that are no defaults",
        "barnabas configs get topic flights --all",
        "barnabas configs get broker 1 num.partitions log.retention.ms",
        "barnabas configs get broker all                           # what all brokers share",
    )
    _what(shown)
    shown.add_argument("keys", nargs="*", metavar="KEY", help="only these")
    shown.add_argument("--all", "-a", action="store_true", help="defaults, too")
    changed = verbs.add(
        "set",
        "change settings",
        "barnabas configs set topic flights retention.ms=86400000 cleanup.policy+=compact",
        "barnabas configs set broker all log.retention.ms=60000 --dry-run",
    )
    _what(changed)
    changed.add_argument(
        "changes", nargs="+", metavar="KEY=VALUE", type=change, help="KEY+=VALUE adds to a list, KEY-=VALUE takes away"
    )
    deleted = verbs.add(
        "delete", "let settings have their defaults again", "barnabas configs delete topic flights retention.ms"
    )
    _what(deleted)
    deleted.add_argument("keys", nargs="+", metavar="KEY")
    for each in (changed, deleted):
        each.add_argument("--dry-run", action="store_true", help="only say whether the broker would")
    return options


def _what(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    verb.add_argument("name", metavar="NAME", help=_NAME)


def change(text: str) -> tuple[str, str, str]:
    """Operation (=, + or -), key and value of `KEY=VALUE`, `KEY+=VALUE` or `KEY-=VALUE`."""
    key, equals, value = text.partition("=")
    operation = key[-1:] if key[-1:] in ("+", "-") else "="
    key = key.removesuffix(operation)
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text}: write KEY=VALUE, KEY+=VALUE or KEY-=VALUE")
    return operation, key, value


def main(arguments: Sequence[str]) -> int:
    """Run one verb; the exit code."""
    given = parser().read(arguments)
    if not given.name:
        return fail(f"a {given.kind}'s name cannot be empty; all brokers together are called {ALL_BROKERS}", WRONG)
    if given.kind == "broker" and given.name != ALL_BROKERS and not given.name.isdecimal():
        return fail(f"broker {given.name}: write its node id, such as 1, or {ALL_BROKERS} for all together", WRONG)
    given.name = "" if given.kind == "broker" and given.name == ALL_BROKERS else given.name

    from barnabas.client.admin import BROKER, GROUP, TOPIC, Admin

    given.number = {"topic": TOPIC, "broker": BROKER, "group": GROUP}[given.kind]
    with Admin(settings_of(given)) as admin, naming_topics(admin, given.name):
        if given.kind == "broker" and given.name:
            _check_broker(admin, given.name)
        {"get": _get, "set": _set, "delete": _delete}[given.verb](admin, given)
    return 0


def _check_broker(admin: Admin, name: str) -> None:
    from barnabas.protocol.errors import BarnabasError

    there = [str(node) for node, _, _ in admin.describe_cluster().brokers]
    if name not in there:
        raise BarnabasError(f"there is no broker {name}; the cluster has {', '.join(there)}")


def _entries(admin: Admin, given: argparse.Namespace) -> list[ConfigEntry]:
    """The settings that were named, or all.

    Raises:
        BarnabasError: there is none of that name.
    """
    from barnabas.protocol.errors import BarnabasError

    entries = admin.config_entries(given.name, kind=given.number, keys=given.keys or None)
    known = {entry.name for entry in entries}
    absent = [key for key in given.keys if key not in known]
    if absent:
        there = {each.name for each in admin.config_entries(given.name, kind=given.number)}
        meant = did_you_mean(absent[0], there) or "configs get --all shows those it has"
        raise BarnabasError(f"{_called(given)} has no setting {absent[0]}; {meant}")
    return entries


def _get(admin: Admin, given: argparse.Namespace) -> None:
    entries = _entries(admin, given)
    shown = [entry for entry in entries if given.all or given.keys or entry.source != "default"]
    for entry in shown if given.json else ():
        synonyms = [{"name": name, "value": value, "source": source} for name, value, source in entry.synonyms]
        say_json(
            kind=given.kind,
            name=given.name or ALL_BROKERS,
            key=entry.name,
            value=entry.value,
            source=entry.source,
            read_only=entry.read_only,
            sensitive=entry.sensitive,
            synonyms=synonyms,
        )
    if given.json:
        return
    if not shown:
        say(f"{_called(given)} has defaults alone; --all shows them")
        return
    rows = [
        (
            entry.name,
            _HIDDEN if entry.sensitive else "" if entry.value is None else entry.value,
            entry.source,
            "read only" if entry.read_only else "",
        )
        for entry in sorted(shown)
    ]
    say(table(("setting", "value", "from", ""), rows))


def _called(given: argparse.Namespace) -> str:
    return f"{given.kind} {given.name}" if given.name else "all brokers together"


def _set(admin: Admin, given: argparse.Namespace) -> None:
    of = {sign: {key: value for how, key, value in given.changes if how == sign} for sign in "=+-"}
    admin.alter_configs(
        given.name, of["="], append=of["+"], subtract=of["-"], kind=given.number, validate_only=given.dry_run
    )
    _done(given, "changed", [key for _, key, _ in given.changes])


def _delete(admin: Admin, given: argparse.Namespace) -> None:
    if given.kind == "topic":  # brokers take back what an older release took, and what groups have not is no harm
        _entries(admin, given)
    admin.alter_configs(given.name, reset=given.keys, kind=given.number, validate_only=given.dry_run)
    _done(given, "back to the default", given.keys)


def _done(given: argparse.Namespace, what: str, keys: Sequence[str]) -> None:
    if given.json:
        say_json(kind=given.kind, name=given.name or ALL_BROKERS, keys=list(keys), changed=not given.dry_run)
    else:
        say(f"{_called(given)}: {'would be ' if given.dry_run else ''}{what}: {', '.join(keys)}")
