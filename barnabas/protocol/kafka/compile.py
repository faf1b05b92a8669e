"""Decoders and encoders, made from the field tables once per (API, version, direction), when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka.decoder import DecoderWriter
from barnabas.protocol.kafka.encoder import EncoderWriter
from barnabas.protocol.kafka.schema import Api
from barnabas.protocol.limits import MANY, REQUEST_BYTES_MAX, REQUEST_ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX

Decoder: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
"""`decode(data, position)` gives the message and the position after it; raises ProtocolError."""

Encoder: TypeAlias = Callable[[bytearray, Any], list[Buffer]]
"""`encode(head, message)` appends to `head` and gives all buffers, `head` first; raises EncodeError."""

EncoderInSteps: TypeAlias = Callable[[bytearray, Any], Generator[None, None, list[Buffer]]]
"""As `Encoder`, in bounded steps."""


def _what(api: Api, version: int, response: bool) -> str:
    return f"{api.name} v{version} {'response' if response else 'request'}"


def compile_decoder(api: Api, version: int, *, response: bool, lenient: bool = False) -> Decoder:
    """A decoder of the requests or responses of an API at one version; a `lenient` one takes strings in any bytes."""
    message = api.response if response else api.request
    elements_max = RESPONSE_ELEMENTS_MAX if response else REQUEST_ELEMENTS_MAX.get(api.key, MANY)
    bytes_max = None if response else REQUEST_BYTES_MAX
    what = _what(api, version, response)
    writer = DecoderWriter(message, version, api.is_flexible(version), what, elements_max, bytes_max, lenient=lenient)
    decoder: Decoder = writer.build()
    return decoder


def compile_encoder(api: Api, version: int, *, response: bool) -> Encoder:
    """An encoder of the requests or responses of an API at one version."""
    message = api.response if response else api.request
    encoder: Encoder = EncoderWriter(message, version, api.is_flexible(version), _what(api, version, response)).build()
    return encoder


def compile_encoder_in_steps(api: Api, version: int) -> EncoderInSteps:
    """An encoder of the responses of an API at one version, for those of many elements."""
    what = _what(api, version, response=True)
    encoder: EncoderInSteps = EncoderWriter(api.response, version, api.is_flexible(version), what, True).build()
    return encoder
