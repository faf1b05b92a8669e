"""`barnabas log dump`: what stands in a log, an index, a snapshot of producers or of the metadata, or a checkpoint."""

from __future__ import annotations

import argparse
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.cli.codes import REFUSED
from barnabas.cli.formats import json_text
from barnabas.cli.speak import fail, say, say_json, wrapped
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.broker.log.check import Broken
    from barnabas.protocol.batch import BatchHeader

_VALUE_CHARACTERS_MAX: Final = 60
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_NAMED: Final = (
    "name a partition's directory, or a file in it (.log, .index, .timeindex, .snapshot, .checkpoint), or a small file "
    "(a checkpoint of offsets or epochs, partition.metadata, quorum-state)"
)
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Shown(NamedTuple):
    """A record's key and value in words; `wide` where they are to be wrapped."""

    key: Any
    value: Any
    wide: str = ""


def dump(given: argparse.Namespace) -> int:
    """Show a file, or all segments of a log; the exit code (1: it is broken, or is not there)."""
    name = os.path.basename(given.path)
    for ending, read in _FILES.items():
        if name.endswith(ending) and os.path.isfile(given.path):
            return _entries(given, read)
    if name.endswith(".checkpoint") and os.path.isfile(given.path):
        return _metadata_snapshot(given)
    return _batches(given)


# ---- logs ------------------------------------------------------------------------------------------------------------


def _batches(given: argparse.Namespace) -> int:
    from barnabas.broker.cluster.judgement import DIRECTORY, SUFFIX
    from barnabas.broker.log.check import check_log
    from barnabas.cli.offline import Offline, place

    root, name = place(given.path)
    if not name or name.endswith(SUFFIX):
        return fail(f"{given.path} is no log; {_NAMED}", REFUSED)
    directory = name.split("/")[0]
    shown = _shown_of(directory)
    show = _show_json if given.json else _show_text

    def visit(path: str, position: int, header: BatchHeader, view: memoryview) -> None:
        show(path, position, header, view, shown)

    with Offline(root) as offline:
        if not offline.disk.exists(name):
            return fail(f"there is no {given.path}", REFUSED)
        found = offline.run(check_log(offline.disk, name, gapless=directory == DIRECTORY, visit=visit))
    return 0 if found.broken is None else fail(words_of(found.broken), REFUSED)


def _metadata_snapshot(given: argparse.Namespace) -> int:
    """A snapshot of the metadata: batches, as in its log, and nothing behind them."""
    from barnabas.protocol.batch import batches, crc_ok, read_header
    from barnabas.protocol.errors import ProtocolError

    with open(given.path, "rb") as file:
        data = memoryview(file.read())
    show = _show_json if given.json else _show_text
    end = 0
    with suppress(ProtocolError):  # a length that no batch can have
        for position, size in batches(data):
            if not crc_ok(data, position, size):
                break
            view = data[position : position + size]
            show(given.path, position, read_header(view, 0), view, _metadata)
            end = position + size
    if end == len(data) and end:
        return 0
    return fail(f"{given.path} is broken at byte {end}: a snapshot is whole batches whose sums are good", REFUSED)


def words_of(broken: Broken) -> str:
    """Where a log is broken, and why."""
    torn = ", a torn tail: the next start cuts it" if broken.torn else ""
    return f"{broken.path} is broken at byte {broken.position} (record {broken.offset}): {broken.reason}{torn}"


def _shown_of(directory: str) -> Callable[[Any], Shown]:
    """How records of a log are read: metadata, groups, or a client's."""
    from barnabas.broker.cluster.judgement import DIRECTORY
    from barnabas.broker.config.topics import OFFSETS_TOPIC

    if directory == DIRECTORY:
        return _metadata
    if directory.rpartition("-")[0] == OFFSETS_TOPIC:
        return _group
    return lambda record: Shown(record.key, record.value)


