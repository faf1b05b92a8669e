"""Frames of the native dialect; docs/NATIVE.md is its specification.

    length u32 | head_size u32 | head: one msgpack value of head_size bytes | payload: record batches, to the end

    request head     [api_key, api_version, correlation_id, client_id, body]
    response head    [correlation_id, body]

Decoders take the bytes without the length; encoders hand out a list of buffers with it, records by reference.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct
from typing import Any, Final

import msgpack

from barnabas.protocol.api import REQUESTS, RESPONSES, VERSIONS, ApiKey, RequestHeader, check_version
from barnabas.protocol.errors import EncodeError, ErrorCode, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.limits import FEW, MANY, NATIVE_SHARE, REQUEST_ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX
from barnabas.protocol.native.plan import Payloads, Source, TooMany, pack_in_steps, read_message, shown, writer
from barnabas.protocol.requests.api_versions import ApiVersionsResponse, SharedApiVersionsResponse

HEAD_SIZE_MAX: Final = 8 * 1024 * 1024
"""Bytes of a response's head: what it describes is bounded, payloads count apart."""
REQUEST_HEAD_SIZE_MAX: Final = 2 * 1024 * 1024
"""Bytes of a request's head, which msgpack unpacks in one step: 10,000 partitions take less than one of them."""
CLIENT_ID_CHARS_MAX: Final = 32_767
"""Sessions keep it; Kafka's form has room for as many bytes."""
ARRAY_LENGTH_MAX: Final = 100_000
MAP_LENGTH_MAX: Final = 256
CONTAINERS_PER_ELEMENT: Final = 5
"""Bytes of a request's head that may begin a map or an array, for each element its API may have.

One such byte makes an object of 64. Most of these bytes are parts of numbers and ids, up to three in an element."""

# fixmap, fixarray | array 16, array 32, map 16, map 32
_CONTAINERS: Final = bytes(range(0x80, 0xA0)) + bytes(range(0xDC, 0xE0))

# length u32 | head_size u32
_PREFIX: Final = Struct(">II")
_HEAD_SIZE: Final = Struct(">I")


def _frame(head: list[Any], payloads: Payloads) -> list[Buffer]:
    try:
        packed: bytes = msgpack.packb(head)
    except (TypeError, ValueError, OverflowError) as exc:
        raise EncodeError(f"message cannot be written: {exc}") from exc
    prefix = _PREFIX.pack(4 + len(packed) + payloads.size, len(packed))
    return [prefix + packed, *payloads.buffers]


def _unframe(frame: Buffer, parts: int, size_max: int = HEAD_SIZE_MAX) -> tuple[list[Any], memoryview]:
    view = memoryview(frame)
    if len(view) < 4:
        raise ProtocolError(f"frame of {len(view)} bytes has no head size")
    size: int = _HEAD_SIZE.unpack_from(view)[0]
    if size > min(len(view) - 4, size_max):
        raise ProtocolError(f"head announces {size} bytes, {len(view) - 4} are left and {size_max} are allowed")
    packed = view[4 : 4 + size]
    if size_max != HEAD_SIZE_MAX and size > MANY:
        _check_containers(bytes(packed))
    try:
        head = msgpack.unpackb(
            packed, raw=False, max_array_len=ARRAY_LENGTH_MAX, max_map_len=MAP_LENGTH_MAX, max_ext_len=0
        )
    except (ValueError, RecursionError) as exc:
        raise ProtocolError(f"head is not msgpack within bounds: {exc or type(exc).__name__}") from None
    if type(head) is not list or len(head) < parts:
        raise ProtocolError(f"head is no array of {parts} elements")
    return head, view[4 + size :]


def _check_containers(packed: bytes) -> None:
    """Refuse a request whose head may hold more maps and arrays than any API may ask for, before they are made."""
    count = len(packed) - len(packed.translate(None, _CONTAINERS))
    if count > MANY * CONTAINERS_PER_ELEMENT:
        raise ProtocolError(f"head may hold {count} maps and arrays; ask for fewer at a time")


