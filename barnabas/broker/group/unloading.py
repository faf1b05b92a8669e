"""A shard is led here no longer: whoever waits is told so, and what its groups held is given back, in bounded steps.

It may have any number of groups, members and offsets. At once, nobody finds them any more and nothing rings for them.
Source: `CoordinatorRuntime.CoordinatorContext.unload`, which a thread of its own does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.replaying import release
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.rebalance import closing
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard, size_of_offset, size_with_offsets
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode

PIECES_PER_STEP: Final = 100
"""Groups, members and answers of one step: about 2 ms."""
OFFSETS_PER_PIECE: Final = 20


def unload(shard: Shard) -> Job[None]:
    """Leave a shard. Its first step is to be taken at once; most have no second."""
    groups, replies = shard.leave()
    for number, _ in enumerate(_pieces(shard, groups, replies), 1):
        if number % PIECES_PER_STEP == 0:
            yield None


def _pieces(shard: Shard, groups: deque[AnyGroup], replies: deque[Reply]) -> Iterator[None]:
    """Each is let go of as it is done: as many as there may be take long to be freed."""
    while groups:
        group = groups.popleft()
        if isinstance(group, ConsumerGroup):
            for member in list(group.members.values()):
                release(shard, member)
                yield
        else:
            yield from closing(shard, group, ErrorCode.NOT_COORDINATOR)
        while len(group.offsets) > OFFSETS_PER_PIECE:
            some = [group.offsets.popitem() for _ in range(OFFSETS_PER_PIECE)]
            shard.shared.holdings.take(group.address, -sum(size_of_offset(*each) for each in some))
            yield
        shard.shared.holdings.take(group.address, -size_with_offsets(group))
        yield
    while replies:
        replies.popleft().refuse(ErrorCode.NOT_COORDINATOR)
        yield
