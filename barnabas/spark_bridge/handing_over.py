"""Rows that a planner sends along with its plan: how PySpark is told that there are some.

PySpark takes rows from the wrapper it puts around a `SimpleDataSourceStreamReader`, known by its type, and asks that
type for little else: its queries report no latest offset, for instance. So a reader is of that type only from the end
of `partitions()` until its rows are asked for, which PySpark does at once. Where PySpark has no such wrapper any more
(it is its own affair), nothing is handed over, and tasks read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@lru_cache(maxsize=1)
def wrapper() -> type | None:
    """PySpark's own type for readers whose planner sends rows; None where there is none."""
    try:
        from pyspark.sql import datasource_internal
    except ImportError:
        return None
    found = getattr(datasource_internal, "_SimpleStreamReaderWrapper", None)
    return found if isinstance(found, type) and hasattr(found, "getCache") else None


@lru_cache(maxsize=1)
def _handing_over(kind: Any, wrapping: Any) -> type:
    def get_cache(self: Any, _start: dict[str, Any], _end: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """The rows of the batch that `partitions` has just planned; the reader is itself again."""
        self.__class__ = kind
        return iter(self.__dict__.pop("_handed"))

    return type(f"{kind.__name__}WithRows", (kind, wrapping), {"getCache": get_cache})


def hand_over(reader: Any, batches: Sequence[pa.RecordBatch]) -> None:
    """With the plan that this reader returns now, these rows go to Spark; `wrapper()` is there."""
    wrapping = wrapper()
    assert wrapping is not None
    reader._handed = batches
    kind: Any = type(reader)
    reader.__class__ = _handing_over(kind, wrapping)
