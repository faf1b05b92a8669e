"""The house rules as tests: banned calls by floor, file and function lengths, no dead modules, the views at the top."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.api import STEMS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "barnabas"

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

# The core is told the time and never waits: these belong to the host and the client's shells alone.
BANNED = {
    "_thread",
    "asyncio",
    "time",
    "socket",
    "ssl",
    "queue",
    "select",
    "selectors",
    "threading",
    "multiprocessing",
    "concurrent",
    "random",
    "secrets",
    "signal",
    "uvloop",
}
CORE = (
    ["protocol", "client/produce", "client/consume", "client/errors.py", "client/serializers.py"]
    + [f"net/{path.name}" for path in sorted((PACKAGE / "net").glob("*.py"))]
    + [f"broker/{floor}" for floor in ("config", "log", "delayed", "replica", "cluster", "group", "handlers", "node")]
    + [f"broker/{room}.py" for room in ("ports", "jobs", "context", "account", "metrics", "introduction")]
    + ["broker/memory_disk", "broker/peers"]
    + [
        f"mqtt/{stem}.py"
        for stem in ("filters", "templates", "mapping", "tables", "settings", "ledger", "reconnect", "explain")
    ]
)
BANNED_NAMES = {
    "uuid.uuid1",
    "uuid.uuid4",
    "os.urandom",
    "os.getrandom",
    "os.times",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "numpy.random",
}


def modules(*places: str) -> list[Path]:
    found = []
    for place in places or (".",):
        path = PACKAGE / place
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert found, places
    return found


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names_used(tree: ast.AST) -> Iterator[str]:
    """Dotted names as they are called at home, whatever the imports call them here."""
    homes: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            homes |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            homes |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            first, dot, rest = ast.unparse(node).partition(".")
            yield homes.get(first, first) + dot + rest


def faults_of_core(text: str) -> list[str]:
    """What a module below the host must not do."""
    tree = ast.parse(text)
    faults = [f"imports {name}" for name in imports_of(tree) if name.split(".")[0] in BANNED or name in BANNED_NAMES]
    faults += [f"uses {name}" for name in names_used(tree) if name in BANNED_NAMES]
    faults += ["awaits" for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
    return sorted(set(faults))


@pytest.mark.parametrize("path", modules(*CORE), ids=relative)
def test_the_core_neither_waits_nor_asks_the_time(path: Path) -> None:
    faults = faults_of_core(path.read_text())
    assert not faults, f"{path.name} {faults}; below the host, time and chance come through ports and arguments"


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio",
        "from time import monotonic",
        "import concurrent.futures",
        "def f():\n    import threading as t",
        "import os\nx = os.urandom(3)",
        "from os import urandom as noise\nx = noise(3)",
        "import uuid as u\nx = u.uuid4",
        "import datetime as dt\nx = dt.datetime.now()",
        "from datetime import datetime\nx = datetime.now()",
        "import numpy as np\nx = np.random.default_rng()",
        "async def f(): ...",
    ],
)
def test_the_rule_of_the_core_bites(text: str) -> None:
    assert faults_of_core(text)


CHANGES_IN_PLACE = {"append", "extend", "insert", "pop", "remove", "clear", "update", "sort", "assign"}


def changes_of_a_log(text: str) -> list[str]:
    """Where a log's state is written: an attribute assigned or deleted, or a method called that changes it in place."""
    faults = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and is_log(node.value):
            faults.append(ast.unparse(node))
        inside = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            inside = node.value
        elif inside is not None and node.func.attr not in CHANGES_IN_PLACE:  # type: ignore[attr-defined]
            inside = None
        if isinstance(inside, ast.Attribute) and is_log(inside.value):
            faults.append(ast.unparse(node))
    return faults


