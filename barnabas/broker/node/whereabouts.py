"""Which node a broker asks as the active controller: the only one, its own voter's leader, or one after the other.

A broker without a vote asks any controller; one that does not lead says who does, and after one that says nothing, or
knows nobody, it asks the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch import FetchResponse

_ELSEWHERE = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER))


class Whereabouts:
    """Who is asked, and whether that was right.

    Args:
        voters: the controllers.
        known: who leads, as this node's own voter has it (-1: nobody); None where it has no vote.
    """

    def __init__(self, voters: Sequence[int], known: Callable[[], int] | None = None) -> None:
        self._voters = tuple(voters)
        self._known = known
        self._at = self._voters[0]
        self.stranger = -1
        """Who leads the controllers by the last answer and is none by the settings of this node; -1: nobody."""

    @property
    def current(self) -> int:
        """Whom to ask; -1 for nobody."""
        return self._at if self._known is None else self._known()

    def answered(self, asked: int, response: Any | None) -> bool:
        """What somebody who was asked has answered (None: nothing); whether another one is to be asked from now on."""
        if self._known is not None or asked != self._at:
            return False
        told = -1
        if response is not None:
            code, told = _refusal(response)
            if code not in _ELSEWHERE:
                return False
        self.stranger = told if told not in self._voters else -1
        if len(self._voters) == 1:
            return False
        if told not in self._voters or told == asked:
            told = self._voters[(self._voters.index(asked) + 1) % len(self._voters)]
        self._at = told
        return True


def _refusal(response: Any) -> tuple[int, int]:
    """The error of an answer, and who leads by it (-1: it does not say)."""
    if isinstance(response, FetchResponse):
        for topic in response.responses:
            for part in topic.partitions:
                leader = -1 if part.current_leader is None else part.current_leader.leader_id
                return response.error_code or part.error_code, leader
    return getattr(response, "error_code", 0), -1
