"""A raw Kafka client over one TCP connection, independent of `barnabas.protocol`.

Frames are made here; message bodies are encoded and decoded by the PyPI package `kio`, which knows every version. A
body is written as plain dicts and lists, fields left out take their default (or 0, empty, null). Sockets block, with a
timeout: what a scenario waits for is the very thing it measures.
"""

import dataclasses
import datetime as dt
import io
import socket
import struct
import time
import types
import typing
from functools import cache
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

API_KEYS = {
    "produce": 0,
    "fetch": 1,
    "list_offsets": 2,
    "metadata": 3,
    "offset_commit": 8,
    "offset_fetch": 9,
    "find_coordinator": 10,
    "join_group": 11,
    "heartbeat": 12,
    "leave_group": 13,
    "sync_group": 14,
    "describe_groups": 15,
    "list_groups": 16,
    "api_versions": 18,
    "create_topics": 19,
    "delete_topics": 20,
    "delete_records": 21,
    "init_producer_id": 22,
    "offset_for_leader_epoch": 23,
    "describe_acls": 29,
    "describe_configs": 32,
    "alter_configs": 33,
    "describe_log_dirs": 35,
    "create_partitions": 37,
    "delete_groups": 42,
    "elect_leaders": 43,
    "incremental_alter_configs": 44,
    "alter_partition_reassignments": 45,
    "list_partition_reassignments": 46,
    "offset_delete": 47,
    "describe_client_quotas": 48,
    "describe_user_scram_credentials": 50,
    "describe_quorum": 55,
    "update_features": 57,
    "describe_cluster": 60,
    "describe_producers": 61,
    "unregister_broker": 64,
    "list_transactions": 66,
    "consumer_group_heartbeat": 68,
    "consumer_group_describe": 69,
    "get_telemetry_subscriptions": 71,
    "push_telemetry": 72,
    "list_config_resources": 74,
    "describe_topic_partitions": 75,
}

_KEYS = {**API_KEYS, "sasl_handshake": 17, "sasl_authenticate": 36}
"""With what another broker says first."""

SECONDS_MAX = 30.0
FRAME_BYTES_MAX = 256 << 20


class Closed(ConnectionError):
    """The broker closed the connection."""


@dataclasses.dataclass(slots=True)
class Reply:
    """One answer: its body, and the time in ms between the request's first byte sent and the answer's last received."""

    body: Any
    ms: float


@cache
def _request(api: str, version: int) -> tuple[type, Any, type, Any]:
    schema = load_request_schema(_KEYS[api], version)
    return schema, entity_writer(schema), schema.__header_schema__, entity_writer(schema.__header_schema__)


@cache
def _response(api: str, version: int) -> tuple[Any, Any]:
    schema = load_response_schema(_KEYS[api], version)
    return entity_reader(schema), entity_reader(schema.__header_schema__)


