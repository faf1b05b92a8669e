"""`./dev oracle`: play the scenarios against Apache Kafka 4.3.0 and against ours, and write docs/FIDELITY.md.

    python -m tests.conformance.oracle             # all of them, both brokers, the page is written
    python -m tests.conformance.oracle F02 P20     # these alone, printed, no page
    python -m tests.conformance.oracle --only kafka F02
    python -m tests.conformance.oracle --no-page   # all of them, judged; the page stays as it is

Ends with 1 when Apache Kafka does not answer as recorded, or ours differs without an explanation; with 3 when there is
no Apache Kafka to ask.
"""

import argparse
import dataclasses
import datetime as dt
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import tests.conformance.scenarios
from tests.conformance.play import Outcome, play
from tests.conformance.recordings import record
from tests.conformance.scenario import ABSENT, ALL, Facts, Scenario
from tests.conformance.targets import OUR_SETTINGS, SETTINGS, ApacheKafka, Barnabas, Target
from tests.oracle.kafka import VERSION, KafkaUnavailable

assert tests.conformance.scenarios.__all__  # imported for the list it fills

CELL_CHARS_MAX = 160
CELL_FACTS_MAX = 16
PAGE = Path(__file__).parents[2] / "docs" / "FIDELITY.md"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One scenario and both answers."""

    scenario: Scenario
    theirs: Outcome | None
    ours: Outcome | None

    @property
    def verdict(self) -> str:
        """`same`, `different`, `ours alone`, or what is missing."""
        if self.ours is None:
            return "not played"
        if self.scenario.ours:
            return "ours alone, as documented" if self.settled else "wrong"
        if self.theirs is None:
            return "as recorded" if self.settled else "different"
        if self.ours.failure or self.theirs.failure:
            return "failed"
        return "same" if self.ours.facts == self.theirs.facts else "different"

    @property
    def settled(self) -> bool:
        """Whether both answered as they are expected to."""
        kafka = self.theirs is None or not self.theirs.differs(self.scenario.expected)
        return kafka and (self.ours is None or not self.ours.differs(self.scenario.ours_expected))


def in_order(id_: str) -> tuple[int, str]:
    """F, T, P, L, M, S, G, K, H, V; then by number."""
    return "FTPLMSGKHV".find(id_[0]), id_[1:].rjust(4, "0") if id_[1:].isdigit() else id_[1:-1].rjust(4, "0") + id_[-1]


def words(facts: Facts, only: list[str] | None = None) -> str:
    """Facts for a cell of the table; a long answer that is the same on both sides is cut."""
    parts = [f"{name}: {value}" for name, value in facts.items() if only is None or name in only]
    if only is None:
        parts = [part if len(part) <= CELL_CHARS_MAX else part[:CELL_CHARS_MAX] + " ..." for part in parts]
    if len(parts) > CELL_FACTS_MAX:
        parts = [*parts[:CELL_FACTS_MAX], f"and {len(parts) - CELL_FACTS_MAX} more"]
    return "<br>".join(part.replace("|", "\\|") for part in parts)


def cells(row: Row) -> tuple[str, str]:
    """Kafka's answer and ours; where they agree, ours is said in one word, else only the facts that differ."""
    differ = [] if row.ours is None or row.theirs is None else row.ours.differs(row.theirs.facts)
    facts = {} if row.theirs is None else row.theirs.facts
    # What differs comes first, so that it is not among what a long cell leaves out.
    first = {name: facts[name] for name in differ if name in facts} | facts
    theirs = "not asked" if row.theirs is None else row.theirs.failure.split("\n")[0] or words(first)
    if row.ours is None:
        return theirs, "not played"
    if row.ours.failure:
        return theirs, row.ours.failure.split("\n")[0]
    if row.theirs is None:
        return theirs, words(row.ours.facts)
    return theirs, words({name: row.ours.facts.get(name, ABSENT) for name in differ}, differ) if differ else "the same"


