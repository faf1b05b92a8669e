"""What stands in for the source on a PySpark before 4.2: one sentence when the format is used, and no harm before.

PySpark imports every `pyspark_*` package when any Python data source is looked up: an error there would break them all.
"""

from __future__ import annotations

from typing import NoReturn

from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.needs import NEEDS_PYSPARK

try:
    from pyspark.sql.datasource import DataSource
except ImportError as error:
    raise ImportError(NEEDS_PYSPARK) from error


class PySparkTooOld(BarnabasError):
    """This PySpark has no limits and no end for a streaming source, or something the source needs is missing."""


class TooOld(DataSource):
    """The name of the format, and why it cannot be used."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "barnabas"

    def schema(self) -> NoReturn:
        """The first thing Spark asks for.

        Raises:
            PySparkTooOld: always.
        """
        raise PySparkTooOld(_reason())


def _reason() -> str:
    try:
        import pyspark.sql.streaming.datasource  # noqa: F401 - since 4.2
    except ImportError:
        return NEEDS_PYSPARK
    try:
        import barnabas.spark_bridge.source  # noqa: F401
    except ImportError as error:
        return f"the format barnabas cannot be loaded: {error}"
    return NEEDS_PYSPARK
