"""What a request carries besides its fields: who asked, over which connection, and how to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(slots=True)
class Connection:
    """One accepted connection, as the core sees it. The host owns the socket.

    `listener` is the name of the listener it came in on, `principal` who it is (`User:ANONYMOUS` until
    authentication comes), `opened_ms` the monotonic time of the accept.
    """

    id: int
    listener: str
    client_host: str
    dialect: Literal["kafka", "native"]
    opened_ms: int
    principal: str = "User:ANONYMOUS"
    client_software_name: str = ""
    client_software_version: str = ""


class RequestContext:
    """One request's way back.

    `respond(response)` is called exactly once, now or later, with a response of the vocabulary, or with None where
    the protocol sends no answer (Produce with acks=0). The host keeps the answers of a connection in request order.
    `close(reason)` ends the connection (the only signal a failed acks=0 produce has).
    """

    __slots__ = ("api_key", "api_version", "client_id", "close", "connection", "respond")

    def __init__(
        self,
        connection: Connection,
        api_key: int,
        api_version: int,
        client_id: str | None,
        respond: Callable[[Any], None],
        close: Callable[[str], None],
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.respond = respond
        self.close = close
