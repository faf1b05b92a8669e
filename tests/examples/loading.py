"""Examples as modules, for tests that run them in their own process, and what their heads promise."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Any:
    """The module of an example, fresh."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # pydantic looks up annotations there
    spec.loader.exec_module(module)
    return module


def promised(head: str | None) -> str:
    """What stands under "Prints:" in a program's docstring."""
    _, found, text = (head or "").partition("Prints:\n")
    assert found, "it does not say what it prints"
    return textwrap.dedent(text)
