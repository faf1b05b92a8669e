"""Messages without a header: behind the number of their version (int16) stands the message, and that is all.

Records of `__consumer_offsets` and the consumers' own protocol within a group are such.
"""

from __future__ import annotations

from struct import Struct as Format
from typing import Any, Final

from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka.compile import Decoder, Encoder
from barnabas.protocol.kafka.decoder import DecoderWriter
from barnabas.protocol.kafka.encoder import EncoderWriter
from barnabas.protocol.kafka.schema import NEVER, Struct

_NUMBER: Final = Format(">h")
NUMBER_BYTES: Final = _NUMBER.size


def number_of(data: Buffer, what: str) -> int:
    """The number that stands first.

    Raises:
        ProtocolError: there are not two bytes.
    """
    if len(data) < NUMBER_BYTES:
        raise ProtocolError(f"{what}: {len(data)} bytes, it begins with a number of two")
    number: int = _NUMBER.unpack_from(data)[0]
    return number


class Data:
    """One message: its fields, its versions, and how it is written and read at each, compiled on first use.

    `elements_max` bounds the members of its arrays, as `limits` says of requests.
    """

    __slots__ = ("_decoders", "_encoders", "elements_max", "first", "flexible_from", "last", "name", "struct")

    def __init__(
        self, struct: Struct, versions: tuple[int, int], *, flexible_from: int = NEVER, elements_max: int
    ) -> None:
        self.name = struct.cls.__name__
        self.struct = struct
        self.first, self.last = versions
        self.flexible_from = flexible_from
        self.elements_max = elements_max
        self._decoders: dict[int, Decoder] = {}
        self._encoders: dict[int, Encoder] = {}

    def encode(self, message: Any, version: int, number: int | None = None) -> bytes:
        """The bytes of a message; `number` stands first where it is another than the version.

        Raises:
            EncodeError: an unknown version, or one that cannot carry what the message holds.
        """
        encode = self._encoders.get(version)
        if encode is None:
            if not self.first <= version <= self.last:
                raise EncodeError(f"{self.name} has no version {version}, only {self.first} to {self.last}")
            flexible = version >= self.flexible_from
            encode = EncoderWriter(self.struct, version, flexible, f"{self.name} v{version}").build()
            self._encoders[version] = encode
        (written,) = encode(bytearray(_NUMBER.pack(version if number is None else number)), message)
        return bytes(written)

    def decode(self, data: Buffer, version: int) -> Any:
        """The message behind the number. Bytes behind the message are ignored, as Apache Kafka ignores them.

        Raises:
            ProtocolError: an unknown version, or bytes that are no such message.
        """
        decode = self._decoders.get(version)
        if decode is None:
            if not self.first <= version <= self.last:
                raise ProtocolError(
                    f"{self.name} v{version} is unknown, only v{self.first} to v{self.last} can be read"
                )
            flexible, what = version >= self.flexible_from, f"{self.name} v{version}"
            decode = DecoderWriter(self.struct, version, flexible, what, self.elements_max, None).build()
            self._decoders[version] = decode
        return decode(data, NUMBER_BYTES)[0]
