"""`barnabas log check|dump|repair`: the files of a data directory, looked at with the broker's own eyes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.speak import Options, fail, say, table

if TYPE_CHECKING:
    from barnabas.broker.log.check import Broken, Checked
    from barnabas.protocol.batch import BatchHeader

_VALUE_CHARACTERS_MAX = 60


def main(arguments: Sequence[str]) -> int:
    """Run one of the three; the exit code (1: something is broken, or cannot be read)."""
    options = Options(prog="barnabas log", description="Check, show and repair the logs of a data directory.")
    verbs = options.add_subparsers(dest="verb", required=True, metavar="check|dump|repair")
    check = verbs.add_parser("check", help="every batch of every log, or of one; changes nothing")
    check.add_argument("dir", help="a data directory, or one directory in it")
    dump = verbs.add_parser("dump", help="batches and records of a log or of one segment")
    dump.add_argument("path", help="a partition's directory, or one of its .log files")
    repair = verbs.add_parser("repair", help="go on without metadata that cannot be read; says what is lost")
    repair.add_argument("dir", help="a data directory that no broker serves from")
    repair.add_argument("--yes", action="store_true", help="do it (else it is only said what would be done)")
    given = options.parse_args(arguments)
    from barnabas.protocol.errors import BarnabasError

    try:
        return {"check": _check, "dump": _dump, "repair": _repair}[given.verb](given)
    except BarnabasError as error:
        return fail(str(error), 1)
    except OSError as error:
        return fail(f"{error.filename or given.verb}: {error.strerror or error}", 1)


def _check(given: argparse.Namespace) -> int:
    from barnabas.broker.cluster.judgement import DIRECTORY
    from barnabas.broker.cluster.repair import plan_repair
    from barnabas.broker.log.check import check_log
    from barnabas.broker.log.checkpoint import parse_directory_name
    from barnabas.cli.offline import Offline

    root, only = _split(given.dir)
    rows, faults = [], []
    with Offline(root) as offline:
        names = [only] if only else [name for name in offline.disk.list("") if parse_directory_name(name) is not None]
        for name in names:
            found = offline.run(check_log(offline.disk, name, gapless=name == DIRECTORY))
            rows.append(_row(name, found))
            if found.broken is not None:
                faults.append(_words_of(found.broken))
        if not only:
            faults += [f"the broker does not start: {one}" for one in offline.run(plan_repair(offline.disk)).problems]
    if not rows:
        return fail(f"{given.dir} holds no logs", 1)
    say(table(("log", "segments", "bytes", "batches", "first offset", "end offset", ""), rows))
    for fault in faults:
        _wrap(fault)
    return 1 if faults else 0


def _words_of(broken: Broken) -> str:
    torn = ", a torn tail: the next start cuts it" if broken.torn else ""
    return f"{broken.path} is broken at byte {broken.position} (record {broken.offset}): {broken.reason}{torn}"


def _row(name: str, found: Checked) -> tuple[object, ...]:
    parts = found.segments
    first = parts[0].base if parts else 0
    word = "" if found.broken is None else "torn" if found.broken.torn else "BROKEN"
    size, count = sum(part.size for part in parts), sum(part.batches for part in parts)
    return name, len(parts), size, count, first, found.end_offset, word


def _dump(given: argparse.Namespace) -> int:
    from barnabas.broker.cluster.judgement import DIRECTORY, SUFFIX
    from barnabas.broker.log.check import check_log
    from barnabas.cli.offline import Offline

    root, name = _split(given.path)
    if not name or name.endswith(SUFFIX):
        return fail(f"{given.path} is no log; name a partition's directory, or a .log file in it", 1)
    metadata = name.split("/")[0] == DIRECTORY

    def show(path: str, position: int, header: BatchHeader, view: memoryview) -> None:
        _show_batch(path, position, header, view, metadata)

    with Offline(root) as offline:
        found = offline.run(check_log(offline.disk, name, gapless=metadata, visit=show))
    return 0 if found.broken is None else fail(_words_of(found.broken), 1)


def _show_batch(path: str, position: int, header: BatchHeader, view: memoryview, metadata: bool) -> None:
    from barnabas.protocol.records import decode_records

    say(
        f"{path.rpartition('/')[2]} byte {position}: offsets {header.base_offset} to {header.last_offset}, "
        f"{header.size} bytes, epoch {header.leader_epoch}, sum {header.crc:08x} good"
        + (f", producer {header.producer_id}/{header.producer_epoch}" if header.producer_id >= 0 else "")
    )
    for record in decode_records(view, 0):
        if metadata:
            _wrap(f"  {record.offset}  {_words(record.value)}")
        else:
            say(f"  {record.offset}  {record.timestamp}  {_short(record.key)}  {_short(record.value)}")


def _words(value: object) -> str:
    """A metadata record: its kind and its fields."""
    from barnabas.broker.cluster.records import UnknownRecord, decode
    from barnabas.protocol.ids import format_uuid

    try:
        record = decode(value or b"")  # type: ignore[arg-type]
    except UnknownRecord as error:
        return str(error)
    fields = (
        f"{name}={format_uuid(field) if isinstance(field, bytes) and len(field) == 16 else field}"
        for name, field in record._asdict().items()
        if field is not None
    )
    return f"{type(record).__name__} {' '.join(fields)}"


def _wrap(text: str) -> None:
    """One sentence, in lines of 100 columns."""
    import textwrap

    indent = " " * (len(text) - len(text.lstrip()) + 4)
    say(textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def _short(data: object) -> str:
    if data is None:
        return "-"
    text = repr(bytes(data))[1:]  # type: ignore[call-overload]
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[:_VALUE_CHARACTERS_MAX]}..."


def _repair(given: argparse.Namespace) -> int:
    from barnabas.broker.cluster.repair import plan_repair
    from barnabas.cli.offline import Offline

    with Offline(given.dir, alone=True) as offline:
        if not offline.disk.exists("meta.properties"):
            return fail(f"{given.dir} is no data directory of a broker: it holds no meta.properties", 1)
        plan = offline.run(plan_repair(offline.disk))
        if not plan.problems:
            _wrap(
                "the metadata is all there: nothing to repair (records are not mended: barnabas log check tells which "
                "are broken, and consumers seek past them)"
            )
            return 0
        for problem in plan.problems:
            _wrap(problem)
        if plan.topics_lost:
            _wrap(
                f"topics that are lost with it (their logs stay, as -stray directories): {', '.join(plan.topics_lost)}"
            )
        say("done:" if given.yes else "to be done:")
        if given.yes:
            offline.run(plan.carry_out())
        for step in plan.steps:
            _wrap(f"  {step}")
    if not given.yes:
        say("nothing was changed; --yes does it")
    return 0 if given.yes else 1


def _split(path: str) -> tuple[str, str]:
    """The data directory, and what is named in it: nothing, a partition's directory, or a segment."""
    path = os.path.abspath(path)
    if path.endswith(".log"):
        directory, segment = os.path.split(path)
        if not (len(segment) == 24 and segment[:20].isdigit()):
            from barnabas.protocol.errors import BarnabasError

            raise BarnabasError(f"{path} is no segment; one is called by 20 digits and .log")
        return os.path.dirname(directory), f"{os.path.basename(directory)}/{segment}"
    if any(name.endswith(".log") for name in (os.listdir(path) if os.path.isdir(path) else [])):
        return os.path.split(path)
    return path, ""
