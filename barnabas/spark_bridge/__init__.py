"""The PySpark side: `spark.readStream.format("barnabas")`, `spark.read.format("barnabas")`, and a tuned session.

The format is found by its name without registration wherever the distribution is installed. Options and schema are
those of Spark's own Kafka source; `options.py` lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.spark_bridge.tuned import session as session
    from barnabas.spark_bridge.tuned import tuned_conf as tuned_conf

__all__ = ["session", "tuned_conf"]


def __getattr__(name: str) -> object:
    if name in __all__:
        # Spark's workers import this package: they need neither a session nor a Java.
        from barnabas.spark_bridge import tuned

        return getattr(tuned, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
