"""What a request carries besides its fields: who asked, over which connection, and how to answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from barnabas.protocol.ids import Buffer

_NETWORK_BITS: Final = 64


@lru_cache(maxsize=4096)
def source_of(address: str) -> str:
    """Whom an address counts for: a machine has all of 127.0.0.0/8, and whoever has one IPv6 address has 2^64."""
    if address.startswith("127."):
        return "127.0.0.1"
    if ":" not in address or address == "::1":
        return address
    import ipaddress  # 6 ms, which a start on loopback does not need

    return str(ipaddress.ip_network((address.partition("%")[0], _NETWORK_BITS), strict=False))


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
    open: bool = True
    """Whether somebody is still there to answer."""
    ending: Callable[[], None] | None = None
    """Ends what is done for it alone: what that holds is charged to nobody once it is gone."""
    peer: int = -1
    """The broker that it is from, which has shown that it knows the cluster's secret; -1 for a client."""

    def leave(self) -> None:
        """It is gone."""
        self.open = False
        ending, self.ending = self.ending, None
        if ending is not None:
            ending()


Behind: TypeAlias = Callable[[memoryview], tuple[list[tuple[int, int, int]], int]]
"""Finds requests in the bytes behind another, and says how many bytes they take.

Of each it tells the correlation id, and the two numbers that are not as in the one before."""


class Sealed(NamedTuple):
    """A large answer of another broker (`Lane.FORWARDED`) as it came: to decode it and write it anew is a long step."""

    api_key: int
    version: int
    frame: Buffer
    """All but its length."""

    def opened(self) -> Any:
        """The answer decoded, in one step.

        Raises:
            ProtocolError: bytes that are no such answer.
        """
        from barnabas.protocol.kafka import codec  # a broker that stands alone may have no use for it

        return codec.decode_response(self.api_key, self.version, self.frame)[1]


class RequestContext(ABC):
    """One request's way back. Whoever runs the core says how an answer travels.

    `client_id` is the client's name for itself. The host keeps the answers of a connection in request order.
    """

    __slots__ = ("api_key", "api_version", "client_id", "connection")

    def __init__(self, connection: Connection, api_key: int, api_version: int, client_id: str | None) -> None:
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id

    @abstractmethod
    def respond(self, response: Any) -> None:
        """Answer, exactly once, now or later: a response of the vocabulary, or None where the protocol sends none.

        Only Produce with acks=0 has no answer.
        """

    @property
    def followed(self) -> bool:
        """Whether the next request of the connection is there, whole, and of the same API.

        Then this one may be answered ahead of what the answer says: it does not leave before the next step of the core.
        """
        return False

    def respond_ahead(self, response: Any) -> None:
        """As `respond`, of an answer that may have to be another; only for one that is followed, or follows one."""
        self.respond(response)

    def take_behind(self, read: Behind) -> list[tuple[int, int, int]]:
        """Take the requests behind this one that `read` finds: they are answered ahead as it was."""
        return []

    def respond_instead(self, response: Any, number: int = 0) -> None:
        """What was answered ahead, and has not left, is this, of the same size; `number`: to which one behind it."""
        raise AssertionError("nobody is answered ahead here")

    def respond_in_steps(self, response: Any) -> Iterator[None]:
        """As `respond`, for an answer of many elements: a job writes it in bounded steps, where the way back can."""
        self.respond(response)
        yield None

    def respond_sealed(self, response: Sealed) -> Iterator[None]:
        """As `respond_in_steps`, with an answer of another broker at the version of this request."""
        yield None
        yield from self.respond_in_steps(response.opened())

    @abstractmethod
    def close(self, reason: str) -> None:
        """End the connection (the only signal a failed produce with acks=0 has)."""
