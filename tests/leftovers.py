"""What a file of tests leaves behind fails it: threads, processes, open files and sockets, temporary files, and loggers
that tell less or more than before.

Files come in any order (`-n 2`, `--shuffle`), and whoever shares a process with what another left is red without being
at fault. What stands is looked at after each test, so that the one is named which left it; what is still there when the
file's fixtures are gone fails. What a fixture of the session brings up is its own. An event loop shows by its selector,
which is an open file. Linux tells all of it; elsewhere threads and temporary files are told alone.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest

MEANT_TO_STAY = ("barnabas-python-", "barnabas-java-")
"""The programs that the bridge keeps for the next session."""


class Leftovers:
    """What stands, and who was there when it came; pytest calls it as a plugin.

    Args:
        unit_of: what a test shares its fixtures with: its file, or a folder that is played in one piece.
        told_only: folders where what is left is told in the summary (XFAIL), and fails nothing.
        patience_seconds: for what ends by itself once it is told.
    """

    def __init__(self, unit_of: Callable[[str], str], told_only: tuple[str, ...], patience_seconds: float) -> None:
        with suppress(ImportError):
            importlib.import_module("uvloop").new_event_loop().close()  # its pipe for signals is the process' for good
        self._unit_of, self._told_only, self._patience_seconds = unit_of, told_only, patience_seconds
        self._unit, self._failed = "", False
        self._allowed: set[str] = set()
        self._came: dict[str, str] = {}
        outer = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # what tests wrote is kept there
        self._directory = tempfile.mkdtemp(prefix="barnabas-tests-", dir=outer)
        tempfile.tempdir = os.environ["TMPDIR"] = self._directory  # of this process and its children, nobody else's

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        unit = self._unit_of(item.nodeid)
        if unit != self._unit:
            self._unit, self._failed, self._allowed = unit, False, self._standing()
            self._came.clear()
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before = self._standing() if fixturedef.scope == "session" else None
        made = yield
        if before is not None:
            self._allowed |= self._standing() - before
        return made

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """A traceback holds what its test made, and the test is red already."""
        if call.excinfo is not None and not isinstance(call.excinfo.value, pytest.skip.Exception):
            self._failed = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        yield
        if isinstance(item, pytest.Function):
            item.funcargs.clear()  # a client that has no close ends when nobody holds it
        for one in self._standing() - self._allowed:
            self._came.setdefault(one, item.nodeid)
        if nextitem is None or self._unit_of(nextitem.nodeid) != self._unit:
            left = self._left()
            if left and self._unit.startswith(self._told_only):
                pytest.xfail("left behind: " + "; ".join(left))
            if left:
                pytest.fail("left behind:\n" + "\n".join(left), pytrace=False)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _left(self) -> list[str]:
        """What the unit leaves, in words; it is taken for given afterwards."""
        if self._failed:  # and what its traceback holds is not to be told of whoever comes next
            for last in ("last_type", "last_value", "last_traceback", "last_exc"):  # this one from Python 3.12 on
                setattr(sys, last, None)
            _collect()
            return []
        if not self._standing() - self._allowed:
            return []
        told = _collect()
        deadline = monotonic() + self._patience_seconds
        while (left := self._standing() - self._allowed) and monotonic() < deadline:
            threading.Event().wait(0.01)
        return told + [f"{_told(one)}: there since {self._came.get(one, 'the fixtures ended')}" for one in sorted(left)]

    def _standing(self) -> set[str]:
        """What there is now, in words that no two things share."""
        threads = {f"thread {thread.name} ({thread.native_id})" for thread in threading.enumerate()}
        files = {f"file {name}" for name in os.listdir(self._directory) if not name.startswith(MEANT_TO_STAY)}
        return {*threads, *files, *_children(), *_open_files(), *_loggers()}


def _loggers() -> Iterator[str]:
    """Those of this package that are not as they come: who counts lines in the same process would miss some."""
    for name, one in tuple(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] != "barnabas" or not isinstance(one, logging.Logger):
            continue
        if one.level or one.handlers or one.disabled or not one.propagate:
            told = f"level {logging.getLevelName(one.level)}, {len(one.handlers)} handlers"
            yield f"logger {name} ({told}{', disabled' if one.disabled else ''}{'' if one.propagate else ', its own'})"


def _children() -> Iterator[str]:
    with suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/children") as line:  # it may have ended meanwhile
                yield from (f"process {pid}" for pid in line.read().split())


def _open_files() -> Iterator[str]:
    with suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the listing's own is closed again
                yield f"{os.readlink(f'/proc/self/fd/{number}')} as {number}"


def _collect() -> list[str]:
    """What nobody holds any more and nobody closed."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    return [str(one.message) for one in told if issubclass(one.category, ResourceWarning)]


def _told(one: str) -> str:
    """With what is too dear to be looked at after each test."""
    if one.startswith("process "):
        with suppress(OSError), open(f"/proc/{one.removeprefix('process ')}/cmdline") as words:
            return f"{one} ({words.read(300).replace(chr(0), ' ').strip() or 'ended, and nobody asked how'})"
    return one
