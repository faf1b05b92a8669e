"""What `barnabas top` tells of one look at an MQTT bridge's `/state`: a head, and sections after empty lines."""

from __future__ import annotations

from typing import Any, Final

from barnabas.cli.speak import some, table

State = dict[str, Any]

_COUNTS: Final = {
    "received_qos1": "messages of QoS 1",
    "received_qos0": "messages of QoS 0",
    "acknowledged": "acknowledged to the MQTT broker",
    "forwarded": "records acknowledged by Kafka",
    "dead_lettered": "dead letters",
    "duplicates": "delivered again (marked)",
    "lost_qos0": "QoS 0 dropped",
    "lost_dead_letters": "dead letters lost",
    "retained_skipped": "retained, not wanted",
    "retried": "records sent again",
    "published": "records published",
    "out_skipped": "records that came from MQTT",
    "out_refused": "records that could not be published",
}


def render(server: str, state: State, before: State | None, elapsed_s: float) -> list[str]:
    """The lines of one look; `before` is the look `elapsed_s` ago, for rates."""
    mqtt, waiting = state["mqtt"], state["open"]
    took = f"p50 {state['took_ms']['p50']} ms, p99 {state['took_ms']['p99']} ms"
    open_most = f" of {mqtt['receive_maximum']}" if mqtt["receive_maximum"] else ""
    return [
        f"mqtt bridge {state['mqtt_bridge']} {server}: {mqtt['address']} (MQTT {mqtt['version']}) and {state['kafka']}",
        f"open: {some(waiting['messages'], 'message')}{open_most}, the oldest for {waiting['oldest_ms']} ms; "
        f"{some(waiting['retrying'], 'record')} tried again; to Kafka and back: {took}",
        *(["nothing is read: as much is open as may be (receive_maximum, open_bytes_max)"] if waiting["held"] else []),
        *([f"not carrying: {state['why_not']}"] if state["why_not"] else []),
        "",
        *_sides(state["sides"]),
        "",
        *_rules([*state["rules"], *state["out"]], before, elapsed_s),
        "",
        *_counts(state["counts"], before, elapsed_s),
    ]


def _sides(sides: list[State]) -> list[str]:
    rows = [
        (one["direction"], "yes" if one["connected"] else "no", one["connections"], one["sessions_lost"], one["why"])
        for one in sides
    ]
    return table(("direction", "connected", "connections", "sessions lost", "why"), rows).split("\n")


def _rules(rules: list[State], before: State | None, elapsed_s: float) -> list[str]:
    earlier = {one["place"]: one["messages"] for one in [*before["rules"], *before["out"]]} if before else {}
    rows = [
        (
            one["place"],
            one["takes"],
            one["to"],
            one["messages"],
            _rate(one["messages"], earlier.get(one["place"]), elapsed_s),
        )
        for one in rules
    ]
    return table(("rule", "takes", "to", "messages", "per s"), rows).split("\n")


def _counts(counts: State, before: State | None, elapsed_s: float) -> list[str]:
    earlier = before["counts"] if before else {}
    rows = [(what, counts[name], _rate(counts[name], earlier.get(name), elapsed_s)) for name, what in _COUNTS.items()]
    return table(("what", "so far", "per s"), rows).split("\n")


def _rate(now: int, then: int | None, elapsed_s: float) -> int | str:
    return "-" if then is None or elapsed_s <= 0 else round((now - then) / elapsed_s)
