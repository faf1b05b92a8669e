"""The plot: a year of departures as a calendar of delays, the rain below it, and what the hour of the day does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

AIRPORTS: Final = ("EWR", "JFK", "LGA")
COLOURS: Final = {"EWR": "#e4572e", "JFK": "#2e86ab", "LGA": "#8f5fbf"}
INK, FAINT, PAPER = "#22223b", "#9a9aae", "#fbfaf7"
STYLE: Final[Any] = {
    "font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.edgecolor": FAINT,
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "figure.facecolor": PAPER,
    "axes.facecolor": PAPER, "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip
FIRST_HOUR, LAST_HOUR = 5, 23
DAYS: Final = 365
WET_INCHES: Final = 0.01
_FLIGHTS_MIN: Final = 30
"""A mean over fewer departures is noise and is not drawn."""


def draw(rows: Collection[Mapping[str, Any]], path: Path, caption: str) -> None:
    """Writes the picture as a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.gridspec import GridSpec

    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(14, 9.2), dpi=130)
        grid = GridSpec(
            3, 2, figure, height_ratios=(4.2, 0.9, 4.2), hspace=0.28, wspace=0.16, left=0.06, right=0.97, top=0.86,
            bottom=0.09,
        )  # fmt: skip
        calendar = figure.add_subplot(grid[0, :])
        _calendar(figure, calendar, rows)
        _rain(figure.add_subplot(grid[1, :], sharex=calendar), rows)
        _by_hour(figure.add_subplot(grid[2, 0]), rows)
        _by_weather(figure.add_subplot(grid[2, 1]), rows)
        figure.text(0.06, 0.945, "When New York waits", fontsize=24, fontweight="bold")
        figure.text(
            0.06, 0.905, "Departure delays of every flight from EWR, JFK and LGA in 2013, by hour and weather",
            fontsize=12, color="#5c5c74",
        )  # fmt: skip
        figure.text(0.97, 0.02, caption, ha="right", fontsize=8.5, color=FAINT)
        figure.savefig(path)
        plt.close(figure)


