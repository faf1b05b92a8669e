"""The rows of the benchmark: a figure, its peer in the same run, their ratio, and the bars it is held against."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Row:
    """One figure.

    `better` says which way is good: "more" (the ratio ours/peer must reach the bars) or "less" (must not exceed them).
    Without a peer, the bars hold for `ours` itself. `notes` carries CPU shares and what limits the figure.
    """

    name: str
    unit: str
    ours: float | None
    peer_name: str = ""
    peer: float | None = None
    must: float | None = None
    aim: float | None = None
    better: str = "more"
    notes: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        if self.ours is None or not self.peer:
            return None
        return self.ours / self.peer

    @property
    def verdict(self) -> str:
        """`aim`, `must`, `MISSED`, or what kept it from being measured."""
        measured = self.ratio if self.peer_name else self.ours
        if measured is None:
            return "not measured"
        for word, bar in (("aim", self.aim), ("must", self.must)):
            if bar is not None and (measured >= bar if self.better == "more" else measured <= bar):
                return word
        return "MISSED" if self.must is not None else "-"


def machine() -> str:
    """One line that names the machine, for any figure that is quoted."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def show(row: Row) -> None:
    """Print one row, as soon as it is known."""
    bars = f"must {_figure(row.must)}, aim {_figure(row.aim)}" if row.must is not None else ""
    against = f"{row.peer_name} {_figure(row.peer)}, ratio {_figure(row.ratio)}" if row.peer_name else ""
    line = f"{row.name:<58} {_figure(row.ours):>10} {row.unit:<9} {against:<36} {bars:<22} {row.verdict}"
    print(line.rstrip(), flush=True)
    for note in row.notes:
        print(f"    {note}", flush=True)


def save(rows: list[Row], path: Path) -> None:
    """Write all rows as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows]
    path.write_text(json.dumps({"machine": machine(), "rows": entries}, indent=1) + "\n")


def page(rows: list[Row], command: str) -> str:
    """All rows as a page of Markdown that names the machine and the command."""
    lines = [
        "# Speed",
        "",
        f"Written by `{command}`; do not edit. Machine: {machine()}.",
        "",
        "Absolute figures swing with the machine; ratios are against a peer measured in the same run. The load",
        "generators are compiled (`tests/benchmarks/load.c`, librdkafka); a generator above 90 % of its core says",
        "nothing about the server's best, and its row says so. `must` and `aim` are the project's own bars.",
        "",
        "`barnabas.validate.records` is named where it matters: `full` walks every record of a batch, as Apache Kafka",
        "does and as docs/FIDELITY.md was compared; `header`, the default, looks at what a batch's header can tell.",
        "Rows that name neither are measured with the default. Peers are warm: Apache Kafka is loaded for ten seconds,",
        "its fetch path for twenty rounds, before the first that counts. Logs that are read are filled by bytes, all",
        "alike. Of asyncio streams' two forms (`writelines`, a write for each piece) the faster is the peer.",
        "",
        f"Server and load generator share the {os.cpu_count()} cores of the machine. A server of one thread, as ours",
        "and the mock are, leaves the generator a core; one of many threads, as Apache Kafka is, shares both with it",
        "and cannot show here what it does on more cores: its rows say what this machine gets out of each, no more.",
        "",
        "Bulk produce is librdkafka to 40 partitions, acks=all, into memory that has been written to before: a virtual",
        "machine whose host takes back free memory pays for the first write to a page, which is the host's cost and no",
        "server's. Bulk consume asks for 1 MB of each of 8 partitions in a fetch, as a consumer with Kafka's default",
        "settings does. The Python matters: one compiled without profile-guided optimisation (pyenv, by default)",
        "answers 10 to 15 % fewer small requests than a distribution's or the official image's.",
        "",
        "A broker of ours uses one core. Add one when its process is busy for most of it (`barnabas top`, the notes of",
        "the rows of one and two brokers) and the machine has cores left: partitions spread over brokers, and clients",
        "find them. Replication has its price, too: the rows of three brokers write each record three times.",
        "",
        "| what | ours | peer | ratio | must | aim | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        peer = f"{row.peer_name} {_figure(row.peer)}" if row.peer_name else ""
        ratio = _figure(row.ratio) if row.peer_name else ""
        bars = f"{_figure(row.must)} | {_figure(row.aim)}" if row.must is not None else " | "
        notes = "<br>".join([f"**{row.verdict}**" if row.verdict != "-" else "", *row.notes])
        lines.append(f"| {row.name} | {_figure(row.ours)} {row.unit} | {peer} | {ratio} | {bars} | {notes} |")
    return "\n".join(lines) + "\n"


def compare(rows: list[Row], earlier: Path) -> None:
    """Print each row's figure and ratio beside those of an earlier run."""
    before = {entry["name"]: entry for entry in json.loads(earlier.read_text())["rows"]}
    print(f"\nagainst {earlier}:")
    for row in rows:
        old = before.get(row.name)
        if old is None:
            print(f"{row.name:<58} new")
            continue
        change = f"{row.ours / old['ours']:.2f}x" if row.ours and old["ours"] else "-"
        ratios = f"ratio {_figure(old['ratio'])} -> {_figure(row.ratio)}" if row.peer_name else ""
        figures = f"{_figure(old['ours']):>10} -> {_figure(row.ours):>10} {row.unit:<9}"
        print(f"{row.name:<58} {figures} {change:<7} {ratios}".rstrip())
