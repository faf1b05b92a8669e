"""Settings under Kafka's names: `{"linger.ms": 5}` or `linger_ms=5`, with Kafka's defaults and Kafka's conflicts.

Each class is the list of what its client understands. A key nobody knows is refused with the nearest name, because a
misspelt setting that is silently ignored costs more than an error at start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from barnabas.net.errors import ConfigError
from barnabas.net.foreign import why_protocol, why_unknown

C = TypeVar("C", bound="ClientConfig")
SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
INT_MAX: Final = 2**31 - 1
DEFAULT_PORT: Final = 9092
PORT_MAX: Final = 65535
_PORT_DIGITS_MAX: Final = 18
PLAINTEXT: Final = "PLAINTEXT"
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def at_least(minimum: int, default: int) -> Any:
    """An integer setting with a lower bound."""
    return field(default=default, metadata={"min": minimum})


def between(least: int, most: int, default: int, *extra: int) -> Any:
    """An integer setting with both bounds; `extra` values lie outside of them and are taken all the same."""
    return field(default=default, metadata={"between": (least, most, *extra)})


def one_of(choices: tuple[str, ...], default: str) -> Any:
    """A setting that is one of a few words."""
    return field(default=default, metadata={"choices": choices})


AS_IS: Final = {"as_is": True}
"""Marks a setting that takes a Python object (a serializer, a partitioner, a list of interceptors) as it is."""


@dataclass(slots=True, kw_only=True)
class ClientConfig:
    """What every client needs: where the cluster is, and how patient to be with it. Times in ms, sizes in bytes."""

    bootstrap_servers: tuple[str, ...] = (f"127.0.0.1:{DEFAULT_PORT}",)
    """Where the cluster is first asked for: `host:port`, several with commas; `PLAINTEXT://` may stand before
    each."""
    security_protocol: str = PLAINTEXT
    """Only PLAINTEXT, until TLS and SASL come."""
    client_id: str = "barnabas"
    """What brokers call this client in their logs and metrics."""
    client_rack: str = ""
    """Where this consumer stands: records are read there, where `replica.selector.class` of the brokers says so."""
    dialect: str = one_of(("kafka", "native"), "kafka")
    """`kafka` is what every broker speaks, `native` the msgpack one that only Barnabas does."""
    client_dns_lookup: str = one_of(("use_all_dns_ips",), "use_all_dns_ips")
    """All addresses of a name are tried, one after the other."""
    request_timeout_ms: int = at_least(0, 30 * SECOND)
    """How long an answer may take before its connection is closed and the request tried again."""
    default_api_timeout_ms: int = at_least(0, MINUTE)
    """How long a call may take that has no timeout of its own, with all its tries."""
    retry_backoff_ms: int = at_least(0, 100)
    """The first pause before a request is tried again; it doubles from try to try."""
    retry_backoff_max_ms: int = at_least(0, SECOND)
    """The longest such pause."""
    reconnect_backoff_ms: int = at_least(0, 50)
    """The first pause before a broker is connected to again; it doubles from try to try."""
    reconnect_backoff_max_ms: int = at_least(0, SECOND)
    """The longest such pause."""
    socket_connection_setup_timeout_ms: int = at_least(0, 10 * SECOND)
    """How long a connection may take to be made; it doubles from try to try."""
    socket_connection_setup_timeout_max_ms: int = at_least(0, 30 * SECOND)
    """The longest such time."""
    connections_max_idle_ms: int = at_least(-1, 9 * MINUTE)
    """A connection that nothing used for so long is closed; -1: never."""
    max_in_flight_requests_per_connection: int = at_least(1, 5)
    """Requests under way to one broker; above 5 there is no idempotence."""
    metadata_max_age_ms: int = at_least(0, 5 * MINUTE)
    """How old what is known of the cluster may become before it is asked for again."""
    metadata_recovery_strategy: str = one_of(("rebootstrap", "none"), "rebootstrap")
    """Where no known broker can be reached: ask the bootstrap servers again, or give up."""
    metadata_recovery_rebootstrap_trigger_ms: int = at_least(0, 5 * MINUTE)
    """How long none may be reached before the bootstrap servers are asked again."""
    send_buffer_bytes: int = at_least(-1, 128 * 1024)
    """The socket's send buffer; -1: as the system has it."""
    receive_buffer_bytes: int = at_least(-1, 64 * 1024)
    """The socket's receive buffer; -1: as the system has it."""
    metrics_sample_window_ms: int = at_least(1, 30 * SECOND)
    """How long a window of time is; the rates in `metrics()` are taken over some of them."""
    metrics_num_samples: int = at_least(1, 2)
    """How many windows a rate covers."""
    statistics_interval_ms: int = at_least(0, 0)
    """How often `stats_cb` is called; 0: never."""
    stats_cb: Any = field(default=None, metadata=AS_IS)
    """Called with the statistics, a dictionary of plain values under librdkafka's names, on the client's thread."""
    error_cb: Any = field(default=None, metadata=AS_IS)
    """Called with the error of a trouble that lasts for a second (and again, ever more seldom), or is fatal."""

    @classmethod
    def of(cls: type[C], settings: Mapping[str, Any] | str | None = None, **named: Any) -> C:
        """Read settings given as a mapping with Kafka's names, as keyword arguments with `_`, or both.

        A string alone stands for `bootstrap.servers`. None means unset.

        Raises:
            ConfigError: an unknown key (with what it may have meant), a key given twice, a bad value, or a conflict.
        """
        known = {each.name: each for each in fields(cls)}
        given: dict[str, Any] = {}
        if isinstance(settings, str):
            settings = {"bootstrap.servers": settings}
        elif not (settings is None or isinstance(settings, Mapping)):
            raise ConfigError(
                f"config: {settings!r} ({type(settings).__name__}) is no mapping of settings; give "
                '{"bootstrap.servers": ...}, or keywords (bootstrap_servers=...)'
            )
        for key, value in [*(settings or {}).items(), *named.items()]:
            name = key.replace(".", "_") if isinstance(key, str) else ""
            if name not in known:
                raise ConfigError(why_unknown(key, [dotted(each) for each in known]))
            if value is None:
                continue
            if name in given:
                raise ConfigError(f"{dotted(name)} is given twice; drop one of them")
            given[name] = _read(dotted(name), value, str(known[name].type), known[name].metadata)
        config = cls(**given)
        config.check(frozenset(given))
        return config

    def check(self, explicit: frozenset[str]) -> None:
        """Refuse settings that contradict each other; `explicit` are the names somebody set."""
        if not self.bootstrap_servers:
            raise ConfigError("bootstrap.servers is empty: name at least one host:port")
        for server in self.bootstrap_servers:
            parse_server(server)
        for name in ("stats_cb", "error_cb"):
            call = getattr(self, name)
            if call is not None and not callable(call):
                raise ConfigError(f"{name}: {call!r} is no function")
        if bool(self.statistics_interval_ms) != (self.stats_cb is not None):
            raise ConfigError("statistics.interval.ms and stats_cb go together: how often, and who is told")
        if self.retry_backoff_max_ms < self.retry_backoff_ms:
            self.retry_backoff_ms = self.retry_backoff_max_ms


