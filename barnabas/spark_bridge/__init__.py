"""The PySpark side: `spark.readStream.format("barnabas")`, `spark.read.format("barnabas")`, and a tuned session.

The format is found by its name without registration wherever the distribution is installed; a program that imports this
package before its first session need not even stand in an activated environment (`this_python.py`). Options and schema
are those of Spark's own Kafka source and sink; `options.py` and `sink_options.py` list them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.spark_bridge.this_python import prefer_this_python

if TYPE_CHECKING:
    from barnabas.spark_bridge.tuned import session as session
    from barnabas.spark_bridge.tuned import tuned_conf as tuned_conf

__all__ = ["session", "tuned_conf"]

prefer_this_python()


def __getattr__(name: str) -> object:
    if name in __all__:
        # Spark's workers import this package: they need neither a session nor a Java.
        from barnabas.spark_bridge import tuned

        return getattr(tuned, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
