"""Whose data directory this is: `meta.properties`, as Kafka writes it, with our format number added.

A directory is refused, and nothing in it touched, when it belongs to something else, to another node, or to a newer
release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.broker.cluster.features import Spans, as_triples, not_known
from barnabas.broker.cluster.judgement import DIRECTORY as METADATA_DIRECTORY
from barnabas.broker.cluster.ledger import LEDGER_FILE
from barnabas.broker.config.properties import parse_properties
from barnabas.broker.jobs import Job, write_all
from barnabas.broker.ports import Disk, Entropy
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import format_uuid

FILE: Final = "meta.properties"
FORMAT: Final = 1
"""The format of everything in the directory that is not Kafka's: raised when an older release could not read it."""
_FORMAT_KEY: Final = "barnabas.format"
_HARMLESS: Final = frozenset({"lost+found", ".lock", ".gitkeep", ".DS_Store", f"{FILE}.tmp", "barnabas.socket"})
"""What an empty directory may hold; the last two are what a first start leaves that was killed."""


class DataDirError(BarnabasError):
    """A data directory that this broker must not use: says why, and what to do instead."""


class Identity(NamedTuple):
    """What a data directory says of itself; ids in Kafka's text form. `fresh`: it was empty until now."""

    node_id: int
    cluster_id: str
    directory_id: str
    fresh: bool = False


def identify(disk: Disk, entropy: Entropy, node_id: int, cluster_id: str = "") -> Identity:
    """Read who the directory belongs to; for an empty one a fresh identity, which `write` makes its own.

    `cluster_id` is the cluster that it is to be of; "" for any, a new one where it is fresh.

    Raises:
        DataDirError: it is not this broker's to use.
    """
    try:
        text = disk.load(FILE).decode("utf-8", "replace")
    except FileNotFoundError:
        return _fresh(disk, entropy, node_id, cluster_id)
    except OSError as fault:
        raise DataDirError(f"{FILE} cannot be read: {fault.strerror or fault}") from fault
    try:
        entries = parse_properties(text)
    except BarnabasError:  # no such file was ever written by a broker
        entries = {}
    remedy = f"if it is this broker's, restore {FILE}: {_lines_of(node_id)}; else name another directory"
    if _FORMAT_KEY not in entries:
        if "version" in entries and not disk.exists(LEDGER_FILE):
            raise DataDirError(
                f"the data directory belongs to Apache Kafka, not to this broker ({FILE}); name another one"
            )
        raise DataDirError(
            f"{FILE} does not say whose data directory this is: it is damaged, or not a broker's; {remedy}"
        )
    written = entries[_FORMAT_KEY]
    if not written.isdigit() or int(written) > FORMAT:
        raise DataDirError(
            f"the data directory has format {written}, this release reads up to {FORMAT} ({FILE}); start a newer "
            "release, or name another directory"
        )
    if entries.get("node.id") != str(node_id):
        raise DataDirError(
            f"the data directory belongs to node {entries.get('node.id')} ({FILE}), this broker is node {node_id}; set "
            f"node.id to match; {remedy}"
        )
    known = entries.get("cluster.id", "")
    if cluster_id not in ("", known):
        raise DataDirError(
            f"the data directory belongs to cluster {known or '(none)'} ({FILE}), and this broker is to be of cluster "
            f"{cluster_id} (barnabas.cluster.id, or CLUSTER_ID in the environment); name another directory, or that "
            "cluster"
        )
    return Identity(node_id, known, entries.get("directory.id", ""))


def _lines_of(node_id: int) -> str:
    """What `FILE` must hold; which cluster it is stands in the metadata, and a start without it says so."""
    lines = f"version=1, {_FORMAT_KEY}={FORMAT} and node.id={node_id}"
    return f"it has the lines {lines}, and cluster.id=, whose value the next start will name"


def _was_ours(disk: Disk) -> bool:
    return disk.exists(LEDGER_FILE) or disk.exists(METADATA_DIRECTORY)


def _fresh(disk: Disk, entropy: Entropy, node_id: int, cluster_id: str) -> Identity:
    foreign = [name for name in disk.list("") if name not in _HARMLESS]
    if foreign:
        raise DataDirError(
            f"the data directory holds {foreign[0]} but no {FILE}: it is not a broker's; name an empty or a new one"
            + (f"; if it was this broker's, restore {FILE}: {_lines_of(node_id)}" if _was_ours(disk) else "")
        )
    return Identity(node_id, cluster_id or format_uuid(entropy.uuid()), format_uuid(entropy.uuid()), fresh=True)


def in_use(disk: Disk) -> bool:
    """Whether the directory holds what only a broker with metadata can have written: its first start went through.

    A first start makes itself known, then makes the metadata log, then anything else.
    """
    first = {*_HARMLESS, FILE, METADATA_DIRECTORY, f"{LEDGER_FILE}.tmp"}
    return any(name not in first for name in disk.list(""))


def check_cluster(identity: Identity, known: str) -> None:
    """Compare with the cluster id in the metadata (empty: none was written yet).

    Raises:
        DataDirError: it is another.
    """
    if known not in ("", identity.cluster_id):
        raise DataDirError(
            f"{FILE} says that this is a directory of cluster {identity.cluster_id or '(none)'}, and its metadata is "
            f"that of cluster {known}; write cluster.id={known} back into {FILE}, or restore the directory from a copy"
        )


def check_features(levels: Mapping[str, int], known: Spans) -> None:
    """Compare the levels that the metadata is at with those that this release knows.

    Raises:
        DataDirError: a newer release has raised one of them.
    """
    wrong = not_known(levels, as_triples(known))
    if wrong:
        raise DataDirError(
            f"the metadata is at levels that this release does not know ({wrong}): a newer one wrote it, and levels "
            "are not lowered; start that release, or name another data directory"
        )


def write(disk: Disk, identity: Identity) -> Job[None]:
    """Make an empty directory ours. Nothing else may be written to it until the job is through.

    Raises:
        DataDirError: the disk failed.
    """
    lines = [
        "version=1",
        f"{_FORMAT_KEY}={FORMAT}",
        f"node.id={identity.node_id}",
        f"cluster.id={identity.cluster_id}",
        f"directory.id={identity.directory_id}",
    ]
    try:
        yield from write_all(disk, [(FILE, ("\n".join(lines) + "\n").encode())])
    except OSError as fault:
        raise DataDirError(f"{FILE} cannot be written: {fault.strerror or fault}") from fault
