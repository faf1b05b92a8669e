"""`./dev bench`: every row of the benchmark, peers measured in the same run, written as JSON too.

./dev bench                     all rows but those against Apache Kafka
./dev bench --kafka             those as well (needs Java and Maven)
./dev bench --only small,bulk   some groups
./dev bench --only spark        the PySpark source against Spark's own connector (needs Java and Maven)
./dev bench --only mqtt         the MQTT bridge against the plain client (needs Mosquitto)
./dev bench --only cluster      several brokers, each a process (--kafka: against three Apache Kafka)
./dev bench --only steps        the longest step of the loop for the largest request of each API
./dev bench --compare FILE      beside an earlier run's JSON
./dev bench --against REV       this checkout and another revision in interleaved pairs, without peers (--only, --pairs)
./dev bench --against REV --turns   small requests alone, both revisions at once, in short turns (--pairs: starts)
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from pathlib import Path

from tests.benchmarks import pairs, turns
from tests.benchmarks.report import Row, compare, machine, page, save, show
from tests.benchmarks.servers import Peers, Server, kafka

GROUPS = ("bulk", "small", "groups", "inside", "wheel", "client")
AGAINST_KAFKA = ("bulk", "small", "groups")
PAIRS = 6
"""As many as an interval of 95 % needs."""
ON_REQUEST = ("spark", "mqtt", "steps", "cluster")
"""Groups that run only when `--only` names them: minutes of Spark against Spark's own connector (Java and Maven), of
the MQTT bridge (Mosquitto), a row for each API's largest request, and several brokers on few cores."""


def main() -> int:
    """Run the chosen groups; the exit code says whether every `must` that could be measured was reached."""
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka too")
    parser.add_argument("--only", default=",".join(GROUPS), help=f"comma list of {', '.join(GROUPS + ON_REQUEST)}")
    parser.add_argument("--json", type=Path, default=Path("out/bench.json"), help="where the figures go")
    parser.add_argument("--page", type=Path, help="write the figures as Markdown, too (docs/SPEED.md)")
    parser.add_argument("--compare", type=Path, help="an earlier run's JSON")
    parser.add_argument("--alone", action="store_true", help="measure no peers")
    parser.add_argument(
        "--against", metavar="REV", help="another revision, in interleaved pairs; 1 when a row is harmed"
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"how many pairs ({PAIRS}; fewer than 6 prove little)")
    parser.add_argument("--turns", action="store_true", help="with --against: small requests, both revisions at once")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="with --turns: of this checkout's brokers alone",
    )
    options = parser.parse_args()
    chosen = options.only.split(",")
    unknown = sorted(set(chosen) - {*GROUPS, *ON_REQUEST})
    if unknown:
        parser.error(f"unknown groups {', '.join(unknown)}; there are {', '.join(GROUPS + ON_REQUEST)}")

    if options.pairs < 1:
        parser.error(f"--pairs {options.pairs}: at least 1")
    if options.turns and not options.against:
        parser.error("--turns is of --against REV")
    if options.set and not options.turns:
        parser.error("--set is of --turns")
    if options.kafka and options.alone:
        parser.error("--kafka and --alone exclude each other")

    print(machine(), flush=True)
    if options.against:
        try:
            if options.turns:
                return turns.measure(options.against, options.pairs, options.set)
            return pairs.measure(options.against, options.only, options.pairs)
        except pairs.NoSuchRevision as error:
            parser.error(str(error))
    rows: list[Row] = []
    for group in chosen:
        print(f"\n{group}", flush=True)
        with contextlib.ExitStack() as stack:
            peer: Server | None = None
            if options.kafka and group in AGAINST_KAFKA:
                peer = stack.enter_context(kafka())
            peers = Peers(peer, others=not options.alone, several=options.kafka)
            for row in importlib.import_module(f"tests.benchmarks.rows_{group}").rows(peers):
                show(row)
                rows.append(row)
    save(rows, options.json)
    if options.page:
        options.page.write_text(page(rows, " ".join(["./dev bench", *sys.argv[1:]])))
    missed = [row.name for row in rows if row.verdict == "MISSED"]
    names = f": {', '.join(missed)}" if missed else ""
    print(f"\n{len(rows)} rows, {len(missed)} below their must{names}; {options.json}")
    if options.compare:
        compare(rows, options.compare)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
