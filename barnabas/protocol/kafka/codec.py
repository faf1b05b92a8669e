"""Frames of Kafka's protocol: request and response headers around the compiled bodies.

A frame on the wire is a 4-byte length and that many bytes. Decoders take the bytes without the length; encoders hand
out a list of buffers with it.

    request    api_key i16, api_version i16, correlation_id i32, client_id nullable string (i16 length),
               then in flexible versions a tagged section; header v2 keeps the old form of client_id.
    response   correlation_id i32, then in flexible versions a tagged section, save ApiVersions, whose response header
               never has one: a client that asked with a version unknown here must be able to read the answer (KIP-511).

Bytes behind a message are ignored, as Kafka ignores them; those of a request's strings that are not UTF-8 are read as
U+FFFD, as Java reads them, and so make a name that no topic has. Answers are read strictly.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from struct import Struct, error
from typing import Any, Final

from barnabas.protocol.api import SPOKEN, VERSIONS, ApiKey, RequestHeader, UnsupportedVersion, check_version
from barnabas.protocol.errors import ErrorCode, NotUtf8, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka.compile import (
    Decoder,
    Encoder,
    EncoderInSteps,
    compile_decoder,
    compile_encoder,
    compile_encoder_in_steps,
)
from barnabas.protocol.limits import HEADER_TAGS_MAX
from barnabas.protocol.primitives import read_uvarint
from barnabas.protocol.requests.api_versions import ApiVersion, ApiVersionsResponse

__all__ = [
    "RequestHeader",
    "UnsupportedVersion",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "encode_response_in_steps",
    "encode_unsupported_api_versions",
    "pass_on_response",
]

# api_key i16 | api_version i16 | correlation_id i32 | client_id length i16
_REQUEST_HEAD: Final = Struct(">hhih")
# length i32 | correlation_id i32
_RESPONSE_HEAD: Final = Struct(">ii")
# length i32 | api_key i16 | api_version i16 | correlation_id i32 | client_id length i16
_REQUEST_OUT: Final = Struct(">ihhih")
_LENGTH: Final = Struct(">i")

_unpack_request_head = _REQUEST_HEAD.unpack_from
_pack_response_head = _RESPONSE_HEAD.pack
_put_length = _LENGTH.pack_into

# Compiled functions by api_key << 16 | version, with whether the header has a tagged section.
_request_decoders: dict[int, tuple[Decoder, bool]] = {}
_request_encoders: dict[int, tuple[Encoder, bool]] = {}
_response_decoders: dict[int, tuple[Decoder, bool]] = {}
_response_encoders: dict[int, tuple[Encoder, bool]] = {}
_response_encoders_in_steps: dict[int, EncoderInSteps] = {}
_SAID_AGAIN: Final = (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
_SAID_BY_ALL: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
# What has the shorter way of an API, once it was asked for: loading it takes time that a start has not.
_again: dict[int, Any] = {}
_answers: dict[int, Callable[[int, int, Any], list[Buffer] | None]] = {}


def decode_request(frame: Buffer) -> tuple[RequestHeader, Any]:
    """Header and request of a frame. Records in the request are views into `frame`.

    Raises:
        UnsupportedVersion: a known API at a version outside its table.
        ProtocolError: an unknown API, or bytes that are no such request.
    """
    try:
        key, version, correlation_id, length = _unpack_request_head(frame, 0)
    except error:
        raise ProtocolError(f"request header needs 10 bytes, the frame has {len(frame)}") from None
    again = _again.get(key)
    if again is not None and type(frame) is memoryview:
        known: tuple[RequestHeader, Any] | None = again.recall(frame, version, correlation_id, length)
        if known is not None:
            return known
    found = _request_decoders.get(key << 16 | version)
    position = 10
    client_id: str | None = None
    if length >= 0:
        position += length
        if position > len(frame):
            raise ProtocolError(f"request header: client_id announces {length} bytes, {len(frame) - 10} are left")
        try:
            client_id = str(frame[10:position], "utf-8")
        except UnicodeDecodeError:
            client_id = str(frame[10:position], "utf-8", "replace")
    header = RequestHeader(key, version, correlation_id, client_id)
    if found is None:
        found = _find_request_decoder(header)
    decode, tagged = found
    if tagged:
        position = _skip_tags(frame, position)
    try:
        request = decode(frame, position)[0]
    except NotUtf8:
        return header, _lenient_request_decoder(key, version)(frame, position)[0]
    if again is not None and type(frame) is memoryview:
        again.remember(frame, header, request)
    return header, request


def _find_request_decoder(header: RequestHeader) -> tuple[Decoder, bool]:
    key, version = header.api_key, header.api_version
    check_version(header, SPOKEN)
    api = APIS[key]
    found = compile_decoder(api, version, response=False), api.is_flexible(version)
    _request_decoders[key << 16 | version] = found
    if key == ApiKey.PRODUCE:
        from barnabas.protocol.kafka import produce_again

        _again[key], _answers[key] = produce_again, produce_again.answer
    elif key == ApiKey.OFFSET_COMMIT:
        from barnabas.protocol.kafka import commit_again

        _again[key], _answers[key] = commit_again, commit_again.answer
    elif key in _SAID_AGAIN:
        from barnabas.protocol.kafka import said_again

        _again[key], _answers[key] = said_again.Said(key), said_again.ANSWERS[ApiKey(key)]
    elif key in _SAID_BY_ALL:
        from barnabas.protocol.kafka import joined_again

        _again[key], _answers[key] = joined_again.SaidByAll(key), joined_again.ANSWERS[ApiKey(key)]
    elif key == ApiKey.FETCH:
        from barnabas.protocol.kafka import fetch_again

        _again[key], _answers[key] = fetch_again, fetch_again.answer
    elif key == ApiKey.API_VERSIONS:
        from barnabas.protocol.kafka import versions_again

        _answers[key] = versions_again.answer
    return found


@cache
def _lenient_request_decoder(key: int, version: int) -> Decoder:
    """Takes the requests that the common one refuses for a string that is not UTF-8, as Kafka does: with U+FFFD."""
    return compile_decoder(APIS[key], version, response=False, lenient=True)


def _skip_tags(frame: Buffer, position: int) -> int:
    """The position behind a header's tagged section, of which nothing is known."""
    try:
        count = frame[position]
        if count == 0:
            return position + 1
        count, position = read_uvarint(frame, position)
        if count > HEADER_TAGS_MAX:
            raise ProtocolError(f"header: {count} tagged fields, {HEADER_TAGS_MAX} are allowed")
        for _ in range(count):
            _, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            position += size
            if position > len(frame):
                raise ProtocolError(f"header: tagged field of {size} bytes goes beyond the frame")
    except IndexError:
        raise ProtocolError("header: the bytes end within the tagged section") from None
    return position


