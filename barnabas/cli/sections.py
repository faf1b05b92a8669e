"""What `barnabas top` tells of one look at `/state`: a head, and sections with an empty line before each."""

from __future__ import annotations

from typing import Any, Final

from barnabas.cli.speak import table

State = dict[str, Any]


def render_any(server: str, state: State, before: State | None, elapsed_s: float) -> list[str]:
    """The lines of one look at whoever answers there: a broker, or an MQTT bridge."""
    if "mqtt_bridge" in state:
        from barnabas.cli.sections_mqtt import render as render_bridge

        return render_bridge(server, state, before, elapsed_s)
    return render(server, state, before, elapsed_s)


def render(server: str, state: State, before: State | None, elapsed_s: float) -> list[str]:
    """The lines of one look. `before` is the look `elapsed_s` ago, for rates; None shows none."""
    partitions: list[State] = state.get("partitions", [])
    connections: list[State] = state.get("connections", [])
    purgatories: list[State] = state.get("purgatories", [])
    operations: list[State] = [one for purgatory in purgatories for one in purgatory["operations"]]
    sessions: list[State] = state.get("fetch_sessions", [])
    wheels = [(purgatory["name"], purgatory["wheel"]) for purgatory in purgatories]
    told: State = state.get("counts", {})  # lists come in pages; this is the first
    counts = [
        _count(told.get("partitions", len(partitions)), "partition"),
        _count(told.get("connections", len(connections)), "connection"),
        _count(told.get("parked_operations", len(operations)), "parked operation"),
        _count(told.get("fetch_sessions", len(sessions)), "fetch session"),
    ]
    return [
        f"barnabas {server}: {', '.join(counts)}",
        *_memory(state.get("memory")),
        "",
        *_partitions(partitions, before, elapsed_s),
        *_further(told.get("partitions", 0), len(partitions)),
        "",
        *_operations(operations),
        *_lists(purgatories),
        "",
        *_wheels([*wheels, ("(other)", state.get("timer", []))]),
        "",
        *_connections(connections, before, elapsed_s),
        *_further(told.get("connections", 0), len(connections)),
    ]


_WAITS: Final = {"stalled": "stalled", "muted": "muted: over its quota", "short_of_memory": "short of memory"}
_TOLD_BYTES_MIN: Final = 1024 * 1024
"""Who holds less is not worth a name."""


def _further(told: int, shown: int) -> list[str]:
    """Where the rest of a list is: a look has its first page."""
    return [f"({told - shown} more: /state?after={shown})"] if told > shown > 0 else []


def _memory(memory: State | None) -> list[str]:
    """What is held for requests, of which kind, and by whom."""
    if memory is None:
        return []
    limit = f" of {_size(memory['limit_bytes'])}" if memory["limit_bytes"] >= 0 else ""
    line = f"memory held for requests: {_size(memory['held_bytes'])}{limit}"
    kinds = ", ".join(f"{what} {_size(size)}" for what, size in memory["by_kind"].items() if size)
    if kinds:
        line += f" ({kinds})"
    own = next((one["held_bytes"] for one in memory.get("largest", ()) if not one["connection"]), 0)
    if own >= _TOLD_BYTES_MIN:
        line += f"; of it {_size(own)} are free buffers for what comes next"
    most = next((one for one in memory.get("largest", ()) if one["connection"]), None)  # 0: the broker itself
    if most is not None and most["held_bytes"] >= _TOLD_BYTES_MIN:
        line += f"; most by {most['client_host']} (connection {most['connection']}), {_size(most['held_bytes'])}"
    if memory["waiting"]:
        line += f"; {_count(memory['waiting'], 'connection')} waiting for memory"
    if memory["ended"]:
        line += f"; {_count(memory['ended'], 'connection')} ended for memory"
    return [line]


def _size(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"


def _partitions(partitions: list[State], before: State | None, elapsed_s: float) -> list[str]:
    if not partitions:
        return ["no partitions yet"]
    earlier = {(one["topic"], one["partition"]): one for one in (before or {}).get("partitions", [])}
    rows = []
    for one in partitions:
        old = earlier.get((one["topic"], one["partition"]))
        grown = one["log_end_offset"] - old["log_end_offset"] if old else None
        rows.append(
            (
                f"{one['topic']}-{one['partition']}",
                one["log_start_offset"],
                one["high_watermark"],
                one["log_end_offset"],
                _rate(grown, elapsed_s),
                ",".join(map(str, one["isr"])),
                one["leader_epoch"],
            )
        )
    if before is not None:
        rows.sort(key=lambda row: -row[4] if isinstance(row[4], int) else 0)
    return table(("partition", "start", "high wm", "end", "records/s", "in sync", "epoch"), rows).split("\n")


def _operations(operations: list[State]) -> list[str]:
    if not operations:
        return ["nothing is parked"]
    ordered = sorted(operations, key=lambda one: one["due_in_ms"])
    rows = [(one["kind"], one["age_ms"], one["due_in_ms"], " ".join(one["keys"])) for one in ordered]
    return table(("parked", "age ms", "due in ms", "watches"), rows).split("\n")


def _lists(purgatories: list[State]) -> list[str]:
    """Who stands in which list, in order; `*` marks what has completed and is not purged yet."""
    lines: list[str] = []
    for one in purgatories:
        if not one.get("lists"):
            continue
        waits = f"{one['watched']} watched, {one['delayed']} delayed, {one['completed']} completed and not purged (*)"
        lines += ["", f"{one['name']} purgatory: {waits}"]
        rows = [(each["key"], _entries(each)) for each in one["lists"]]
        lines += table(("key", "in order"), rows).split("\n")
    return lines


def _entries(each: State) -> str:
    names = [one["kind"].removeprefix("Delayed") + ("*" if one["completed"] else "") for one in each["entries"]]
    return " ".join([*names, f"and {each['more']} more"] if each["more"] else names)


def _wheels(wheels: list[tuple[str, list[State]]]) -> list[str]:
    """The levels on which something waits: each purgatory has a wheel, and the rest of the broker one more."""
    rows = [
        (
            name,
            level["level"],
            level["tick_ms"],
            level["interval_ms"],
            sum(bucket["tasks"] for bucket in level["buckets"]),
            " ".join(f"{bucket['index']}:{bucket['tasks']}" for bucket in level["buckets"]),
        )
        for name, levels in wheels
        for level in levels
        if level["buckets"]
    ]
    if not rows:
        return ["no timer runs"]
    return table(("wheel", "level", "tick ms", "spans ms", "tasks", "bucket:tasks"), rows).split("\n")


def _connections(connections: list[State], before: State | None, elapsed_s: float) -> list[str]:
    earlier = {one["id"]: one for one in (before or {}).get("connections", [])}
    rows = []
    for one in connections:
        old = earlier.get(one["id"])
        waits = [said for word, said in _WAITS.items() if one.get(word)]
        if one["parked_api_key"] is not None:
            waits.insert(0, f"parked (API {one['parked_api_key']})")
        rows.append(
            (
                one["id"],
                one["client_host"],
                one["dialect"] or "-",
                " ".join(filter(None, [one["client_software_name"], one["client_software_version"]])) or "-",
                one["requests"],
                _rate(one["requests"] - old["requests"] if old else None, elapsed_s),
                ", ".join(waits) or "-",
            )
        )
    if not rows:
        return ["no connections"]
    return table(("connection", "from", "dialect", "client", "requests", "per s", "state"), rows).split("\n")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _rate(count: int | None, elapsed_s: float) -> int | str:
    return "-" if count is None or elapsed_s <= 0 else round(count / elapsed_s)
