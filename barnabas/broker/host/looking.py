"""What the host shows: its HTTP pages, and its own metrics. Everything is worked out when somebody asks."""

from __future__ import annotations

import heapq
import os
import sys
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.account import KINDS, UNLIMITED
from barnabas.broker.host import http
from barnabas.broker.host.http import Answer, Page
from barnabas.broker.host.states import MUTED, SHORT, STALLED, State

if TYPE_CHECKING:
    from barnabas.broker.host.channel import Channel
    from barnabas.broker.host.host import Host

_INDEX: Final = """\
Barnabas speaks Kafka on this port, and shows its inside:

  /health    200 once it serves
  /metrics   Prometheus text
  /state     partitions, parked operations, timing wheel, connections, fetch sessions, memory (JSON);
             of each list the first 500, further ones with ?after=500 (and limit=, 1000 at most); counts says how many
"""
STATE_ITEMS: Final = 500
STATE_ITEMS_MAX: Final = 1000
"""Of each list: a page of so many is made in some 10 ms."""


def pages(host: Host) -> Mapping[str, Page]:
    """The pages by path."""
    return {
        "/": lambda fields: Answer(200, http.TEXT, _INDEX),
        "/health": lambda fields: _health(host),
        "/metrics": lambda fields: _metrics(host),
        "/state": lambda fields: _state(host, fields),
    }


def _health(host: Host) -> Answer:
    if host.serving:
        return Answer(200, http.JSON, '{"status": "serving"}\n')
    return Answer(503, http.JSON, '{"status": "starting or stopping"}\n')


def _metrics(host: Host) -> Answer:
    from barnabas.broker.host.prometheus import pieces

    return Answer(200, http.PROMETHEUS, chain(pieces(host.registry.collect(host.now_ms())), [_process()]))


def _state(host: Host, fields: Mapping[str, str]) -> Answer:
    import json

    limit, after = fields.get("limit", str(STATE_ITEMS)), fields.get("after", "0")
    if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in (limit, after)):
        return Answer(400, http.TEXT, "Write whole numbers: /state?after=500&limit=500\n")
    first = int(after)
    state = host.snapshot(first, first + min(int(limit), STATE_ITEMS_MAX))
    return Answer(200, http.JSON, json.dumps(state, default=_plain) + "\n")


def _process() -> str:
    """The process' own figures, under the names that Prometheus' client libraries use."""
    spent = os.times()
    lines = [
        "# HELP process_cpu_seconds_total Seconds that the process has worked, for itself and in the system.",
        "# TYPE process_cpu_seconds_total counter",
        f"process_cpu_seconds_total {spent.user + spent.system:.3f}",
    ]
    memory = memory_bytes()
    if memory is not None:
        told = ("Bytes of memory, mapped files that are cached among them.", "Bytes of memory of the process' own.")
        for kind, value, means in zip(("resident", "private"), memory, told, strict=True):
            name = f"process_{kind}_memory_bytes"
            lines += [f"# HELP {name} {means}", f"# TYPE {name} gauge", f"{name} {value}"]
    return "\n".join(lines) + "\n"


def memory_bytes() -> tuple[int, int] | None:
    """What is resident of this process now, and what of it is its own (bytes), where the system says so.

    The rest are pages of files that are mapped: its program, and the segments that consumers read. They are counted as
    resident while they are in the page cache, and are the system's to take back.
    """
    if not sys.platform.startswith("linux"):
        return None
    with open("/proc/self/statm") as file:  # in pages: size, resident, shared with files, text, ...
        _, resident, of_files = map(int, file.read().split()[:3])
    page = os.sysconf("SC_PAGE_SIZE")
    return resident * page, (resident - of_files) * page


def _plain(value: Any) -> Any:
    """JSON's word for what a snapshot may hold besides plain values."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)


def register(host: Host) -> None:
    """The host's metrics, under the names of Kafka's socket server."""
    registry, kind = host.registry, "kafka.server:socket-server-metrics"
    for listener in dict.fromkeys(one.endpoint.listener for one in host.listening):
        registry.gauge(kind, "connection-count", {"listener": listener}, partial(_open_on, host, listener))
    registry.counter(kind, "connection-creation-total", None, lambda: host.accepted)
    registry.counter(kind, "connection-refused-total", None, lambda: host.admission.refused)
    registry.counter(kind, "incoming-byte-total", None, lambda: host.received_bytes)
    registry.counter(kind, "request-total", None, lambda: host.requests)
    account = host.account
    if account.limit < UNLIMITED:  # Kafka's pool exists with a limit only
        registry.gauge("kafka.network:SocketServer", "MemoryPoolAvailable", None, lambda: account.limit - account.total)
        registry.gauge("kafka.network:SocketServer", "MemoryPoolUsed", None, lambda: account.total)
    ours = "barnabas:Memory"
    for what in KINDS:
        registry.gauge(ours, "HeldBytes", {"kind": what}, partial(account.by_kind.__getitem__, what))
    registry.gauge(ours, "LimitBytes", None, lambda: account.limit if account.limit < UNLIMITED else -1)
    registry.gauge(ours, "WaitingConnections", None, lambda: len(host.relief.waiting))
    registry.counter(ours, "EndedConnections", None, lambda: host.relief.ended)


def connection(channel: Channel, now_ms: int) -> dict[str, Any]:
    """A connection as plain values."""
    peer, parked = channel.connection, channel.outstanding
    return {
        "id": peer.id,
        "listener": peer.listener,
        "client_host": peer.client_host,
        "dialect": peer.dialect if channel.introduced else None,
        "client_software_name": peer.client_software_name,
        "client_software_version": peer.client_software_version,
        "age_ms": now_ms - peer.opened_ms,
        "quiet_ms": now_ms - channel.active_ms,
        "requests": channel.requests,
        "parked_api_key": None if parked is None else parked.api_key,
        "stalled": channel.waits & STALLED != 0,
        "muted": channel.waits & MUTED != 0,
        "short_of_memory": channel.waits & SHORT != 0,
        "held_bytes": channel.account.held_by(peer.id),
        "receive_bytes": channel.receiver.held_bytes,
        "send_bytes": 0 if channel.state is State.GONE else channel.transport.get_write_buffer_size(),
    }


def memory(host: Host) -> dict[str, Any]:
    """The account of memory, and who holds most (bytes)."""
    account = host.account
    most = heapq.nlargest(5, account.by_holder.items(), key=lambda one: one[1])
    return {
        "held_bytes": account.total,
        "limit_bytes": account.limit if account.limit < UNLIMITED else -1,
        "by_kind": dict(account.by_kind),
        "largest": [
            {"connection": holder, "client_host": _host_of(host, holder), "held_bytes": size} for holder, size in most
        ],
        "waiting": len(host.relief.waiting),
        "ended": host.relief.ended,
    }


def _host_of(host: Host, holder: int) -> str:
    channel = host.channels.get(holder)
    return "" if channel is None else channel.connection.client_host


def _open_on(host: Host, listener: str) -> int:
    return sum(channel.connection.listener == listener for channel in host.channels.values())
