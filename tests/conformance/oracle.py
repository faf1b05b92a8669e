"""`./dev oracle`: play the scenarios against Apache Kafka 4.3.0 and against ours, and write docs/FIDELITY.md.

    python -m tests.conformance.oracle             # all of them, both brokers, the page is written
    python -m tests.conformance.oracle F02 P20     # these alone, printed, no page
    python -m tests.conformance.oracle --only kafka F02
    python -m tests.conformance.oracle --no-page   # all of them, judged; the page stays as it is
    python -m tests.conformance.oracle --brokers 3 # those of a cluster, on three brokers of each

Ends with 1 when Apache Kafka does not answer as recorded, or ours differs without an explanation; with 3 when there is
no Apache Kafka to ask.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import tests.conformance.cluster.scenarios
import tests.conformance.scenarios
from tests.conformance.cluster.acts import ANSWERS, CLUSTER
from tests.conformance.cluster.play import play as cluster_play
from tests.conformance.cluster.targets import ApacheKafkas, Barnabases
from tests.conformance.fidelity import PAGE, Row, in_order, write
from tests.conformance.play import Outcome, play
from tests.conformance.recordings import keep, record
from tests.conformance.scenario import ALL, Scenario
from tests.conformance.targets import ApacheKafka, Barnabas
from tests.oracle.kafka import KafkaUnavailable

assert tests.conformance.scenarios.__all__  # imported for the list it fills
assert tests.conformance.cluster.scenarios.__all__  # the same


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


def played(kafka: bool, brokers: int, ids: list[str], where: Path) -> dict[str, Outcome]:
    """Play these scenarios against a fresh broker, or cluster, of one make.

    Raises:
        KafkaUnavailable: there is no Apache Kafka to ask.
    """
    if not ids:
        return {}

    def say(text: str) -> None:
        print(text, flush=True)

    if brokers == 1:
        return play(ApacheKafka if kafka else Barnabas, where, [ALL[id_] for id_ in ids], say)
    several = ApacheKafkas(where) if kafka else Barnabases(where)
    return cluster_play(several, [CLUSTER[id_] for id_ in ids], say)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="./dev oracle", description=__doc__.split("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="scenarios to play; all of them without")
    parser.add_argument(
        "--brokers", type=int, choices=[1, 3], default=1, help="of each make; the scenarios of one, or of three"
    )
    parser.add_argument("--only", choices=["kafka", "ours"], help="play against this one alone")
    parser.add_argument("--keep", type=Path, help="keep the brokers' directories here")
    parser.add_argument("--no-page", action="store_true", help="leave docs/FIDELITY.md as it is")
    parser.add_argument(
        "--record", action="store_true", help="write what Apache Kafka answers to those whose answers are kept in files"
    )
    options = parser.parse_args()
    listed: Mapping[str, Scenario] = ALL if options.brokers == 1 else CLUSTER
    unknown = [id_ for id_ in options.ids if id_ not in listed]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(sorted(listed, key=in_order))}")
    chosen = [listed[id_] for id_ in sorted(options.ids or listed, key=in_order)]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="barnabas-oracle-") as scratch:
        where = options.keep or Path(scratch)
        # One of each side by side, for much of it is to wait; three of each would have two cores between them.
        with ThreadPoolExecutor(2 if options.brokers == 1 else 1) as pool:

            def asked(kafka: bool, ids: list[str]) -> Future[dict[str, Outcome]]:
                return pool.submit(played, kafka, options.brokers, ids, where / ("kafka" if kafka else "barnabas"))

            theirs_soon = asked(True, [each.id for each in chosen if not each.ours and options.only != "ours"])
            ours_soon = asked(False, [each.id for each in chosen if options.only != "kafka"])
            try:
                theirs = theirs_soon.result()
            except KafkaUnavailable as error:
                ours_soon.cancel()
                print(error, file=sys.stderr)
                return 3
            ours = ours_soon.result()
    if options.record:
        answers = {id_: outcome.facts for id_, outcome in theirs.items() if not outcome.failure}
        record(answers) if options.brokers == 1 else keep(ANSWERS, answers)
    rows = [Row(each, theirs.get(each.id), ours.get(each.id)) for each in chosen]
    for row in rows:
        for line in complain(row):
            print(line)
    wrong = sum(not row.settled for row in rows)
    if theirs and ours and not options.ids and not options.no_page:
        write(options.brokers, rows, time.monotonic() - began)
        print(f"wrote {PAGE.name}")
    print(f"{len(rows)} scenarios in {time.monotonic() - began:.0f} s, {wrong} to look at")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