def machine() -> str:
    """Where this ran."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}"


def page(rows: list[Row], seconds: float) -> str:
    """docs/FIDELITY.md."""
    played = [row for row in rows if not row.scenario.ours]
    same = sum(row.verdict == "same" for row in played)
    today = dt.datetime.now(dt.UTC).date().isoformat()
    lines = [
        "# Fidelity",
        "",
        "Written by `./dev oracle`; do not edit. Each scenario is played by the same raw client over TCP against",
        f"Apache Kafka {VERSION} and against Barnabas, each a fresh process with the same settings; the answers are",
        "compared: errors, offsets, the bytes of the records, and times (5 ms early to 200 ms late counts as the time",
        "that was asked, 100 early where the broker's clock began before ours; a scenario that missed only a time is",
        "played alone, up to five times, and from the second on 400 and 800 ms late count). Random ids are compared by",
        "their shape. What needs metrics runs on Barnabas alone, against what is documented of Apache Kafka. An answer",
        f"that is the same on both sides is cut after {CELL_CHARS_MAX} characters here, and {CELL_FACTS_MAX} of a",
        "scenario are shown; all are compared to their end.",
        "",
        "Settings of both: " + ", ".join(f"`{key}={value}`" for key, value in SETTINGS.items()) + "; of Barnabas",
        "also " + ", ".join(f"`{key}={value}`" for key, value in OUR_SETTINGS.items()) + ": Apache Kafka walks the",
        "records of every batch, Barnabas by its default only where the header cannot tell, so that P06b and P06c are",
        "accepted there and found by the consumer. docs/SPEED.md shows what each costs.",
        "",
        "Not here: T05 and all else that needs followers is played on a core, with the followers' fetches made by hand",
        "(`tests/broker/replica`, `tests/broker/node`). Nor is what hangs on milliseconds, or on hundreds of",
        "members (`tests/broker/group/consumer`): members of KIP-848 that come to an empty group within a ms of",
        "each other begin it together (`barnabas.group.gather.ms`), each with its share in its first answer, where",
        "Apache Kafka gives all to the first and shares it out a second later; and a group of more than 100",
        "members is converted between the two protocols in steps, in which JoinGroup is told",
        "REBALANCE_IN_PROGRESS.",
        "",
        f"{today}, {machine()}, {seconds:.0f} s: **{same} of {len(played)} the same**, "
        f"{len(played) - same} different for the reason given, {len(rows) - len(played)} on Barnabas alone.",
        "",
        "| scenario | what is asked | Apache Kafka | Barnabas | |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        theirs, ours = cells(row)
        verdict = row.verdict + (f": {row.scenario.note}" if row.scenario.note and row.verdict != "same" else "")
        asks = row.scenario.asks.replace("|", "\\|")
        lines.append(f"| {row.scenario.id} | {asks} | {theirs} | {ours} | {verdict} |")
    return "\n".join(lines) + "\n"


def complain(row: Row) -> list[str]:
    """What is wrong with this row: a line each."""
    lines = []
    asked = (
        ("Apache Kafka", row.theirs, row.scenario.expected),
        ("Barnabas", row.ours, row.scenario.ours_expected),
    )
    for name, outcome, expected in asked:
        if outcome is None:
            continue
        if outcome.failure:
            lines.append(f"{row.scenario.id} {name}: {outcome.failure}")
            continue
        lines += [
            f"{row.scenario.id} {name}, {fact}: {outcome.facts.get(fact)}; expected: {expected.get(fact)}"
            for fact in outcome.differs(expected)
        ]
    return lines


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="./dev oracle", description=__doc__.split("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="scenarios to play; all of them without")
    parser.add_argument("--only", choices=["kafka", "ours"], help="play against this one alone")
    parser.add_argument("--keep", type=Path, help="keep the brokers' directories here")
    parser.add_argument("--no-page", action="store_true", help="leave docs/FIDELITY.md as it is")
    parser.add_argument(
        "--record", action="store_true", help="write what Apache Kafka answers to those whose answers are kept in files"
    )
    options = parser.parse_args()
    unknown = [id_ for id_ in options.ids if id_ not in ALL]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(sorted(ALL, key=in_order))}")
    chosen = [ALL[id_] for id_ in sorted(options.ids or ALL, key=in_order)]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="barnabas-oracle-") as scratch:
        where = options.keep or Path(scratch)
        theirs: dict[str, Outcome] = {}
        ours: dict[str, Outcome] = {}

        def run(target: Target, scenarios: list[Scenario]) -> dict[str, Outcome]:
            return play(target, scenarios, lambda text: print(text, flush=True))

        try:
            if options.only != "ours":
                theirs = run(ApacheKafka(where / "kafka"), [each for each in chosen if not each.ours])
        except KafkaUnavailable as error:
            print(error, file=sys.stderr)
            return 3
        if options.only != "kafka":
            ours = run(Barnabas(where / "barnabas"), chosen)
    if options.record:
        record({id_: outcome.facts for id_, outcome in theirs.items() if not outcome.failure})
    rows = [Row(each, theirs.get(each.id), ours.get(each.id)) for each in chosen]
    for row in rows:
        for line in complain(row):
            print(line)
    wrong = sum(not row.settled for row in rows)
    if theirs and ours and not options.ids and not options.no_page:
        PAGE.write_text(page(rows, time.monotonic() - began))
        print(f"wrote {PAGE.name}")
    print(f"{len(rows)} scenarios in {time.monotonic() - began:.0f} s, {wrong} to look at")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
