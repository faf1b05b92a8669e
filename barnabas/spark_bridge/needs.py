"""What to say to somebody whose PySpark is absent or too old."""

from __future__ import annotations

from typing import Final

NEEDS_PYSPARK: Final = "the format barnabas needs PySpark 4.2 or later: pip install 'barnabas[spark]'"
NEEDS_PYARROW: Final = (
    "the format barnabas needs pyarrow and numpy beside PySpark: pip install 'barnabas[spark-worker]'"
)
