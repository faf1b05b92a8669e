"""What the controller of a cluster must never forget: the epochs it has led, and which nodes vote (`raft/kept`).

    load     before anything is done: a directory that is of other voters is refused; two quorums could decide at once
    keep     before a record of the new epoch is written: no epoch is led twice, whatever became of the metadata log

A broker that stands alone has neither.
"""

from __future__ import annotations

import errno
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.config.quorum import controller_of
from barnabas.broker.delayed.timer import CallbackTask
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

AGAIN_MS: Final = 1000
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

logger = logging.getLogger(__name__)


def load(core: Core) -> Kept:
    """What an earlier life has kept; nothing where there was none, or it had no vote.

    Raises:
        QuorumStateError: it is damaged, or this directory is of other voters.
    """
    return kept.load(core.disk, [controller_of(core.config).node_id])


def keep(core: Core, epoch: int) -> Job[None]:
    """This node leads the epoch. Where the disk is full it waits for room, and looks every second.

    Raises:
        OSError: the disk failed.
    """
    me = core.config.node_id
    data = kept.dump(Kept(epoch, me, me), [me])
    told = False
    while True:
        gate = Gate()
        core.disk.write_atomic(kept.FILE, data, gate.open)
        try:
            yield from wait(gate)
            return
        except OSError as fault:
            if fault.errno not in _FULL:
                raise
            if not told:
                logger.error("the start waits until there is room on the disk: %s", fault)
        told = True
        again = Gate()
        core.replicas.shared.timer.add(CallbackTask(partial(_open, again)), core.now_ms + AGAIN_MS)
        yield from wait(again)


def _open(gate: Gate, _now_ms: int) -> None:
    gate.open()