def decode_request(frame: Buffer) -> tuple[RequestHeader, Any]:
    """Header and request of a frame. Records in the request are views into `frame`.

    Raises:
        UnsupportedVersion: a known API at a version that is not served.
        ProtocolError: an unknown API, or bytes that are no such request.
    """
    head, payload = _unframe(frame, 5, REQUEST_HEAD_SIZE_MAX)
    key, version, correlation_id, client_id, body = head[:5]
    if not (type(key) is type(version) is type(correlation_id) is int) or abs(correlation_id) > 0x7FFFFFFF:
        told = ", ".join(map(shown, head[:3]))
        raise ProtocolError(f"request header [{told}] is not three integers of 16, 16 and 32 bits")
    if client_id is not None and type(client_id) is not str:
        raise ProtocolError("request header: client_id is no string")
    if client_id is not None and len(client_id) > CLIENT_ID_CHARS_MAX:
        raise ProtocolError(f"request header: client_id has {len(client_id)} characters, at most {CLIENT_ID_CHARS_MAX}")
    header = RequestHeader(key, version, correlation_id, client_id)
    check_version(header)
    allowed = max(REQUEST_ELEMENTS_MAX[key] // NATIVE_SHARE, FEW)
    try:
        return header, read_message(REQUESTS[key], body, Source(payload, allowed))
    except TooMany:
        raise ProtocolError(
            f"{ApiKey(key).name} request: it has more than {allowed} array elements; ask for fewer at a time"
        ) from None


def encode_response(api_key: int, api_version: int, correlation_id: int, response: Any) -> list[Buffer]:
    """The buffers of a response, length included. `api_version` shapes nothing here: messages have all their fields.

    Raises:
        EncodeError: the response holds what msgpack cannot carry.
    """
    if type(response) is SharedApiVersionsResponse:
        return [_frame_shared(correlation_id, response)]
    payloads = Payloads()
    write = writer(RESPONSES[api_key])
    assert write is not None
    return _frame([correlation_id, write(response, payloads)], payloads)


def _frame_shared(correlation_id: int, response: SharedApiVersionsResponse) -> bytes:
    """As `_frame`, of what many are told: all but the correlation id is written once."""
    body = response.written.get(response.NATIVE)
    if body is None:
        write = writer(ApiVersionsResponse)
        assert write is not None
        body = response.written[response.NATIVE] = msgpack.packb(write(response, Payloads()))
    head: bytes = b"\x92" + msgpack.packb(correlation_id) + body  # an array of two
    return _PREFIX.pack(4 + len(head), len(head)) + head


def encode_response_in_steps(
    api_key: int, api_version: int, correlation_id: int, response: Any
) -> Generator[None, None, list[Buffer]]:
    """As `encode_response`, in steps of about a millisecond: for an answer of many elements."""
    payloads = Payloads()
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(2)
    packer.pack(correlation_id)
    try:
        packed = yield from pack_in_steps(RESPONSES[api_key], response, payloads, packer)
    except (TypeError, ValueError, OverflowError) as exc:
        raise EncodeError(f"message cannot be written: {exc}") from exc
    size = sum(map(len, packed))
    return [_PREFIX.pack(4 + size + payloads.size, size), *packed, *payloads.buffers]


def encode_unsupported_api_versions(correlation_id: int) -> list[Buffer]:
    """The answer to ApiVersions at an unknown version: error 35, listing ApiVersions alone."""
    first, last = VERSIONS[ApiKey.API_VERSIONS]
    body = {
        "error_code": int(ErrorCode.UNSUPPORTED_VERSION),
        "api_keys": [{"api_key": int(ApiKey.API_VERSIONS), "min_version": first, "max_version": last}],
    }
    return _frame([correlation_id, body], Payloads())


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, request: Any
) -> list[Buffer]:
    """The buffers of a request, length included; records by reference.

    Raises:
        EncodeError: the request holds what msgpack cannot carry.
    """
    payloads = Payloads()
    write = writer(REQUESTS[api_key])
    assert write is not None
    body = write(request, payloads)
    return _frame([int(api_key), api_version, correlation_id, client_id, body], payloads)


def decode_response(api_key: int, api_version: int, frame: Buffer) -> tuple[int, Any]:
    """Correlation id and response of a frame. Records in the response are views into `frame`.

    Raises:
        ProtocolError: bytes that are no such response.
    """
    head, payload = _unframe(frame, 2)
    correlation_id, body = head[:2]
    if type(correlation_id) is not int:
        raise ProtocolError("response header: correlation_id is no integer")
    try:
        return correlation_id, read_message(RESPONSES[api_key], body, Source(payload, RESPONSE_ELEMENTS_MAX))
    except TooMany:
        raise ProtocolError(f"response: it has more than {RESPONSE_ELEMENTS_MAX} array elements") from None