def _day(row: Mapping[str, Any]) -> int:
    # Local time: the scheduled hour is local, the key is in UTC; flights leave before midnight.
    moment = row["time_hour"]
    local = moment.timestamp() - (4 if 70 <= moment.timetuple().tm_yday <= 307 else 5) * 3600
    return int((local - 1356998400) // 86400)  # 2013-01-01


def _grid(rows: Collection[Mapping[str, Any]]) -> Any:
    import numpy as np

    delay = np.zeros((LAST_HOUR - FIRST_HOUR + 1, DAYS))
    count = np.zeros_like(delay)
    for row in rows:
        day, hour = _day(row), row["hour"]
        if row["departed"] and 0 <= day < DAYS and FIRST_HOUR <= hour <= LAST_HOUR:
            delay[hour - FIRST_HOUR, day] += row["delay"]
            count[hour - FIRST_HOUR, day] += row["departed"]
    return np.divide(delay, count, out=np.full_like(delay, np.nan), where=count > 0)


def _months() -> tuple[list[float], list[str]]:
    starts = [date(2013, month, 1).timetuple().tm_yday - 1 for month in range(1, 13)]
    return [start + 15 for start in starts], [date(2013, month, 1).strftime("%b") for month in range(1, 13)]


def _calendar(figure: Any, axes: Any, rows: Collection[Mapping[str, Any]]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("delay", ["#f1ede2", "#f6c667", "#e4572e", "#7b1e3b", "#2b0f2e"])
    shades.set_bad(PAPER)
    image = axes.imshow(
        _grid(rows), aspect="auto", origin="lower", cmap=shades, vmin=0, vmax=90, interpolation="nearest",
        extent=(0, DAYS, FIRST_HOUR - 0.5, LAST_HOUR + 0.5),
    )  # fmt: skip
    axes.set_yticks(range(6, 24, 3), [f"{hour}:00" for hour in range(6, 24, 3)])
    axes.set_xticks(*_months())
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title("Mean delay by day and hour of scheduled departure", loc="left", fontsize=11, fontweight="bold")
    bar = figure.colorbar(image, ax=axes, orientation="vertical", pad=0.01, fraction=0.025, extend="max")
    bar.set_label("minutes")
    bar.outline.set_visible(False)


def _rain(axes: Any, rows: Collection[Mapping[str, Any]]) -> None:
    import numpy as np

    rain = np.zeros(DAYS)
    for row in rows:
        day = _day(row)
        if row["precip"] and 0 <= day < DAYS:
            rain[day] += row["precip"] * 25.4 / len(AIRPORTS)
    axes.bar(np.arange(DAYS) + 0.5, rain, width=1.0, color="#2e86ab")
    axes.set_ylabel("rain\nmm a day", fontsize=8.5)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.spines["left"].set_visible(False)
    # The colour bar takes its width from the calendar above; give back the same here to keep the days aligned.
    above = axes.figure.axes[0].get_position()
    own = axes.get_position()
    axes.set_position((above.x0, own.y0, above.width, own.height))


def _by_hour(axes: Any, rows: Collection[Mapping[str, Any]]) -> None:
    ends = []
    for airport in AIRPORTS:
        line = means([row for row in rows if row["origin"] == airport], lambda row: row["hour"])
        hours = [hour for hour in sorted(line) if FIRST_HOUR <= hour <= LAST_HOUR]
        axes.plot(hours, [line[hour] for hour in hours], color=COLOURS[airport], lw=2.4)
        if hours:
            axes.plot(hours[-1], line[hours[-1]], "o", color=COLOURS[airport], ms=4)
            ends.append((line[hours[-1]], hours[-1], airport))
    height = -100.0
    for end, hour, airport in sorted(ends):
        height = max(end, height + 1.6)  # names never lie on each other
        axes.annotate(
            airport, (hour, height), xytext=(7, 0), textcoords="offset points", va="center", color=COLOURS[airport],
            fontweight="bold",
        )  # fmt: skip
    axes.set_title("Delays pile up through the day", loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel("scheduled hour of departure")
    axes.set_ylabel("mean delay, minutes")
    axes.set_xticks(range(6, 24, 3), [f"{hour}:00" for hour in range(6, 24, 3)])
    axes.set_xlim(FIRST_HOUR - 0.4, LAST_HOUR + 1.4)
    axes.grid(axis="y", color="#e6e3d8", lw=0.8)
    axes.set_axisbelow(True)


def _by_weather(axes: Any, rows: Collection[Mapping[str, Any]]) -> None:
    import numpy as np

    kinds: list[tuple[str, Callable[[Mapping[str, Any]], bool]]] = [
        ("dry", lambda row: not row["precip"]),
        ("rain", lambda row: (row["precip"] or 0) >= WET_INCHES),
        ("strong wind\nover 40 km/h", lambda row: (row["wind_speed"] or 0) * 1.609 > 40),
        ("fog\nunder 2 km", lambda row: row["visib"] is not None and row["visib"] * 1.609 < 2),
    ]
    places = np.arange(len(kinds))
    for index, airport in enumerate(AIRPORTS):
        heights = []
        for _, fits in kinds:
            chosen = [row for row in rows if row["origin"] == airport and row["temp"] is not None and fits(row)]
            heights.append(means(chosen, lambda row: 0).get(0, np.nan))
        bars = axes.bar(places + (index - 1) * 0.27, heights, width=0.25, color=COLOURS[airport], label=airport)
        axes.bar_label(bars, fmt="%.0f", fontsize=8.5, padding=2, color="#5c5c74")
    axes.set_xticks(places, [name for name, _ in kinds])
    axes.tick_params(axis="x", length=0)
    axes.set_title("What the weather of the hour adds", loc="left", fontsize=11, fontweight="bold")
    axes.set_ylabel("mean delay, minutes")
    axes.legend(frameon=False, ncols=3, loc="upper left")
    axes.margins(y=0.18)
    axes.grid(axis="y", color="#e6e3d8", lw=0.8)
    axes.set_axisbelow(True)


def means(rows: Collection[Mapping[str, Any]], group: Any) -> dict[Any, float]:
    """Mean delay (minutes) of each group of rows, over departures; groups of hardly any departure are left out."""
    delay: dict[Any, float] = {}
    count: dict[Any, int] = {}
    for row in rows:
        if row["departed"]:
            key = group(row)
            delay[key] = delay.get(key, 0.0) + row["delay"]
            count[key] = count.get(key, 0) + row["departed"]
    return {key: delay[key] / count[key] for key in delay if count[key] >= _FLIGHTS_MIN}
