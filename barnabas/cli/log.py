"""`barnabas log check|segments|dump|repair|voters`: files of a data directory, looked at with the broker's own eyes."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.codes import REFUSED, WRONG
from barnabas.cli.log_dump import dump, words_of
from barnabas.cli.options import Options, Verbs, json_option, named
from barnabas.cli.progress import Progress, size
from barnabas.cli.speak import fail, say, say_json, table, wrapped

if TYPE_CHECKING:
    from barnabas.broker.log.check import Checked, CheckedSegment
    from barnabas.cli.offline import Offline

_INDEXES: Final = (("index", 8), ("timeindex", 12))
"""The indexes of a segment, and bytes of an entry."""


def parser() -> Options:
    """The options of `barnabas log`."""
    options = Options(
        prog="barnabas log",
        description="Check, show and repair the logs of a data directory. Only repair and voters change anything.",
        examples=("barnabas log check ~/.local/share/barnabas", "barnabas log dump DATA_DIR/orders-0"),
    )
    verbs = Verbs(options)
    checked = verbs.add(
        "check",
        "every batch of every log, or of one",
        "barnabas log check ~/.local/share/barnabas",
        "barnabas log check DATA_DIR/orders-0 --json",
    )
    checked.add_argument(
        "dir", metavar="DIR", type=named("a directory"), help="a data directory, or one directory in it"
    )
    segments = verbs.add(
        "segments",
        "the segments of every log, or of one, with their indexes",
        "barnabas log segments DATA_DIR/orders-0",
    )
    segments.add_argument(
        "dir", metavar="DIR", type=named("a directory"), help="a data directory, or one directory in it"
    )
    dumped = verbs.add(
        "dump",
        "batches and records of a log; entries of an index, a snapshot or a checkpoint",
        "barnabas log dump DATA_DIR/orders-0",
        "barnabas log dump DATA_DIR/orders-0/00000000000000000000.timeindex",
        "barnabas log dump DATA_DIR/__consumer_offsets-3 --json   # commits and groups in words",
        "barnabas log dump DATA_DIR/replication-offset-checkpoint",
    )
    dumped.add_argument(
        "path",
        metavar="PATH",
        type=named("a file"),
        help="a partition's directory, or a file in it: .log, .index, .timeindex, .snapshot, leader-epoch-checkpoint, "
        "partition.metadata; of the metadata also .checkpoint and quorum-state; a checkpoint of offsets beside them",
    )
    for each in (checked, segments, dumped):
        json_option(each)
    repair = verbs.add(
        "repair",
        "go on without metadata that cannot be read; says what is lost",
        "barnabas log repair DATA_DIR                              # what it would do, and what is lost",
        "barnabas log repair DATA_DIR --yes",
    )
    repair.add_argument(
        "dir", metavar="DIR", type=named("a directory"), help="a data directory that no broker serves from"
    )
    repair.add_argument("--yes", action="store_true", help="do it (else it is only said what would be done)")
    voters = verbs.add(
        "voters",
        "make brokers controllers beside the only one of their cluster; all of them are stopped meanwhile",
        "barnabas log voters DATA_DIR_1 DATA_DIR_2 DATA_DIR_3   # the controller's comes first",
    )
    voters.add_argument(
        "dirs", metavar="DIR", nargs="+", type=named("a directory"), help="data directories, the controller's first"
    )
    return options


def main(arguments: Sequence[str]) -> int:
    """Run one verb; the exit code (1: something is broken, or is not there)."""
    given = parser().read(arguments)
    return {"check": _check, "segments": _segments, "dump": dump, "repair": _repair, "voters": _voters}[given.verb](
        given
    )


def _check(given: argparse.Namespace) -> int:
    from barnabas.broker.cluster.repair import plan_repair
    from barnabas.cli.offline import Offline, place

    root, only = place(given.dir)
    with Offline(root) as offline:
        rows = _checked(offline, only)
        faults = [words_of(found.broken) for _, found in rows if found.broken is not None]
        if not only:
            faults += [f"the broker does not start: {one}" for one in offline.run(plan_repair(offline.disk)).problems]
    if not rows:
        return fail(f"{given.dir} holds no logs", REFUSED)
    if given.json:
        for row in rows:
            say_json(**_told(*row))
    else:
        head = ("log", "segments", "bytes", "batches", "first offset", "end offset", "")
        say(table(head, [_row(name, found) for name, found in rows]))
    for fault in faults:
        fail(fault, REFUSED) if given.json else _say(fault)
    return REFUSED if faults else 0


def _checked(offline: Offline, only: str) -> list[tuple[str, Checked]]:
    """Every log, or one, looked through."""
    from barnabas.broker.cluster.judgement import DIRECTORY
    from barnabas.broker.log.check import check_log
    from barnabas.broker.log.checkpoint import parse_directory_name

    names = [only] if only else [name for name in offline.disk.list("") if parse_directory_name(name) is not None]
    found: list[tuple[str, Checked]] = []
    done = 0
    with Progress() as progress:

        def passed(path: str, position: int, header: Any, view: memoryview) -> None:
            nonlocal done
            done += header.size
            if progress.due():
                progress.tell(f"{path}: log {len(found) + 1} of {len(names)}, {size(done)}")

        for name in names:
            one = offline.run(check_log(offline.disk, name, gapless=name == DIRECTORY, visit=passed))
            found.append((name, one))
    return found


def _row(name: str, found: Checked) -> tuple[object, ...]:
    told = _told(name, found)
    word = "BROKEN" if told["state"] == "broken" else told["state"]
    return (name, *(told[key] for key in ("segments", "bytes", "batches", "first_offset", "end_offset")), word)


def _told(name: str, found: Checked) -> dict[str, Any]:
    parts = found.segments
    return {
        "log": name,
        "segments": len(parts),
        "bytes": sum(part.size for part in parts),
        "batches": sum(part.batches for part in parts),
        "first_offset": parts[0].base if parts else 0,
        "end_offset": found.end_offset,
        "state": "" if found.broken is None else "torn" if found.broken.torn else "broken",
    }


def _segments(given: argparse.Namespace) -> int:
    from barnabas.cli.offline import Offline, place

    root, only = place(given.dir)
    with Offline(root) as offline:
        checked = _checked(offline, only)
        rows = [_segment(offline, part) for _, found in checked for part in found.segments]
        broken = [found.broken for _, found in checked if found.broken is not None]
    if not rows:
        return fail(f"{given.dir} holds no logs", REFUSED)
    if given.json:
        for row in rows:
            say_json(**row)
    else:
        head = ("segment", "bytes", "batches", "records", "first offset", "end offset", "index", "time index")
        say(table(head, [["-" if each is None else each for each in row.values()] for row in rows]))
    for each in broken:
        fail(words_of(each), REFUSED)
    return REFUSED if broken else 0


def _segment(offline: Offline, part: CheckedSegment) -> dict[str, Any]:
    """A segment, and how many entries its indexes have (None: there is no file, for it is still written to)."""
    told: dict[str, Any] = {
        "segment": part.path,
        "bytes": part.size,
        "batches": part.batches,
        "records": part.records,
        "first_offset": part.base,
        "end_offset": part.end,
    }
    for suffix, entry_bytes in _INDEXES:
        path = f"{part.path.removesuffix('.log')}.{suffix}"
        told[suffix] = len(offline.disk.load(path)) // entry_bytes if offline.disk.exists(path) else None
    return told


def _say(text: str) -> None:
    say(wrapped(text))


def _repair(given: argparse.Namespace) -> int:
    from barnabas.broker.cluster.repair import plan_repair
    from barnabas.cli.offline import Offline

    with Offline(given.dir, alone=True) as offline:
        if not offline.disk.exists("meta.properties"):
            return fail(f"{given.dir} is no data directory of a broker: it holds no meta.properties", REFUSED)
        plan = offline.run(plan_repair(offline.disk))
        if not plan.problems:
            _say(
                "the metadata is all there: nothing to repair (records are not mended: barnabas log check tells which "
                "are broken, and consumers seek past them)"
            )
            return 0
        for problem in plan.problems:
            _say(problem)
        if plan.topics_lost:
            _say(
                f"topics that are lost with it (their logs stay, as -stray directories): {', '.join(plan.topics_lost)}"
            )
        say("done:" if given.yes else "to be done:")
        if given.yes:
            offline.run(plan.carry_out())
        for step in plan.steps:
            _say(f"  {step}")
    if not given.yes:
        say("nothing was changed; --yes does it")
    return 0 if given.yes else REFUSED


def _voters(given: argparse.Namespace) -> int:
    from contextlib import ExitStack

    from barnabas.broker.node.growth import grow
    from barnabas.cli.offline import Offline

    for one, other in itertools.combinations(given.dirs, 2):
        if os.path.realpath(one) == os.path.realpath(other):
            return fail(f"{one} and {other} are one data directory; name that of each controller once", WRONG)
    with ExitStack() as stack:
        disks = [stack.enter_context(Offline(one, alone=True)).disk for one in given.dirs]
        ids = ", ".join(map(str, grow(disks)))
    say(f"nodes {ids} are the controllers now; write all of them in controller.quorum.voters of every broker")
    return 0
