"""Two revisions in interleaved pairs: the statistics, and the place where another revision is measured.

Each run of a pair is a process of its own. Both revisions are measured by the benchmarks of this checkout, without
peers; only the package `barnabas` differs. A machine that slows down for a while meets both, and pairs begin with
one and the other in turn.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HARM = 0.03
"""A row is harmed when it is worse by more than this share."""
CONFIDENCE = 0.95


class NoSuchRevision(RuntimeError):
    """The revision is not in this repository, or this is none."""


@dataclass(slots=True, frozen=True)
class Interval:
    """The median of some ratios, and an interval that holds the true median with `confidence`."""

    median: float
    low: float
    high: float
    confidence: float


def interval(ratios: Sequence[float]) -> Interval:
    """By order statistics, so without an assumption about how the ratios are spread.

    Of n independent ratios, the k-th smallest and the k-th largest enclose the true median but for the chance that
    fewer than k fall on one side of it: 2 * sum of C(n, i) / 2^n over i < k. The narrowest pair that is as sure as
    CONFIDENCE is taken, or else (fewer than 6 ratios) the outermost, with what it can promise.

    Raises:
        ValueError: there is no ratio.
    """
    ordered, n = sorted(ratios), len(ratios)
    if not ordered:
        raise ValueError("no pairs were measured")
    sure = [1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n for k in range(1, (n + 1) // 2 + 1)]
    k = max((k for k, confidence in enumerate(sure, 1) if confidence >= CONFIDENCE), default=1)
    return Interval(statistics.median(ordered), ordered[k - 1], ordered[n - k], max(sure[k - 1], 0.0))


def verdict(found: Interval, better: str) -> str:
    """`harmed`, `unharmed`, `better`, or `unclear` where the noise is larger than the question, or the pairs too few.

    `found` is of the ratio this checkout / the other revision; `better` says whether "more" or "less" is good.
    """
    if found.confidence < CONFIDENCE:
        return "unclear"
    # The share by which this checkout is better (negative: worse), least and most, whichever way is good.
    least, most = (found.low - 1, found.high - 1) if better == "more" else (1 - found.high, 1 - found.low)
    if most < -HARM:
        return "harmed"
    if least > 0:
        return "better"
    return "unharmed" if least >= -HARM else "unclear"


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A work tree of this repository at `revision`, gone afterwards.

    Raises:
        NoSuchRevision: git does not know it.
    """
    git = ["git", "-C", str(ROOT)]
    asked = [*git, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    known = subprocess.run(asked, capture_output=True, text=True, check=False)
    if known.returncode != 0:
        raise NoSuchRevision(f"--against {revision}: no such revision here; name a commit, a branch or a tag")
    with tempfile.TemporaryDirectory(prefix="barnabas-against-") as directory:
        tree = Path(directory) / "tree"
        subprocess.run(
            [*git, "worktree", "add", "--quiet", "--detach", str(tree), known.stdout.strip()],
            check=True,
            capture_output=True,
        )
        try:
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=False, capture_output=True)


@contextmanager
def stage(package_of: Path) -> Iterator[Path]:
    """A directory in which `barnabas` is that of `package_of` and `tests` is ours; what starts there finds both."""
    with tempfile.TemporaryDirectory(prefix="barnabas-stage-") as directory:
        place = Path(directory)
        (place / "barnabas").symlink_to(package_of / "barnabas")
        (place / "tests").symlink_to(ROOT / "tests")
        yield place


def _run(place: Path, groups: str) -> dict[str, dict[str, Any]]:
    """One run of the groups; its rows by name.

    Raises:
        RuntimeError: the run failed: most likely these benchmarks do not fit the insides of that revision.
    """
    figures = place / "figures.json"
    command = [sys.executable, "-m", "tests.benchmarks", "--alone", "--only", groups, "--json", str(figures)]
    done = subprocess.run(
        command, cwd=place, env={**os.environ, "PYTHONPATH": str(place)}, capture_output=True, text=True, check=False
    )
    if not figures.exists():
        raise RuntimeError(f"the benchmarks failed on {(place / 'barnabas').resolve().parent}:\n{done.stderr[-2000:]}")
    rows = json.loads(figures.read_text())["rows"]
    figures.unlink()
    return {row["name"]: row for row in rows}


def measure(revision: str, groups: str, pairs: int) -> int:
    """Measure and print; 1 when a row is harmed.

    Raises:
        NoSuchRevision: git does not know the revision.
        RuntimeError: a run failed.
    """
    ratios: dict[str, list[float]] = {}
    kinds: dict[str, str] = {}
    with checkout(revision) as tree, stage(ROOT) as here, stage(tree) as there:
        for number in range(pairs):
            order = (here, there) if number % 2 == 0 else (there, here)
            runs = {place: _run(place, groups) for place in order}
            for name, row in runs[here].items():
                theirs = runs[there].get(name, {}).get("ours")
                if row["ours"] and theirs:
                    ratios.setdefault(name, []).append(row["ours"] / theirs)
                    kinds[name] = row["better"]
            print(f"pair {number + 1} of {pairs}", flush=True)
    return report(ratios, kinds, revision)


def report(ratios: dict[str, list[float]], kinds: dict[str, str], revision: str) -> int:
    """Print a line for each row and one at the end; 1 when a row is harmed."""
    print(f"\nthis checkout / {revision}: median of the pairs' ratios, its interval, and what follows")
    verdicts: dict[str, list[str]] = {}
    for name, each in ratios.items():
        found = interval(each)
        said = verdict(found, kinds[name])
        verdicts.setdefault(said, []).append(name)
        span = f"{found.low:.3f} to {found.high:.3f} ({found.confidence:.0%})"
        print(f"{name:<58} {found.median:.3f}  {span:<24} {kinds[name]} is better: {said}")
    harmed, unclear = verdicts.get("harmed", []), verdicts.get("unclear", [])
    print(f"\n{len(ratios)} rows, {len(harmed)} harmed by more than {HARM:.0%}, {len(unclear)} unclear", end="")
    print(": more pairs would tell" if unclear else "")
    return 1 if harmed else 0
