"""One request's way back out of the coordinator, which may take it much later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.context import RequestContext
from barnabas.broker.jobs import Gate


class Reply:
    """Answers one request, exactly once.

    Args:
        context: the request's.
        failure: the answer that says an error code and nothing else.
    """

    __slots__ = ("_failure", "context")

    def __init__(self, context: RequestContext, failure: Callable[[int], Any]) -> None:
        self.context = context
        self._failure = failure

    def send(self, response: Any) -> None:
        """Answer."""
        self.context.respond(response)

    def refuse(self, code: int) -> None:
        """Answer with an error."""
        self.context.respond(self.refusal(code))

    def refusal(self, code: int) -> Any:
        """The answer that says an error, to be sent later."""
        return self._failure(code)


class Settled(Reply):
    """Answers nobody: for a job that goes on when it might answer. The gate opens then; `code` is the refusal, or 0."""

    __slots__ = ("code", "gate")

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context, lambda _: None)
        self.gate = Gate()
        self.code = 0

    def send(self, response: Any) -> None:
        """It might."""
        self.gate.open()

    def refuse(self, code: int) -> None:
        """It may not."""
        self.code = code
        self.gate.open()
