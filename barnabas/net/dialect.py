"""The two ways a request becomes bytes, behind one small face: what the network core needs of a codec."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from barnabas.net.errors import ConfigError
from barnabas.protocol.ids import NATIVE_PREAMBLE, Buffer


class Dialect:
    """One dialect's codec. `preamble` are the first bytes a client sends, empty for Kafka's."""

    __slots__ = ("_codec", "name", "preamble")

    def __init__(self, name: str) -> None:
        if name not in ("kafka", "native"):
            raise ConfigError(f"dialect: {name!r} is none of kafka, native")
        self.name = name
        self.preamble = NATIVE_PREAMBLE if name == "native" else b""
        self._codec: ModuleType = import_module(f"barnabas.protocol.{name}.codec")

    def encode(self, key: int, version: int, correlation_id: int, client_id: str, request: Any) -> list[Buffer]:
        """One request as buffers, length prefix included, payloads by reference.

        Raises:
            ProtocolError: the request holds what this version cannot carry.
        """
        buffers: list[Buffer] = self._codec.encode_request(key, version, correlation_id, client_id, request)
        return buffers

    def decode(self, key: int, version: int, frame: memoryview) -> tuple[int, Any]:
        """Correlation id and response of one frame (without its length prefix).

        Raises:
            ProtocolError: the bytes are no such response.
        """
        decoded: tuple[int, Any] = self._codec.decode_response(key, version, frame)
        return decoded
