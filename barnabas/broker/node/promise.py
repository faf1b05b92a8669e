"""What the only controller of a cluster must never forget: the epochs it has led, and which nodes vote (`raft/kept`).

    load     before anything is done: a directory that is of other voters is refused; two quorums could decide at once
    keep     before a record of the new epoch is written: no epoch is led twice, whatever became of the metadata log

    check_alone    a broker that is to stand alone is refused the directory of one of several controllers

A broker that stands alone keeps neither. One of several controllers loads it, too, and `raft` keeps it from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.config.quorum import voters_of
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.node.room import until_room
from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core


def load(core: Core) -> Kept:
    """What an earlier life has kept; nothing where there was none, or it had no vote.

    Raises:
        QuorumStateError: it is damaged, or this directory is of other voters.
    """
    return kept.load(core.disk, [one.node_id for one in voters_of(core.config)])


def check_alone(core: Core) -> None:
    """What this node alone would decide, the other controllers never hear of.

    Raises:
        QuorumStateError: the directory is of several controllers, or whose it is cannot be read.
    """
    try:
        voters = kept.parse(core.disk.load(kept.FILE))[1]
    except OSError as fault:
        raise kept.QuorumStateError(f"{kept.FILE} cannot be read: {fault.strerror or fault}") from fault
    if voters != [core.config.node_id]:
        raise kept.QuorumStateError(
            f"this data directory is of a quorum of nodes {', '.join(map(str, voters))} ({kept.FILE}), and this broker "
            "is to stand alone: two quorums could decide at once; start it with its cluster's settings "
            "(controller.quorum.voters, inter.broker.listener.name), or name another data directory"
        )


def keep(core: Core, epoch: int) -> Job[None]:
    """This node leads the epoch.

    Raises:
        OSError: the disk failed.
    """
    me = core.config.node_id
    data = kept.dump(Kept(epoch, me, me), [me])

    def attempt() -> Job[None]:
        gate = Gate()
        core.disk.write_atomic(kept.FILE, data, gate.open)
        yield from wait(gate)

    yield from until_room(core, attempt)
