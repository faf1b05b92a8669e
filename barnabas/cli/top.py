"""`barnabas top`: the inside of a broker, live on a terminal; piped, one look.

Shows what `/state` says; rates come from two looks.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from barnabas.cli.speak import Options, fail, say, server_argument, table

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"

State = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Show until q or Ctrl-C."""
    options = Options(prog="barnabas top", description="Watch the inside of a broker.")
    server_argument(options)
    options.add_argument("--interval", metavar="SECONDS", type=float, default=1.0, help="between looks (1)")
    options.add_argument("--once", action="store_true", help="look once, without clearing the screen")
    given = options.parse_args(arguments)

    from barnabas.protocol.errors import BarnabasError

    try:
        if given.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            from barnabas.cli.look import state

            say("\n".join(render(given.server, state(given.server), None, 0.0)))
        else:
            _live(given.server, max(given.interval, 0.1))
    except BarnabasError as error:
        return fail(str(error), 1)
    return 0


def _live(server: str, interval_s: float) -> None:
    from barnabas.cli.look import state

    before: State | None = None
    looked_s = time.monotonic()
    with _screen() as pressed:
        while True:
            now = state(server)
            now_s = time.monotonic()
            size = shutil.get_terminal_size()
            lines = render(server, now, before, now_s - looked_s)
            before, looked_s = now, now_s
            shown = [line[: size.columns] for line in lines[: size.lines - 1]]
            heads = [at == 0 or not shown[at - 1] for at in range(len(shown))]  # what follows an empty line
            painted = (f"{_BOLD}{line}{_PLAIN}" if head else line for line, head in zip(shown, heads, strict=True))
            sys.stdout.write(_HOME + "".join(f"{line}{_CLEAR_LINE}\r\n" for line in painted) + _CLEAR_BELOW)
            sys.stdout.flush()
            if pressed(interval_s) in ("q", "Q", "\x03"):
                return


@contextmanager
def _screen() -> Iterator[Any]:
    """A screen of our own; gives a function that waits for a key so many seconds."""
    import select
    import termios
    import tty

    saved = termios.tcgetattr(sys.stdin)
    sys.stdout.write(_ENTER)
    try:
        tty.setcbreak(sys.stdin)

        def pressed(limit_s: float) -> str:
            ready, _, _ = select.select([sys.stdin], [], [], limit_s)
            return sys.stdin.read(1) if ready else ""

        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def render(server: str, state: State, before: State | None, elapsed_s: float) -> list[str]:
    """The lines of one look. `before` is the look `elapsed_s` ago, for rates; None shows none."""
    partitions: list[State] = state.get("partitions", [])
    connections: list[State] = state.get("connections", [])
    operations: list[State] = [one for purgatory in state.get("purgatories", []) for one in purgatory["operations"]]
    sessions: list[State] = state.get("fetch_sessions", [])
    wheels = [(purgatory["name"], purgatory["wheel"]) for purgatory in state.get("purgatories", [])]
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
        "",
        *_operations(operations),
        "",
        *_wheels([*wheels, ("(other)", state.get("timer", []))]),
        "",
        *_connections(connections, before, elapsed_s),
    ]


def _memory(memory: State | None) -> list[str]:
    """What is held for requests, of which kind, and by whom."""
    if memory is None:
        return []
    limit = f" of {_size(memory['limit_bytes'])}" if memory["limit_bytes"] >= 0 else ""
    line = f"memory held for requests: {_size(memory['held_bytes'])}{limit}"
    kinds = ", ".join(f"{what} {_size(size)}" for what, size in memory["by_kind"].items() if size)
    if kinds:
        line += f" ({kinds})"
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
        waits = [word.replace("_", " ") for word in ("stalled", "muted", "short_of_memory") if one.get(word)]
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
