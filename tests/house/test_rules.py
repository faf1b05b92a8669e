"""The house rules as tests: banned calls by floor, file and function lengths, no dead modules, the views at the top."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "barnabas"

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

# The core is told the time and never waits: these belong to the host and the client's shells alone.
BANNED = {
    "asyncio",
    "time",
    "socket",
    "select",
    "selectors",
    "threading",
    "multiprocessing",
    "concurrent",
    "random",
    "secrets",
    "signal",
}
CORE = (
    ["protocol", "client/core"]
    + [f"broker/{floor}" for floor in ("config", "log", "delayed", "replica", "cluster", "handlers", "node")]
    + ["broker/ports.py", "broker/context.py", "broker/metrics.py"]
)
BANNED_CALLS = {"uuid.uuid4", "uuid.uuid1", "os.urandom", "datetime.datetime.now", "datetime.now"}


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


@pytest.mark.parametrize("path", modules(*CORE), ids=relative)
def test_the_core_neither_waits_nor_asks_the_time(path: Path) -> None:
    tree = ast.parse(path.read_text())
    taken = {name.split(".")[0] for name in imports_of(tree)} & BANNED
    assert not taken, f"{path.name} imports {sorted(taken)}; below the host, time and chance are arguments"
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)} & BANNED_CALLS
    assert not calls, f"{path.name} calls {sorted(calls)}; ask the Entropy or WallClock port"
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)], (
        "no await in the core"
    )


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
        "barnabas.cli",
        "barnabas.testing",
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
        # Registries load their modules by name (lazy imports): a dotted or bare name in a string counts.
        todo += [
            other
            for other in everything
            if f'"{other}"' in text
            or (f'"{other.rsplit(".", 1)[-1]}"' in text and other.startswith(name.rsplit(".", 1)[0]))
        ]
        todo += [".".join(name.split(".")[:n]) for n in range(1, name.count(".") + 1)]
    dead = sorted(set(everything) - seen)
    assert not dead, f"nothing imports {dead}"


@pytest.mark.parametrize("room", ["broker", "protocol", "client", "spark_bridge"])
def test_the_rooms_are_seen_from_the_top(room: str) -> None:
    link = ROOT / room
    assert link.is_symlink()
    assert link.resolve() == PACKAGE / room


@pytest.mark.parametrize("folder", sorted({path.parent for path in (ROOT / "tests").rglob("*.py")}), ids=relative)
def test_every_tests_folder_is_a_package(folder: Path) -> None:
    assert (folder / "__init__.py").exists()


def test_the_project_speaks_of_itself_alone() -> None:
    """No path of a developer's machine, no unfinished marks."""
    for path in [*modules(), *ROOT.glob("docs/*.md"), ROOT / "README.md"]:
        text = path.read_text()
        for mark in ("TODO", "FIXME", "XXX", "/work/", "NotImplementedError"):
            assert mark not in text, f"{path.name} holds {mark}"
