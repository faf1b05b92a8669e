"""`barnabas explain purgatory`: how the inside works, played on the real thing."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from barnabas.cli.codes import WRONG
from barnabas.cli.options import Options
from barnabas.cli.speak import fail, say

WALKS: Final = {
    "purgatory": "one produce, one consumer, three followers: who waits where, step by step",
    "fetch": "a fetch's decision: answer now, or wait; and what ends the wait",
    "produce": "acks=all: every partition must be replicated; the timeout; too few in sync",
    "wheel": "how timers go through the timing wheels (give their delays in ms)",
    "send": "a record's way through the producer",
    "purge": "what completed operations leave behind, and when it is swept",
}
_WHEEL_MS: Final = (450,)


def parser() -> Options:
    """The options of `barnabas explain`."""
    walks = "; ".join(f"{name}: {what}" for name, what in WALKS.items())
    options = Options(
        prog="barnabas explain",
        description="Show how the inside works.",
        examples=("barnabas explain purgatory", "barnabas explain wheel 450 8000"),
    )
    options.add_argument("walk", choices=tuple(WALKS), metavar="WALK", help=walks)
    options.add_argument("delay_ms", nargs="*", default=[], type=int, help="wheel: the timers' delays in ms (450)")
    options.add_argument("--tick", metavar="MS", type=int, help="wheel: the finest wheel's tick (1)")
    options.add_argument("--slots", metavar="N", type=int, help="wheel: buckets of each wheel (20)")
    options.add_argument("--start", metavar="MS", type=int, help="wheel: its time when the timers are added (0)")
    options.add_argument("--json", action="store_true", help="the same for programs")
    return options


def main(arguments: Sequence[str]) -> int:
    """Play one walk, and print it."""
    given = parser().read(arguments)
    timers = {"start_ms": given.start, "tick_ms": given.tick, "wheel_size": given.slots}
    timers = {name: value for name, value in timers.items() if value is not None}
    if given.walk != "wheel" and (given.delay_ms or timers):
        return fail(
            f"delays, --tick, --slots and --start are the wheel's: barnabas explain {given.walk} has none", WRONG
        )
    walk = import_module(f"barnabas.explain.{given.walk}").walk
    logger, silent = logging.getLogger("barnabas"), logging.NullHandler()
    logger.addHandler(silent)  # faults that are played are no news
    try:
        told = walk(given.delay_ms or _WHEEL_MS, **timers) if given.walk == "wheel" else walk()
    except ValueError as error:
        return fail(str(error), WRONG)
    finally:
        logger.removeHandler(silent)
    if given.json:
        say(json.dumps(told.as_json(), indent=2))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        say(told.as_text(colour=colour).rstrip("\n"))
    return 0
