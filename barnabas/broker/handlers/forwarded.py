"""What clients ask of a broker that is not the controller, and the controller alone decides: it is sent on, whole.

A request goes at the client's version, and the answer comes back as it is; a large one is not even decoded. A
controller of an older release is asked in its version, and what that cannot say is UNSUPPORTED_VERSION for the client.
Kafka wraps both (Envelope, 58), for its controllers check permissions of the client itself. Nobody's are checked: there
is no authorizer yet. With one, the broker that the client asked must check before it sends a request on, for the
controller sees another broker's only.

- No answer, or a full line: NOT_CONTROLLER, which clients take for "later". All that waited hear of it at once, and
  each may have asked for much: two at a time are told, in steps, or the broker would be silent for seconds.
- A large answer counts for the client until it is on its way. For the native dialect it is decoded, and takes ten times
  its bytes: two are at it at a time.
"""

from __future__ import annotations

from typing import Any

from barnabas.broker.context import RequestContext, Sealed
from barnabas.broker.handlers.services import Services
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode


def handle(services: Services, request: Any, context: RequestContext, now_ms: int) -> None:
    """Send it on; it is answered when the controller has."""
    assert services.forward is not None, "a broker that is its own controller serves this itself"

    def done(response: Any | None) -> None:
        if isinstance(response, Sealed):
            services.work(_pass_on(services, response, context), request, context)
            return
        if response is None:
            services.work_in_line(_refuse(request, context), request, context)
            return
        context.respond(response)

    services.forward(request, done, context.api_version)


def _refuse(request: Any, context: RequestContext) -> Job[None]:
    from barnabas.broker.handlers.failures import error_response  # rarely needed

    yield None
    response = error_response(context.api_key, request, ErrorCode.NOT_CONTROLLER)
    yield None
    yield from context.respond_in_steps(response)


def _pass_on(services: Services, response: Sealed, context: RequestContext) -> Job[None]:
    with services.charging(context) as charge:
        charge(len(response.frame))
        steps = _write(response, context)
        if context.connection.dialect == "native":
            steps = services.line.within(context.connection.id, steps)
        yield from steps


def _write(response: Sealed, context: RequestContext) -> Job[None]:
    yield from context.respond_sealed(response)