def encode_response(api_key: int, api_version: int, correlation_id: int, response: Any) -> list[Buffer]:
    """The buffers of a response, 4-byte length included; records by reference.

    Raises:
        EncodeError: the response holds what this version cannot carry.
    """
    answer = _answers.get(api_key)
    if answer is not None:
        short = answer(api_version, correlation_id, response)
        if short is not None:
            return short
    found = _response_encoders.get(api_key << 16 | api_version)
    if found is None:
        api = APIS[api_key]
        found = (
            compile_encoder(api, api_version, response=True),
            api.is_flexible(api_version) and api_key != ApiKey.API_VERSIONS,
        )
        _response_encoders[api_key << 16 | api_version] = found
    encode, tagged = found
    head = bytearray(_pack_response_head(0, correlation_id))
    if tagged:
        head.append(0)
    buffers = encode(head, response)
    _put_length(head, 0, (len(head) if len(buffers) == 1 else sum(map(len, buffers))) - 4)
    return buffers


def encode_response_in_steps(
    api_key: int, api_version: int, correlation_id: int, response: Any
) -> Generator[None, None, list[Buffer]]:
    """As `encode_response`, in steps of about a millisecond: for an answer of many elements."""
    api = APIS[api_key]
    encode = _response_encoders_in_steps.get(api_key << 16 | api_version)
    if encode is None:
        encode = _response_encoders_in_steps[api_key << 16 | api_version] = compile_encoder_in_steps(api, api_version)
    head = bytearray(_pack_response_head(0, correlation_id))
    if api.is_flexible(api_version) and api_key != ApiKey.API_VERSIONS:
        head.append(0)
    buffers = yield from encode(head, response)
    _put_length(head, 0, (len(head) if len(buffers) == 1 else sum(map(len, buffers))) - 4)
    return buffers


def encode_unsupported_api_versions(correlation_id: int) -> list[Buffer]:
    """The answer to ApiVersions at an unknown version: error 35 in v0 form, listing ApiVersions alone (KIP-511)."""
    first, last = VERSIONS[ApiKey.API_VERSIONS]
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last)],
    )
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, response)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, request: Any
) -> list[Buffer]:
    """The buffers of a request, 4-byte length included; records by reference.

    Raises:
        EncodeError: the request holds what this version cannot carry.
    """
    found = _request_encoders.get(api_key << 16 | api_version)
    if found is None:
        api = APIS[api_key]
        found = compile_encoder(api, api_version, response=False), api.is_flexible(api_version)
        _request_encoders[api_key << 16 | api_version] = found
    encode, tagged = found
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    head = bytearray(_REQUEST_OUT.pack(0, api_key, api_version, correlation_id, length))
    head += name
    if tagged:
        head.append(0)
    buffers = encode(head, request)
    _put_length(head, 0, sum(map(len, buffers)) - 4)
    return buffers


def decode_response(api_key: int, api_version: int, frame: Buffer) -> tuple[int, Any]:
    """Correlation id and response of a frame. Records in the response are views into `frame`.

    Raises:
        ProtocolError: bytes that are no such response.
    """
    found = _response_decoders.get(api_key << 16 | api_version)
    if found is None:
        api = APIS[api_key]
        found = (
            compile_decoder(api, api_version, response=True),
            api.is_flexible(api_version) and api_key != ApiKey.API_VERSIONS,
        )
        _response_decoders[api_key << 16 | api_version] = found
    decode, tagged = found
    if len(frame) < 4:
        raise ProtocolError(f"response header needs 4 bytes, the frame has {len(frame)}")
    (correlation_id,) = _LENGTH.unpack_from(frame, 0)
    position = _skip_tags(frame, 4) if tagged else 4
    return correlation_id, decode(frame, position)[0]


def pass_on_response(api_key: int, api_version: int, correlation_id: int, frame: Buffer) -> tuple[list[Buffer], int]:
    """A response of that version as the answer to another request: its bytes, and the throttle time that it tells (ms).

    Nothing behind that time, which comes first where there is one, is decoded.

    Raises:
        ProtocolError: its header is none.
    """
    api = APIS[api_key]
    position = 4
    if api.is_flexible(api_version) and api_key != ApiKey.API_VERSIONS:
        position = _skip_tags(frame, 4)
    first = next(field for field in api.response.fields if field.is_in(api_version))
    throttle_ms = _LENGTH.unpack_from(frame, position)[0] if first.name == "throttle_time_ms" else 0
    view = memoryview(frame)
    return [_pack_response_head(len(view), correlation_id), view[4:]], throttle_ms