def is_log(node: ast.expr) -> bool:
    """Whether a name says that a log is meant: `log`, `self.log`, `self._log`, `partition.log`."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lstrip("_") == "log"


@pytest.mark.parametrize("path", [path for path in modules("broker") if path.name != "log.py"], ids=relative)
def test_the_state_of_a_log_is_its_own(path: Path) -> None:
    faults = changes_of_a_log(path.read_text())
    assert not faults, f"{path.name} writes {faults}; rooms give back a Change, and Log.adopt takes it over"


@pytest.mark.parametrize(
    "text",
    [
        "log.recovery_point = 3",
        "log.recovery_point += 3",
        "self._log.failed, x = error, 1",
        "partition.log.log_end_offset: int = 3",
        "del self.log.failed",
        "log.snapshots.remove(3)",
        "log.bases[0] = 3",
        "del log.segments[1:]",
        "log.epochs.assign(1, 2)",
    ],
)
def test_the_rule_of_the_log_bites(text: str) -> None:
    assert changes_of_a_log(text)


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_files_and_functions_stay_readable(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    tree = ast.parse(text)
    excused = "Long because" in (ast.get_docstring(tree) or "")
    assert lines <= FILE_LINES_MAX or excused, f"{lines} lines: split it, or say 'Long because ...' in its docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def test_no_module_is_dead() -> None:
    """Every module is reachable from an entry: a public name, a command, or Spark's lookup by name."""
    everything = {name_of(path): path for path in modules()}
    entries = [
        "barnabas",
        "barnabas.aio",
        "barnabas.__main__",
        "barnabas.cli",
        "barnabas.testing",
        "barnabas.spark_bridge.values",
        "barnabas.demo.__main__",
        "barnabas.broker.__main__",
    ]
    sources = [PACKAGE.parent / "pyspark_barnabas" / "__init__.py"]
    seen: set[str] = set()
    todo = [entry for entry in entries if entry in everything]
    for source in sources:
        todo += [name for name in imports_of(ast.parse(source.read_text())) if name in everything]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        text = everything[name].read_text()
        todo += [found for found in imports_of(ast.parse(text)) if found in everything]
        # Modules loaded by name: a dotted name in a string counts, and a bare one where import_module is called; where
        # that is called with an API's stem, the module of each API in that room (or in the one that is named there).
        by_name = "import_module(" in text
        if by_name and "STEMS[" in text:
            package = name if everything[name].stem == "__init__" else name.rpartition(".")[0]
            rooms = (package, *re.findall(r'import_module\(f"([\w.]+)\.\{', text))
            todo += [f"{room}.{stem}" for room in rooms for stem in STEMS.values() if f"{room}.{stem}" in everything]
        todo += [
            other
            for other in everything
            if f'"{other}"' in text or (by_name and f'"{other.rsplit(".", 1)[-1]}"' in text)
        ]
        todo += [".".join(name.split(".")[:n]) for n in range(1, name.count(".") + 1)]
    dead = sorted(set(everything) - seen)
    assert not dead, f"nothing imports {dead}"


def test_the_linter_sees_every_file_once() -> None:
    """An exclusion by a bare name would take `barnabas/broker` out together with the link `broker`."""
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "--no-cache", "."]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    rooms = ("barnabas", "pyspark_barnabas", "tests", "examples")
    mine = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    assert sorted(path for path in shown if path.endswith(".py")) == sorted(map(str, mine))


@pytest.mark.parametrize("room", ["broker", "protocol", "client", "spark_bridge", "mqtt"])
def test_the_rooms_are_seen_from_the_top(room: str) -> None:
    link = ROOT / room
    assert link.is_symlink()
    assert link.resolve() == PACKAGE / room


@pytest.mark.parametrize("folder", sorted({path.parent for path in (ROOT / "tests").rglob("*.py")}), ids=relative)
def test_every_tests_folder_is_a_package(folder: Path) -> None:
    assert (folder / "__init__.py").exists()


def test_the_project_speaks_of_itself_alone() -> None:
    """No path of a developer's machine, no unfinished marks."""
    for path in [*modules(), *ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("examples/*.*")]:
        text = path.read_text()
        for mark in ("TODO", "FIXME", "XXX", str(ROOT), "NotImplementedError"):
            assert mark not in text, f"{path.name} holds {mark}"
