"""The notebook runs from its first cell to its last in a kernel of its own, and shows what it was kept with."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.examples.loading import EXAMPLES

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
nbformat = pytest.importorskip("nbformat")


def shown(notebook: Any) -> list[Any]:
    """What stands below each cell."""
    return [cell.get("outputs") for cell in notebook.cells]


@pytest.mark.slow
def test_the_notebook_shows_what_it_was_kept_with() -> None:
    kept = nbformat.read(EXAMPLES / "readings.ipynb", as_version=4)
    again = copy.deepcopy(kept)
    for cell in again.cells:
        cell.pop("outputs", None)
    nbclient.NotebookClient(again, timeout=60).execute()
    assert shown(again) == shown(kept)
