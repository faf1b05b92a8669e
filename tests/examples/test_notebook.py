"""Each notebook runs from its first cell to its last in a kernel of its own, and shows what it was kept with."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.examples.loading import EXAMPLES

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
nbformat = pytest.importorskip("nbformat")


SECONDS_MAX = 240
"""Of one cell, on a busy machine: a session of Spark starts in one."""


def shown(notebook: Any) -> list[Any]:
    """What stands below each cell, but for warnings: PySpark has some about the pandas that is installed."""
    return [[each for each in cell.get("outputs", ()) if each.get("name") != "stderr"] for cell in notebook.cells]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["readings", pytest.param("spark_orders", marks=pytest.mark.spark)])
async def test_the_notebook_shows_what_it_was_kept_with(name: str) -> None:
    if name == "spark_orders":
        pytest.importorskip("pyspark", minversion="4.2")
    kept = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    again = copy.deepcopy(kept)
    for cell in again.cells:
        cell.pop("outputs", None)
    await nbclient.NotebookClient(again, timeout=SECONDS_MAX).async_execute()  # `execute` would leave a loop of its own
    assert shown(again) == shown(kept)
