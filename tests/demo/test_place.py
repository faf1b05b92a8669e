"""What a run of the demo leaves where, and what its screen shows on narrow terminals."""

from __future__ import annotations

import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.demo import __main__ as demo_main
from barnabas.demo.place import Place
from barnabas.demo.screen import Screen


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_without_a_picture_nothing_is_left(temporary: Path) -> None:
    place = Place(None)
    place.broker_dir.mkdir()
    place.close()
    assert not list(temporary.iterdir())


def test_a_ctrl_c_while_the_demo_is_loaded_leaves_nothing(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        assert list(temporary.iterdir()), "there is something to remove"
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_main, "_demo", interrupted)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["barnabas.demo"])
    assert demo_main.main() == 130
    assert not list(temporary.iterdir())


def test_the_picture_and_the_log_stay(temporary: Path) -> None:
    place = Place(None)
    place.broker_dir.mkdir()
    place.picture.touch()
    place.close()
    assert sorted(each.name for each in place.directory.iterdir()) == ["delays.png", "spark.log"]


def test_a_log_that_has_something_to_say_stays(temporary: Path) -> None:
    place = Place(None)
    place.keep_log()
    logging.error("Spark's own words")
    place.close()
    assert "Spark's own words" in place.log_file.read_text()


def test_a_given_directory_is_left_as_it_was_found(temporary: Path) -> None:
    given = temporary / "a b"
    given.mkdir()
    (given / "broker").touch()
    place = Place(given)
    place.broker_dir.mkdir()
    place.close()
    assert sorted(each.name for each in given.iterdir()) == ["broker", "spark.log"]


def test_what_is_made_is_its_owners_alone_whatever_the_umask_says(temporary: Path) -> None:
    before = os.umask(0o022)
    try:
        place = Place(temporary / "above" / "shown")
        place.picture.touch()
        place.broker_dir.mkdir()
        made = [place.directory.parent, place.directory, *place.directory.rglob("*")]
        assert [path.name for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
        place.close()
        assert os.umask(0o022) == 0o022
        given = temporary / "a file"
        given.touch()
        with pytest.raises(FileExistsError):
            Place(given)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_bar_fits_the_terminal_and_tells_how_far_it_is(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Screen()
    screen.live = True
    screen.progress(0.5, "2013-07-03  181,971 events   3.3 MB/s  Spark 31,050 behind")
    line = re.sub(r"\x1b\[2K|\r", "", capsys.readouterr().out)
    assert len(line) < columns
    assert " 50 %  2013-07-03" in line
    assert "\n" not in line
