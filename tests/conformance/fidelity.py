"""docs/FIDELITY.md: rows with both answers, in a part for one broker and a part for three."""

import dataclasses
import datetime as dt
import os
import platform
from pathlib import Path

from tests.conformance.cluster import targets as of_three
from tests.conformance.play import Outcome
from tests.conformance.scenario import ABSENT, Facts, Scenario
from tests.conformance.targets import OUR_SETTINGS, SETTINGS
from tests.oracle.kafka import VERSION

CELL_CHARS_MAX = 160
CELL_FACTS_MAX = 16
HEADING = "## Three brokers"
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
    """F, T, P, L, R, M, S, G, K, H, V, U; then by number."""
    return "FTPLRMSGKHVU".find(id_[0]), id_[1:].rjust(4, "0") if id_[1:].isdigit() else id_[1:-1].rjust(4, "0") + id_[
        -1
    ]


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


def _counted(rows: list[Row], seconds: float) -> list[str]:
    """When and where they were played, how many are the same; and the head of their table."""
    played = [row for row in rows if not row.scenario.ours]
    same = sum(row.verdict == "same" for row in played)
    alone = f", {len(rows) - len(played)} on Barnabas alone" if len(rows) > len(played) else ""
    return [
        f"{dt.datetime.now(dt.UTC).date().isoformat()}, {machine()}, {seconds:.0f} s: **{same} of {len(played)} the "
        f"same**, {len(played) - same} different for the reason given{alone}.",
        "",
        "| scenario | what is asked | Apache Kafka | Barnabas | |",
        "|---|---|---|---|---|",
    ]


def _told(settings: dict[str, str]) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in settings.items())


def of_one_broker(rows: list[Row], seconds: float) -> str:
    """The page's first part."""
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
        f"Settings of both: {_told(SETTINGS)}; of Barnabas",
        f"also {_told(OUR_SETTINGS)}: Apache Kafka walks the",
        "records of every batch, Barnabas by its default only where the header cannot tell, so that P06b and P06c are",
        "accepted there and found by the consumer. docs/SPEED.md shows what each costs.",
        "",
        "What needs followers is played on three brokers, further below, but for T05, and what hangs on the moment",
        "of a follower's fetch: it is made by hand on a core (`tests/broker/replica`, `tests/broker/node`). Nor is",
        "here what hangs on milliseconds, or on hundreds of",
        "members (`tests/broker/group/consumer`): members of KIP-848 that come to an empty group within a ms of",
        "each other begin it together (`barnabas.group.gather.ms`), each with its share in its first answer, where",
        "Apache Kafka gives all to the first and shares it out a second later; and a group of more than 100",
        "members is converted between the two protocols in steps, in which JoinGroup is told",
        "REBALANCE_IN_PROGRESS.",
        "",
        *_counted(rows, seconds),
        *map(_line, rows),
    ]
    return "\n".join(lines) + "\n"


def of_three_brokers(rows: list[Row], seconds: float) -> str:
    """The page's second part."""
    lines = [
        HEADING,
        "",
        "Written by `./dev oracle --brokers 3`. Three brokers of Apache Kafka, each a voter of the controllers'",
        "quorum, and three of Barnabas. A is the one that was the active controller at first; B and C are stopped,",
        "killed and paused, once for all scenarios of an act. Brokers are told by their letters: replicas in the order",
        "of the assignment (`replicas CAB`), those in sync by the alphabet.",
        "",
        f"Settings of both: {_told(of_three.SETTINGS)}.",
        "",
        *_counted(rows, seconds),
        *map(_line, rows),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    theirs, ours = cells(row)
    verdict = row.verdict + (f": {row.scenario.note}" if row.scenario.note and row.verdict != "same" else "")
    asks = row.scenario.asks.replace("|", "\\|")
    return f"| {row.scenario.id} | {asks} | {theirs} | {ours} | {verdict} |"


def write(brokers: int, rows: list[Row], seconds: float) -> None:
    """Write one part of the page; the other one stays as it is."""
    first, _, second = PAGE.read_text().partition(HEADING)
    if brokers == 1:
        first = of_one_broker(rows, seconds) + "\n"
    else:
        second = of_three_brokers(rows, seconds).removeprefix(HEADING)
    PAGE.write_text(f"{first.rstrip()}\n\n{HEADING}{second}")
