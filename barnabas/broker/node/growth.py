"""Brokers become controllers beside the only one: its metadata log goes into their data directories, and all are told.

    the others      the log of the one that decides, whole, and who the voters are
    then that one   who the voters are: until then it decides alone, as before

All are stopped meanwhile. Two brokers that began with empty logs could elect each other, and know of no topic; so
nobody is made a controller who has not what was decided so far. What is cut short is begun anew, from the beginning.
Kafka adds controllers while the quorum runs (KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.broker.cluster.judgement import DIRECTORY
from barnabas.broker.config.properties import parse_properties
from barnabas.broker.node.identity import FILE, DataDirError
from barnabas.broker.ports import Disk
from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept


def grow(disks: Sequence[Disk]) -> list[int]:
    """Make a quorum of the controller of the first data directory, and of the brokers of the others; who they are.

    Raises:
        DataDirError: they are not of one cluster, or the first is not its only controller's; nothing was changed.
        OSError: a disk failed; once it is mended this is to be done again.
    """
    told = [_told(disk) for disk in disks]
    ids = sorted(int(one["node.id"]) for one in told)
    clusters = {one.get("cluster.id", "") for one in told}
    if len(clusters) != 1 or "" in clusters:
        raise DataDirError(f"the data directories are of different clusters ({FILE}): {', '.join(sorted(clusters))}")
    if len(set(ids)) != len(ids) or len(ids) < 2:
        raise DataDirError("name the controller's data directory, and that of each broker that is to be one, too")
    first, *others = disks
    if not first.exists(kept.FILE):
        raise DataDirError("the first data directory is no controller's of a cluster: it holds no quorum-state")
    known, voters = kept.parse(first.load(kept.FILE))
    if voters != [int(told[0]["node.id"])]:
        raise DataDirError(f"the controller is not alone: nodes {', '.join(map(str, voters))} are controllers already")
    state = kept.dump(Kept(known.epoch), ids)
    for disk in others:
        disk.remove(DIRECTORY)
        disk.make_dir(DIRECTORY)
        for name in first.list(DIRECTORY):
            path = f"{DIRECTORY}/{name}"
            if path != kept.FILE:
                disk.write_atomic(path, bytes(first.load(path)))
        disk.write_atomic(kept.FILE, state)
    first.write_atomic(kept.FILE, state)
    return ids


def _told(disk: Disk) -> dict[str, str]:
    if not disk.exists(FILE):
        raise DataDirError(f"a data directory has no {FILE}: start each broker once before it is made a controller")
    return parse_properties(disk.load(FILE).decode("utf-8", "replace"))
