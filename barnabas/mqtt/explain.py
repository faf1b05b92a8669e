"""What a bridge would make of one message, and by which rule: the answer of `barnabas mqtt --explain TOPIC`."""

from __future__ import annotations

import re
from typing import Final

from barnabas.mqtt import filters
from barnabas.mqtt.mapping import Message, Refused, headers_of, value_of
from barnabas.mqtt.settings import Settings

_SHOWN_BYTES: Final = 200


def no_topic(text: str) -> str:
    """Why nobody can publish to it; nothing when it is the topic of a message (MQTT 5.0, section 4.7)."""
    if not text or "\0" in text or len(text.encode()) > filters.TOPIC_BYTES_MAX:
        return f"the topic of a message has 1 to {filters.TOPIC_BYTES_MAX} bytes, and no NUL among them"
    if re.search(r"[+#]", text):
        return f"{text[:_SHOWN_BYTES]!r}: + and # stand in filters alone; write a topic as a device would publish to"
    return ""


def explain(settings: Settings, topic: str, payload: bytes, now_ms: int) -> list[str]:
    """Lines for a person. A refusal is told as what it leads to: a dead letter."""
    mqtt, rules = settings.mqtt, settings.rules
    lines = [f"topic      {topic}"]
    through = [one for one in mqtt.subscribe if filters.pattern(one).fullmatch(topic)]
    if not through:
        lines.append(f"subscribed no: it meets none of {', '.join(mqtt.subscribe) or 'no filter'}, and would not come")
    else:
        lines.append(f"subscribed {through[0]}, QoS {mqtt.qos}" + (f", shared by {mqtt.share}" if mqtt.share else ""))
    for rule in rules.all_rules:
        takes = rule.match(topic) is not None
        lines.append(f"{'takes it' if takes else 'no':10s} {rule.place}: {rule.told}")
        if takes:
            break
    message = Message(topic, payload, mqtt.qos)
    try:
        route = rules.route(topic)
        value = value_of(route.rule, message, now_ms)
    except Refused as refused:
        return [*lines, f"refused    {refused}", f"record     to {settings.dead_letter}, the payload as it is"]
    lines.append(f"record     to {route.topic}")
    lines.append(f"key        {_shown(route.key)}")
    lines.append(f"partition  {_partition(route.key, route.device)}")
    lines += [f"header     {name} = {_shown(data)}" for name, data in headers_of(route, message)]
    told = {"raw": "as it is", "json": "as it is, once it was seen to be JSON", "msgpack": "in a msgpack envelope"}
    lines.append(f"value      {told[route.rule.payload]}: {_shown(value)}")
    return lines


def _partition(key: bytes | None, device: bytes | None) -> str:
    if device is not None:
        return f"by the device {_shown(device)}: murmur2, modulo the topic's partitions"
    return "any: there is no key" if key is None else "by the key: murmur2, modulo the topic's partitions"


def _shown(data: bytes | None) -> str:
    if not data:
        return "none" if data is None else "empty"
    more = f" ... ({len(data)} bytes)" if len(data) > _SHOWN_BYTES else ""
    text = data[:_SHOWN_BYTES].decode(errors="backslashreplace")
    return (text if text.isprintable() else repr(data[:_SHOWN_BYTES])[1:]) + more
