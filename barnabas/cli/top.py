"""`barnabas top`: the inside of a broker, live on a terminal; piped, one look.

Shows what `/state` says; rates come from two looks.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Final

from barnabas.cli.options import Options, server_argument, server_of
from barnabas.cli.sections import State, render_any
from barnabas.cli.speak import say

_KEYS: Final = (
    "Keys: q quits, arrows, PgUp, PgDn, Home and End move, Tab goes to the next section. Piped, it looks once."
)


def parser() -> Options:
    """The options of `barnabas top`."""
    options = Options(
        prog="barnabas top",
        description=f"Watch the inside of a broker, or of an MQTT bridge. {_KEYS}",
        examples=(
            "barnabas top",
            "barnabas top localhost:9092 --once",
            "barnabas top localhost:9095             # an MQTT bridge",
        ),
    )
    server_argument(options)
    options.add_argument("--interval", metavar="SECONDS", type=float, default=1.0, help="between looks (1)")
    options.add_argument("--once", action="store_true", help="look once, without clearing the screen")
    return options


def main(arguments: Sequence[str]) -> int:
    """Show until q or Ctrl-C."""
    options = parser()
    given = options.read(arguments)
    server = server_of(options, given)
    if given.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        from barnabas.cli.look import state

        say("\n".join(render_any(server, state(server), None, 0.0)))
    else:
        _live(server, max(given.interval, 0.1))
    return 0


def _live(server: str, interval_s: float) -> None:
    from barnabas.cli.look import state
    from barnabas.cli.screen import EndedBySignal, paint, screen
    from barnabas.cli.view import View, keys

    view = View()
    before: State | None = None
    looked_s = time.monotonic()
    try:
        with screen() as pressed:
            while True:
                now = state(server)
                now_s = time.monotonic()
                lines = render_any(server, now, before, now_s - looked_s)
                before, looked_s = now, now_s
                while True:  # until the next look is due
                    size = shutil.get_terminal_size()
                    paint(view.frame(lines, size.columns, size.lines))
                    came = pressed(looked_s + interval_s - time.monotonic())
                    for key in keys(came):
                        if key == "quit":
                            return
                        view.press(key)
                    if not came or time.monotonic() >= looked_s + interval_s:
                        break
    except EndedBySignal as ended:
        ended.pass_on()
