"""What to say to somebody whose PySpark is absent or too old."""

from __future__ import annotations

from typing import Final

NEEDS_PYSPARK: Final = (
    "the format barnabas needs PySpark 4.2 or later: run pip install '.[spark]' in a checkout of Barnabas"
)
NEEDS_PYARROW: Final = (
    "the format barnabas needs pyarrow and numpy beside PySpark: "
    "run pip install '.[spark-worker]' in a checkout of Barnabas"
)
