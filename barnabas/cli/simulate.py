"""`barnabas simulate`: brokers and their clients in a world where everything goes wrong, seed by seed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.codes import HERE, REFUSED, WRONG
from barnabas.cli.options import Options
from barnabas.cli.speak import fail, say, say_json, some, table

if TYPE_CHECKING:
    from barnabas.simulator.run import Outcome
    from barnabas.simulator.search import Found

_SEEDS = 20


def parser() -> Options:
    """The options of `barnabas simulate`."""
    options = Options(
        prog="barnabas simulate",
        description="Search for a schedule of faults that breaks a promise: real brokers and real clients in "
        "one process, under virtual time, on a network and a disk that fail as their seed says.",
        examples=(
            "barnabas simulate --seeds 100",
            "barnabas simulate --replay simulate-17.json",
            "barnabas simulate --replay simulate-17.json --shrink",
        ),
    )
    options.add_argument(
        "--seeds",
        metavar="N",
        type=int,
        help=f"how many seeds are played ({_SEEDS}); with 200 and more it is a failure if something is never reached",
    )
    options.add_argument("--seed", metavar="S", type=int, help="the first of them (0)")
    options.add_argument("--brokers", metavar="N", type=int, choices=(1, 3), help="three (3), or one that stands alone")
    options.add_argument("--jobs", metavar="N", type=int, help="how many at a time, a process each (all processors)")
    options.add_argument("--replay", metavar="FILE", help="play what broke a promise once more, and nothing else")
    options.add_argument("--shrink", action="store_true", help="look for a smaller run that breaks the same promise")
    options.add_argument("--save", metavar="DIR", default=".", help="where a failure is written to (.)")
    options.add_argument("--json", action="store_true", help="the same for programs")
    return options


def main(arguments: Sequence[str]) -> int:
    """Play seeds, and tell what they came to; 1 if a promise was broken."""
    given = parser().read(arguments)
    if given.replay is not None and any(one is not None for one in (given.seeds, given.seed, given.brokers)):
        return fail("--replay plays one run; it goes with none of --seeds, --seed and --brokers", WRONG)
    if given.seeds is not None and given.seeds < 1:
        return fail(f"--seeds is {given.seeds}; play one at least", WRONG)
    if given.jobs is not None and given.jobs < 1:
        return fail(f"--jobs is {given.jobs}; somebody has to play", WRONG)
    directory = Path(given.save)
    if given.replay is None or given.shrink:
        directory.mkdir(parents=True, exist_ok=True)  # now: a failure that is found in an hour is to find it
        if not os.access(directory, os.W_OK | os.X_OK):
            return fail(f"--save {directory}: this user may not write there; name another directory", HERE)
    from barnabas.simulator.plan import SEVERAL
    from barnabas.simulator.search import Found, search

    found, began_s = Found(), time.monotonic()
    if given.replay is not None:
        from barnabas.simulator.run import play
        from barnabas.simulator.search import load

        outcome = play(load(Path(given.replay)))
        found.add(outcome)
        _tell_broken(outcome, given.replay, as_json=given.json)
        if given.shrink and outcome.broken is not None:
            _shrink(outcome, directory, as_json=given.json)
    else:
        first = given.seed or 0
        seeds, jobs = range(first, first + (given.seeds or _SEEDS)), given.jobs or os.cpu_count() or 1
        for outcome in search(seeds, jobs, given.brokers or SEVERAL):
            found.add(outcome)
            if outcome.broken is not None:
                from barnabas.simulator.search import save

                _tell_broken(outcome, str(save(outcome, directory)), as_json=given.json)
                if given.shrink:
                    _shrink(outcome, directory, as_json=given.json)
    _tell(found, time.monotonic() - began_s, as_json=given.json)
    return REFUSED if found.broken or found.missing else 0


def _tell_broken(outcome: Outcome, path: str, *, as_json: bool) -> None:
    if outcome.broken is None:
        return
    replay = f"barnabas simulate --replay {path}"
    if as_json:
        say_json(seed=outcome.plan.seed, broken=outcome.broken, trace=outcome.digest, replay=replay)
    else:
        say(f"seed {outcome.plan.seed}: {outcome.broken}\n  play it again: {replay}")


def _shrink(outcome: Outcome, directory: Path, *, as_json: bool) -> None:
    from barnabas.simulator.search import save
    from barnabas.simulator.shrink import shrink, size_of

    smallest = shrink(outcome)
    if smallest is outcome:
        if not as_json:
            say(f"  nothing smaller breaks it: {size_of(outcome.plan)}")
        return
    if not as_json:
        say(f"  {size_of(smallest.plan)} are enough, of {size_of(outcome.plan)}:")
    _tell_broken(smallest, str(save(smallest, directory, "-small")), as_json=as_json)


def _tell(found: Found, seconds: float, *, as_json: bool) -> None:
    rate, hours = found.seeds / max(seconds, 0.001), found.virtual_ms / 3_600_000
    if as_json:
        say_json(
            seeds=found.seeds,
            broken=len(found.broken),
            seeds_per_second=round(rate, 3),
            virtual_hours=round(hours, 3),
            acknowledged=found.acknowledged,
            facts_checked=found.events,
            reached=dict(sorted(found.reached.items())),
            missing=found.missing,
        )
        return
    say(
        f"{some(found.seeds, 'seed')}, {len(found.broken)} broken; {rate:.2f} seeds/s, {hours:.2f} virtual hours, "
        f"{some(found.acknowledged, 'acknowledged record')}, {some(found.events, 'fact')} checked"
    )
    rows = sorted((name, count) for name, count in found.reached.items() if count)
    say(table(("reached", "times"), rows))
    if found.missing:
        say(f"never reached: {', '.join(found.missing)}")