def _show_text(path: str, position: int, header: BatchHeader, view: memoryview, shown: Callable[[Any], Shown]) -> None:
    from barnabas.protocol.records import decode_records

    say(
        f"{path.rpartition('/')[2]} byte {position}: offsets {header.base_offset} to {header.last_offset}, "
        f"{header.size} bytes, epoch {header.leader_epoch}, sum {header.crc:08x} good"
        + (f", {_CODECS[header.compression]}" if 0 < header.compression < len(_CODECS) else "")
        + (f", producer {header.producer_id}/{header.producer_epoch}" if header.producer_id >= 0 else "")
        + (", transactional" if header.attributes & _TRANSACTIONAL else "")
        + (", control" if header.attributes & _CONTROL else "")
    )
    for record in decode_records(view, 0):
        told = shown(record)
        if told.wide:
            say(wrapped(f"  {record.offset}  {told.wide}"))
            continue
        headers = "".join(f"  {name}={_short(value)}" for name, value in record.headers)
        say(f"  {record.offset}  {record.timestamp}  {_short(told.key)}  {_short(told.value)}{headers}")


def _show_json(path: str, position: int, header: BatchHeader, view: memoryview, shown: Callable[[Any], Shown]) -> None:
    from barnabas.protocol.records import decode_records

    for record in decode_records(view, 0):
        told = shown(record)
        say_json(
            segment=path,
            position=position,
            offset=record.offset,
            timestamp_ms=record.timestamp,
            leader_epoch=header.leader_epoch,
            compression=_CODECS[header.compression] if header.compression < len(_CODECS) else header.compression,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            transactional=bool(header.attributes & _TRANSACTIONAL),
            control=bool(header.attributes & _CONTROL),
            key=told.key if told.wide else json_text(record.key),
            value=told.value if told.wide else json_text(record.value),
            headers=[[name, json_text(value)] for name, value in record.headers],
        )


def _short(data: object) -> str:
    if data is None:
        return "-"
    text = repr(bytes(data))[1:]  # type: ignore[call-overload]
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[:_VALUE_CHARACTERS_MAX]}..."


def _metadata(record: Any) -> Shown:
    """A record of the metadata log: its kind and its fields."""
    from barnabas.broker.cluster.records import UnknownRecord, decode

    try:
        found = decode(record.value or b"")
    except UnknownRecord as error:
        return Shown(None, str(error), str(error))
    fields = {name: _plain(field) for name, field in found._asdict().items() if field is not None}
    kind = type(found).__name__
    return Shown(None, {"kind": kind, **fields}, f"{kind} {_words(fields)}".rstrip())


def _group(record: Any) -> Shown:
    """A record of `__consumer_offsets`: its kind, and the fields of key and value."""
    from barnabas.protocol.errors import ProtocolError
    from barnabas.protocol.kafka.coordinator.records import decode

    try:
        key, value = decode(record.key or b"", record.value)
    except ProtocolError as error:
        return Shown(None, str(error), f"{error}: {_short(record.key)}  {_short(record.value)}")
    kind = type(key).__name__.removesuffix("Key")
    fields = {name: _plain(getattr(key, name)) for name in _fields_of(key)}
    told = None if value is None else {name: _plain(getattr(value, name)) for name in _fields_of(value)}
    wide = f"{kind} {_words(fields)}: {'null' if told is None else _words(told)}"
    return Shown({"kind": kind, **fields}, told, wide)


def _fields_of(message: Any) -> Iterable[str]:
    return [name for name in type(message).__annotations__ if hasattr(message, name)]


