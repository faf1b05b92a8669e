"""Many answers at once, in steps: the end of a rebalance of a thousand members would hold the loop for 20 ms."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import Status
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode

ANSWERS_PER_STEP: Final = 100
"""About 2 ms, most of it for the sockets."""

logger = logging.getLogger(__name__)


def answer_all(shard: Shard, answers: Sequence[tuple[Reply, Any]], now_ms: int) -> None:
    """As `Shard.answer` each, in their order. Those beyond a step's worth leave as if the network had taken longer.

    Nobody else may answer these requests: whoever waits for them is told what was so when this was called.
    """
    _answer(shard, answers[:ANSWERS_PER_STEP], now_ms)
    if len(answers) > ANSWERS_PER_STEP:
        shard.shared.run(_answer_rest(shard, answers, now_ms), _ended)


def _answer_rest(shard: Shard, answers: Sequence[tuple[Reply, Any]], now_ms: int) -> Job[None]:
    for start in range(ANSWERS_PER_STEP, len(answers), ANSWERS_PER_STEP):
        _answer(shard, answers[start : start + ANSWERS_PER_STEP], now_ms)
        yield None


def _answer(shard: Shard, answers: Sequence[tuple[Reply, Any]], now_ms: int) -> None:
    if shard.status is Status.FAILED:  # led here no longer
        for reply, _ in answers:
            reply.refuse(ErrorCode.NOT_COORDINATOR)
    elif shard.behind:
        for reply, response in answers:
            shard.answer(reply, response, now_ms)
    else:  # and to answer writes nothing
        for reply, response in answers:
            reply.send(response)


def _ended(fault: Exception | None) -> None:
    if fault is not None:
        logger.error("members of a group were not all answered", exc_info=fault)
