"""How a start waits: for a while, and for room on the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.delayed.timer import CallbackTask
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.log.types import FULL
from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

AGAIN_MS: Final = 1000

logger = logging.getLogger(__name__)


def is_full(error: OSError | None) -> bool:
    """Whether an error says that there is no room on the disk."""
    return error is not None and error.errno in FULL


def until_room(core: Core, attempt: Callable[[], Job[None]]) -> Job[None]:
    """Write something. Where the disk is full it waits for room, and tries again every second.

    Raises:
        KafkaError, OSError: what else is wrong.
    """
    told = False
    while True:
        try:
            yield from attempt()
            return
        except (KafkaError, OSError) as fault:
            cause, detail = (fault.__cause__, fault.detail) if isinstance(fault, KafkaError) else (fault, fault)
            if not isinstance(cause, OSError) or cause.errno not in FULL:
                raise
            if not told:
                logger.error("the start waits until there is room on the disk: %s", detail)
        told = True
        yield from pause(core, AGAIN_MS)


def pause(core: Core, ms: int) -> Job[None]:
    """Let so much time pass."""
    gate = Gate()
    core.replicas.shared.timer.add(CallbackTask(lambda now_ms: gate.open()), core.now_ms + ms)
    yield from wait(gate)