def dotted(name: str) -> str:
    """Kafka's spelling of an attribute name."""
    return name.replace("_", ".")


def parse_server(text: str) -> tuple[str, int]:
    """`host:port`, `[v6]:port`, a bare host (port 9092), or the path of a Unix socket (the port means nothing).

    `PLAINTEXT://` may stand before it, as in a broker's `listeners`. Without brackets the last number of what may be an
    address with a port is the port, as in Kafka's clients (`::1:9092`).

    Raises:
        ConfigError: no host, or a port that is none.
    """
    protocol, slashes, rest = text.strip().partition("://")
    if slashes:
        _protocol(f"bootstrap.servers: {text!r}", protocol)
    address = rest if slashes else text.strip()
    if address.startswith("/"):
        return address, DEFAULT_PORT
    host, _, port = address.rpartition(":")
    if not host or (":" in host and not host.endswith("]") and not (port.isdecimal() and _is_v6(host))):
        host, port = address, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdecimal():
        raise ConfigError(f"bootstrap.servers: {text!r} is not host:port")
    number = int(port) if len(port) <= _PORT_DIGITS_MAX else PORT_MAX + 1
    if not 0 < number <= PORT_MAX:
        raise ConfigError(f"bootstrap.servers: {text!r}: {port[:20]} is no port; ports go from 1 to {PORT_MAX}")
    return host, number


def _is_v6(host: str) -> bool:
    import ipaddress  # rarely needed

    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _read(key: str, value: Any, kind: str, metadata: Mapping[str, Any]) -> Any:
    if metadata.get("as_is"):
        return value
    if key == "acks":
        return _acks(value)
    if key == "security.protocol":
        return _protocol(key, str(value))
    reader = _READERS.get(kind)
    if reader is None:
        return value
    try:
        read = reader(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{key}: {value!r} is no {kind}") from None
    if "min" in metadata and read < metadata["min"]:
        raise ConfigError(f"{key}: {read} is below its minimum {metadata['min']}")
    if "between" in metadata:
        least, most, *extra = metadata["between"]
        if not least <= read <= most and read not in extra:
            others = "".join(f" or equal to {each}" for each in extra)
            raise ConfigError(f"{key}: {read} must be between {least} and {most}{others}")
    if "choices" in metadata and read not in metadata["choices"]:
        raise ConfigError(f"{key}: {read!r} is none of {', '.join(metadata['choices'])}")
    return read


def _acks(value: Any) -> int:
    number = {"all": -1, "-1": -1, "0": 0, "1": 1}.get(str(value).strip().lower())
    if number is None:
        raise ConfigError(f"acks: {value!r} is none of all, -1, 0, 1")
    return number


def _protocol(what: str, value: str) -> str:
    if value.strip().upper() != PLAINTEXT:
        raise ConfigError(f"{what}: {value!r}: {why_protocol(value.strip())}")
    return PLAINTEXT


def _bool(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(text)


def _int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError(value)
    return int(value)


def _words(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else [str(each) for each in value]
    return tuple(part.strip() for part in parts if part.strip())


def _words_or_objects(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return _words(value)
    return tuple(value) if isinstance(value, list | tuple) else (value,)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _int,
    "bool": _bool,
    "str": str,
    "tuple[str, ...]": _words,
    "tuple[Any, ...]": _words_or_objects,
}