def _words(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={field}" for name, field in fields.items())


def _plain(field: Any) -> Any:
    """A field as text and JSON have it: ids as Kafka writes them, bytes as text where they are some."""
    from barnabas.protocol.ids import format_uuid

    if isinstance(field, bytes | bytearray | memoryview):
        data = bytes(field)
        return format_uuid(data) if len(data) == 16 else json_text(data)
    if isinstance(field, list | tuple | frozenset):
        return [_plain(each) for each in (sorted(field) if isinstance(field, frozenset) else field)]
    if isinstance(field, dict):
        return {str(key): _plain(each) for key, each in field.items()}
    if field is None or isinstance(field, str | int | float):
        return field
    names = getattr(field, "_fields", None) or _fields_of(field)
    return {name: _plain(getattr(field, name)) for name in names}


# ---- the files beside a log ------------------------------------------------------------------------------------------


def _entries(given: argparse.Namespace, read: Callable[[bytes, str], Iterator[dict[str, Any]]]) -> int:
    with open(given.path, "rb") as file:
        data = file.read()
    try:
        for entry in read(data, os.path.basename(given.path)):
            say_json(**entry) if given.json else say("  ".join(f"{name} {told}" for name, told in entry.items()))
    except (ValueError, IndexError, struct.error) as error:
        return fail(f"{given.path}: {error}", REFUSED)
    return 0


def _base(name: str) -> int:
    digits = name.partition(".")[0]
    if len(digits) != 20 or not digits.isdigit():
        raise BarnabasError(f"{name} is no index; one is called by 20 digits, and .index or .timeindex")
    return int(digits)


def _whole(data: bytes, entry: struct.Struct) -> bytes:
    if len(data) % entry.size:
        raise ValueError(f"{len(data)} bytes are no whole number of entries of {entry.size}")
    return data


def _index(data: bytes, name: str) -> Iterator[dict[str, Any]]:
    base, entry = _base(name), struct.Struct(">ii")
    for offset, position in entry.iter_unpack(_whole(data, entry)):
        yield {"offset": base + offset, "position": position}


def _time_index(data: bytes, name: str) -> Iterator[dict[str, Any]]:
    base, entry = _base(name), struct.Struct(">qi")
    for timestamp_ms, offset in entry.iter_unpack(_whole(data, entry)):
        yield {"timestamp_ms": timestamp_ms, "offset": base + offset}


def _snapshot(data: bytes, _: str) -> Iterator[dict[str, Any]]:
    from barnabas.broker.log.producer_state import ProducerState

    for producer_id, producer in ProducerState.from_snapshot(data).producers.items():
        last = producer.batches[-1] if producer.batches else None
        yield {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": producer.last_offset,
            "timestamp_ms": last.timestamp if last else producer.timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "transaction_first_offset": producer.txn_first_offset,
        }


def _epochs(data: bytes, _: str) -> Iterator[dict[str, Any]]:
    from barnabas.broker.log.checkpoint import parse_epochs

    for epoch, start in parse_epochs(data):
        yield {"leader_epoch": epoch, "start_offset": start}


def _offsets(data: bytes, _: str) -> Iterator[dict[str, Any]]:
    from barnabas.broker.log.checkpoint import parse_offsets

    for (topic, partition), (offset, topic_id) in parse_offsets(data):
        yield {"topic": topic, "partition": partition, "offset": offset, "topic_id": _plain(topic_id)}


def _topic_id(data: bytes, _: str) -> Iterator[dict[str, Any]]:
    from barnabas.broker.log.checkpoint import parse_partition_metadata

    yield {"topic_id": _plain(parse_partition_metadata(data))}


def _quorum_state(data: bytes, _: str) -> Iterator[dict[str, Any]]:
    from barnabas.broker.raft.kept import parse

    kept, voters = parse(data)
    yield {"epoch": kept.epoch, "voted": kept.voted, "leader": kept.leader, "voters": voters}


_FILES: Final = {
    ".index": _index,
    ".timeindex": _time_index,
    ".snapshot": _snapshot,
    "leader-epoch-checkpoint": _epochs,
    "-offset-checkpoint": _offsets,
    "partition.metadata": _topic_id,
    "quorum-state": _quorum_state,
}
