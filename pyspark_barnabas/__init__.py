"""Lets Spark find the format `barnabas` by its name (PySpark imports top-level packages named `pyspark_*`)."""

try:
    from barnabas.spark_bridge.source import BarnabasDataSource as DefaultSource
except ImportError:
    from barnabas.spark_bridge.too_old import TooOld as DefaultSource  # type: ignore[assignment]

__all__ = ["DefaultSource"]
