"""`barnabas explain wheel 450`: how the inside works, played on the real thing."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.speak import Options, fail, say


def main(arguments: Sequence[str]) -> int:
    """Print one explanation."""
    options = Options(prog="barnabas explain", description="Show how the inside works.")
    options.add_argument("what", choices=("wheel",), help="wheel: how a timer goes through the timing wheels")
    options.add_argument("delay_ms", type=int, help="the timer's delay in ms")
    options.add_argument("--start", metavar="MS", type=int, default=0, help="the wheel's time when it is added (0)")
    given = options.parse_args(arguments)
    from barnabas.broker.delayed.walk import render_wheel

    try:
        say(render_wheel(given.delay_ms, given.start).rstrip("\n"))
    except ValueError as error:
        return fail(str(error))
    return 0
