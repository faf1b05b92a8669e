"""The plot of `./dev demo --mqtt`: what the machine did while it was looked at, window by window."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from barnabas.demo.picture import FAINT, STYLE

_SHADES: Final = ("#e4572e", "#2e86ab", "#8f5fbf", "#f6c667", "#4f9d69", "#7b1e3b", "#5c5c74", "#c08497")


def draw(rows: Collection[Mapping[str, Any]], path: Path, caption: str) -> None:
    """Writes the picture as a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    first = min((row["begin"] for row in rows), default=None)
    with plt.rc_context(STYLE):
        figure, (above, middle, below, last) = plt.subplots(4, 1, figsize=(12, 9.6), dpi=130, sharex=True)
        figure.subplots_adjust(left=0.07, right=0.97, top=0.86, bottom=0.09, hspace=0.36)
        cores = sorted({row["metric"] for row in rows if row["metric"].startswith("cpu")})
        _lines(above, rows, first, cores, "Work of each core (%)", (0, 100))
        _lines(middle, rows, first, ["memory"], "Memory in use (%)", (0, 100))
        _lines(below, rows, first, ["network"], "Network (KB/s)", (0, None))
        _lines(last, rows, first, ["load"], "Load (processes that want to run, over a minute)", (0, None))
        last.set_xlabel("seconds, by windows of one second")
        figure.text(0.07, 0.94, "This machine, by way of MQTT", fontsize=22, fontweight="bold")
        figure.text(
            0.07, 0.9, "Its own figures: a device that publishes, a bridge, a topic, a PySpark window aggregation",
            fontsize=11, color="#5c5c74",
        )  # fmt: skip
        figure.text(0.97, 0.015, caption, ha="right", fontsize=8, color=FAINT)
        figure.savefig(path)
        plt.close(figure)


def _lines(
    axes: Any, rows: Collection[Mapping[str, Any]], first: Any, metrics: list[str], title: str, span: Any
) -> None:
    for index, metric in enumerate(metrics):
        mine = sorted((row for row in rows if row["metric"] == metric), key=lambda row: row["begin"])
        at = [(row["begin"] - first).total_seconds() for row in mine]
        shade = _SHADES[index % len(_SHADES)]
        axes.plot(at, [row["mean"] for row in mine], color=shade, lw=2, label=metric)
        axes.fill_between(at, [row["mean"] for row in mine], [row["most"] for row in mine], color=shade, alpha=0.15)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_ylim(*span)
    axes.grid(axis="y", color="#e6e3d8", lw=0.8)
    axes.set_axisbelow(True)
    if len(metrics) > 1:
        axes.legend(frameon=False, ncols=len(metrics), loc="upper right", fontsize=8.5)
