"""Which protocol a connection speaks, told by its first bytes, and the codec that reads it.

    42 4E 42 31        "BNB1"    the native dialect; frames follow
    16 03              a TLS handshake, refused for now
    "GET ", "POST" ... HTTP
    anything else      Kafka: a frame length comes first

No Kafka frame can begin like one of the others: read as a length, all of them lie above 369,000,000 bytes.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from typing import Any, Final, Protocol, cast

from barnabas.protocol.ids import NATIVE_PREAMBLE, Buffer

KAFKA: Final = "kafka"
NATIVE: Final = "native"
HTTP: Final = "http"
TLS: Final = "tls"

_HTTP_STARTS: Final = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN"})


class Dialect(Protocol):
    """What a codec module offers; both dialects have the same functions."""

    def decode_request(self, frame: memoryview) -> tuple[Any, Any]:
        """(header, request) of one frame.

        Raises:
            ProtocolError: the frame breaks the protocol.
        """

    def encode_response(self, api_key: int, version: int, correlation_id: int, response: Any) -> list[Buffer]:
        """The answer's frame, its length included, payloads by reference."""

    def encode_response_in_steps(
        self, api_key: int, api_version: int, correlation_id: int, response: Any
    ) -> Generator[None, None, list[Buffer]]:
        """As `encode_response`, in bounded steps where the dialect can."""

    def encode_unsupported_api_versions(self, correlation_id: int) -> list[Buffer]:
        """The answer to ApiVersions at a version nobody knows."""


def choose(head: memoryview) -> str | None:
    """The protocol that begins with these bytes; None while there are too few to tell."""
    if len(head) < 2:
        return None
    if head[0] == 0x16 and head[1] == 0x03:
        return TLS
    if len(head) < 4:
        return None
    start = bytes(head[:4])
    if start == NATIVE_PREAMBLE:
        return NATIVE
    return HTTP if start in _HTTP_STARTS else KAFKA


def asks_for_versions(unread: bytes, native: bool) -> bool:
    """Whether these bytes are a request for ApiVersions, and nothing else (the native preamble may come before it).

    length i32 | api_key i16 ...                                                   Kafka
    length u32 | head size u32 | array of five 0x95 | api_key as a small integer   native
    """
    start = len(NATIVE_PREAMBLE) if unread[:4] == NATIVE_PREAMBLE else 0
    key = unread[start + 8 : start + 10] == b"\x95\x12" if start or native else unread[4:6] == b"\0\x12"
    return key and int.from_bytes(unread[start : start + 4], "big") == len(unread) - start - 4


def api_key_of(frames: memoryview, native: bool) -> int:
    """The API that the first of these frames asks for, one whole at least; laid out as `asks_for_versions` has them."""
    return frames[9] if native else int.from_bytes(frames[4:6], "big")


_CODECS: Final = {KAFKA: "barnabas.protocol.kafka.codec", NATIVE: "barnabas.protocol.native.codec"}


def load(name: str) -> Dialect:
    """The codec of a dialect; the native one is loaded by the first connection that speaks it."""
    return cast("Dialect", import_module(_CODECS[name]))
