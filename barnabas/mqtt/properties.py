"""What MQTT 5 has beside topic and payload, as headers of a record, and back.

User properties are headers of the same names; content type, response topic and correlation data are headers of their
own (`mqtt.content-type` ...). No user property may pass for a header of the bridge, nor one of those for a user
property: names that begin with `mqtt.` are left out, both ways.
"""

from __future__ import annotations

import re
from typing import Any, Final

from paho.mqtt import properties as paho_properties
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from barnabas.client.consume.record import ConsumerRecord
from barnabas.mqtt.mapping import Headers

HEADERS_MAX: Final = 100
"""So many headers a message may bring, or a record take along."""
TEXT_BYTES_MAX: Final = 65_535
NO_TEXT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
"""What should not be in a text of MQTT (5.0, section 1.5.4): who reads it may end the connection."""

_OWN: Final = "mqtt."
_CONTENT_TYPE, _RESPONSE_TOPIC, _CORRELATION = f"{_OWN}content-type", f"{_OWN}response-topic", f"{_OWN}correlation-data"
_TABLES: Final = dict(vars(Properties(PacketTypes.PUBLISH)))  # type: ignore[no-untyped-call]
"""What paho keeps in each of them beside the properties themselves, and never changes."""
_NONE: Final = len(_TABLES)


def read_any_text() -> None:
    """Have paho read every text that an MQTT broker may send.

    Its own reader refuses U+FEFF, which MQTT 5 allows (section 1.5.4), by an exception in the middle of a packet: the
    message would end each connection that it comes on.
    """
    paho_properties.readUTF = _read_text


def make_tables_once() -> None:
    """Have paho make the tables of properties once, and not anew for each packet: that took a sixth of its time."""
    made: Any = Properties
    made.__init__, made.clear = _begin, _clear


def _begin(self: Any, packet_type: int) -> None:
    vars(self).update(_TABLES, packetType=packet_type)


def _clear(self: Any) -> None:
    for name in [name for name in vars(self) if name not in _TABLES]:
        delattr(self, name)


def _read_text(buffer: bytes, bytes_max: int) -> tuple[str, int]:
    end = 2 + int.from_bytes(buffer[:2], "big")
    if len(buffer[:2]) < 2 or end > bytes_max:
        raise ValueError(f"a text of {end} bytes, where {bytes_max} are left")
    return buffer[2:end].decode(errors="replace"), end


def to_headers(properties: Any) -> Headers:
    """The headers that a message's properties become (none with MQTT 3.1.1)."""
    if properties is None or len(vars(properties)) == _NONE:
        return ()
    given = getattr(properties, "UserProperty", ())
    headers = [(name, value.encode()) for name, value in given if not name.startswith(_OWN)]
    if content := getattr(properties, "ContentType", ""):
        headers.append((_CONTENT_TYPE, content.encode()))
    if topic := getattr(properties, "ResponseTopic", ""):
        headers.append((_RESPONSE_TOPIC, topic.encode()))
    if data := getattr(properties, "CorrelationData", b""):
        headers.append((_CORRELATION, bytes(data)))
    return tuple(headers)


def of_record(record: ConsumerRecord) -> Properties | None:
    """The properties that the headers of a record become; headers that are no text in MQTT are left out."""
    if not record.headers:
        return None
    made: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    user = []
    for name, value in record.headers[:HEADERS_MAX]:
        data = value or b""
        text = _text(data)
        if name == _CORRELATION and len(data) <= TEXT_BYTES_MAX:
            made.CorrelationData = data
        elif text is None:
            continue
        elif name == _CONTENT_TYPE:
            made.ContentType = text
        elif name == _RESPONSE_TOPIC and text and not re.search("[+#]", text):
            made.ResponseTopic = text
        elif not name.startswith(_OWN) and _text(name.encode()) is not None:
            user.append((name, text))
    if user:
        made.UserProperty = user
    return None if len(vars(made)) == _NONE else made


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if len(data) <= TEXT_BYTES_MAX and not NO_TEXT.search(text) else None
