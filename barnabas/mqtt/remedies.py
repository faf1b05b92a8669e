"""What went wrong with a connection to the MQTT broker, and what to do about it: the words of `/health` and the log.

Reason codes: MQTT 5.0, sections 3.2.2.2 and 3.14.2.1; paho gives those of 3.1.1 the same numbers.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from barnabas.mqtt.settings import Mqtt

UNSPECIFIED: Final = 0x80
_MALFORMED: Final = (0x81, 0x82)
_WHICH_PORT: Final = "is it an MQTT broker's port?"
_OWN_CERTIFICATE: Final = (
    "If it asks for a certificate of the bridge, write as cert_file (and key_file) of [mqtt.tls] one that its "
    "authorities have signed"
)
_NAME_MISMATCH: Final = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL."""


def unreached(mqtt: Mqtt, error: BaseException) -> str:
    """No connection: the name, the port, or TLS."""
    told = getattr(error, "strerror", None) or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        told = f"TLS: {error.verify_message}"
        if error.verify_code in _NAME_MISMATCH:
            return f"{told}; write as host a name that its certificate has"
        return f"{told}; as ca_file of [mqtt.tls] write the authority that signed its certificate"
    if isinstance(error, ssl.SSLError):
        if "_ALERT_" in (
            error.reason or ""
        ):  # its own word, so it does speak TLS; with 1.3 it comes later: `unanswered`
            return f"TLS: {error.reason}. {_OWN_CERTIFICATE}"
        return f"TLS: {error.reason or told}; if port {mqtt.port} speaks none, write another, or leave [mqtt.tls] out"
    if isinstance(error, ConnectionRefusedError):
        return f"{told}: nothing listens there"
    if isinstance(error, ConnectionResetError):
        return f"{told}; {_WHICH_PORT} {'If it speaks no TLS, leave [mqtt.tls] out' if mqtt.tls else _speaks_tls(mqtt)}"
    if isinstance(error, socket.gaierror):
        return f"{told}; look at host in [mqtt]"
    return told


def unanswered(mqtt: Mqtt) -> str:
    """Connected, TLS and all, and then closed, or silent: it speaks something else there, or knows not who we are.

    With TLS 1.3 a client learns only after its handshake that its certificate was asked for, or was not taken.
    """
    return f"{_WHICH_PORT} {_speaks_tls(mqtt) if mqtt.tls is None else _OWN_CERTIFICATE}"


def _speaks_tls(mqtt: Mqtt) -> str:
    return f"If it speaks TLS, write [mqtt.tls] (and port = {mqtt.port} in [mqtt])"


def refused(mqtt: Mqtt, reason: Any) -> str:
    """CONNECT was answered with a reason of paho's."""
    return f"the MQTT broker refuses the connection: {_told(reason)}{_remedy(mqtt, reason.value)}"


def ended(mqtt: Mqtt, reason: Any, said: str, *, by_broker: bool) -> str:
    """A connection is over; `said` is the reason string of the broker's DISCONNECT."""
    if by_broker:
        more = f", {said[:200]!r}" if said else ""
        return f"the MQTT broker ended it: {_told(reason)}{more}{_remedy(mqtt, reason.value)}"
    if reason.value in _MALFORMED:
        return "the MQTT broker sent what is no MQTT"
    if reason.value == UNSPECIFIED:
        return "it was closed without a reason"
    if reason.value == 0x8D:
        return f"the MQTT broker has answered no ping for {mqtt.keepalive_s} s (keepalive_s)"
    return str(reason)


def _told(reason: Any) -> str:
    return f"{reason} (0x{reason.value:02x})"


def _remedy(mqtt: Mqtt, code: int) -> str:
    if code == 0x84 and mqtt.five:
        return '; write version = "3.1.1" in [mqtt]'
    if code == 0x85:
        return f"; {mqtt.client_id[:100]!r} is its client_id: choose another"
    if code in (0x86, 0x87):
        if mqtt.username:
            return "; look at username and password (or password_file) of [mqtt], and at the rights of that user"
        return "; write username and password_file in [mqtt]"
    if code == 0x8E:
        return f"; another client has the client_id {mqtt.client_id[:100]!r}: give each bridge its own"
    return ""