def _convert(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if value is None else _convert(inner, value)
    if origin is tuple:
        return tuple(_convert(arguments[0], item) for item in value)
    if dataclasses.is_dataclass(kind):
        return build(typing.cast("type", kind), value)
    if isinstance(kind, type) and issubclass(kind, dt.timedelta):
        return dt.timedelta(milliseconds=value)
    return value


def _nothing(kind: Any, name: str) -> Any:
    """The value of a field that was left out and has no default: null, empty, false, or 0 (-1 for ids of brokers)."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union) and type(None) in arguments:
        return None
    if origin is tuple:
        return ()
    if kind is bool:
        return False
    if isinstance(kind, type) and issubclass(kind, str):
        return ""
    if kind is bytes:
        return b""
    if isinstance(kind, type) and issubclass(kind, dt.timedelta):
        return dt.timedelta(0)
    return -1 if name in ("replica_id", "producer_id", "producer_epoch") else 0


@cache
def _hints(schema: type) -> dict[str, Any]:
    return typing.get_type_hints(schema)


def build(schema: type, values: dict[str, Any]) -> Any:
    """An entity of kio from plain values.

    Raises:
        TypeError: a name the schema does not have.
    """
    hints, arguments = _hints(schema), dict(values)
    for field in dataclasses.fields(schema):
        kind = hints[field.name]
        if field.name in arguments:
            arguments[field.name] = _convert(kind, arguments[field.name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            arguments[field.name] = _nothing(kind, field.name)
    return schema(**arguments)


def encode(api: str, version: int, body: dict[str, Any], correlation_id: int, client_id: str | None) -> bytes:
    """A whole request frame, length prefix included."""
    schema, write, header_schema, write_header = _request(api, version)
    header = {
        "request_api_key": _KEYS[api],
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    names = {field.name for field in dataclasses.fields(header_schema)}
    buffer = io.BytesIO()
    write_header(buffer, header_schema(**{name: value for name, value in header.items() if name in names}))
    write(buffer, build(schema, body))
    return struct.pack(">i", buffer.tell()) + buffer.getvalue()


class Connection:
    """One connection; requests may be pipelined with `send` and `receive`, or called one by one with `call`."""

    def __init__(self, port: int, *, client_id: str | None = "raw", seconds_max: float = SECONDS_MAX) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds_max)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._next_id = 0
        self._sent: dict[int, tuple[str, int, float]] = {}

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def send(self, api: str, version: int, body: dict[str, Any]) -> int:
        """Send one request and return its correlation id; `receive` brings the answer."""
        self._next_id += 1
        frame = encode(api, version, body, self._next_id, self._client_id)
        self._sent[self._next_id] = (api, version, time.monotonic())
        self._socket.sendall(frame)
        return self._next_id

    def send_bytes(self, frame: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(frame)

    def receive_frame(self) -> bytes:
        """The next frame without its length prefix.

        Raises:
            Closed: the broker closed the connection.
            TimeoutError: nothing came in time.
        """
        (length,) = struct.unpack(">i", self._exactly(4))
        assert 0 <= length <= FRAME_BYTES_MAX, f"a frame of {length} bytes"
        return self._exactly(length)

    def receive(self) -> tuple[int, Reply]:
        """The next answer: correlation id and reply. Its frame must be used up to the last byte.

        Raises:
            Closed: the broker closed the connection.
            TimeoutError: nothing came in time.
        """
        frame = self.receive_frame()
        now = time.monotonic()
        (correlation_id,) = struct.unpack_from(">i", frame)
        api, version, sent = self._sent.pop(correlation_id)
        read, read_header = _response(api, version)
        _, used = read_header(frame, 0)
        body, size = read(frame, used)
        assert used + size == len(frame), f"{api} v{version}: {len(frame) - used - size} bytes left over"
        return correlation_id, Reply(body, (now - sent) * 1000)

    def call(self, api: str, version: int, body: dict[str, Any]) -> Reply:
        """Send one request and wait for its answer.

        Raises:
            Closed: the broker closed the connection.
            TimeoutError: nothing came in time.
        """
        sent = self.send(api, version, body)
        got, reply = self.receive()
        assert got == sent, f"asked {sent}, answered {got}"
        return reply

    def silent(self, seconds: float) -> bool:
        """Whether no byte comes within this time (and the connection stays open)."""
        before = self._socket.gettimeout()
        self._socket.settimeout(seconds)
        try:
            if not self._socket.recv(1, socket.MSG_PEEK):
                raise Closed("closed by the broker")
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(before)
        return False

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._socket.recv(size - len(parts))
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed("closed by the broker")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fitting(api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """The body without the fields that this version of the request does not have."""
    return _fit(_request(api, version)[0], body)


def _fit(schema: type, values: dict[str, Any]) -> dict[str, Any]:
    hints, out = _hints(schema), {}
    for field in dataclasses.fields(schema):
        if field.name not in values:
            continue
        inner = [each for each in typing.get_args(hints[field.name]) if dataclasses.is_dataclass(each)]
        nested = [
            each
            for part in typing.get_args(hints[field.name])
            for each in typing.get_args(part)
            if dataclasses.is_dataclass(each)
        ]
        value = values[field.name]
        if isinstance(value, list) and (inner or nested):
            value = [_fit(typing.cast("type", (inner or nested)[0]), each) for each in value]
        out[field.name] = value
    return out


def plain(value: Any) -> Any:
    """An entity as dicts, lists, numbers and strings; times in ms, error codes as numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
