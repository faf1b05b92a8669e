"""Lets Spark find the format `barnabas` by its name (PySpark imports top-level packages named `pyspark_*`)."""

from barnabas.spark_bridge.source import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
