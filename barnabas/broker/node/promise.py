"""What the only controller of a cluster must never forget: the epochs it has led, and which nodes vote (`raft/kept`).

    load     before anything is done: a directory that is of other voters is refused; two quorums could decide at once
    keep     before a record of the new epoch is written: no epoch is led twice, whatever became of the metadata log

A broker that stands alone has neither. One of several controllers loads it, too, and `raft` keeps it from then on.
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
