"""How to behave in a process that Spark started: no traceback with an error on purpose, one voice about the brokers.

Spark sends whatever ends a planner or a task to the driver as a Python traceback, forty lines around one sentence, and
ends the process. `SPARK_HIDE_TRACEBACK` is its own switch for that, and is read when the error is sent. The setting
`spark.sql.execution.pyspark.udf.hideTraceback.enabled` sets it for all that runs in Python, errors by accident, too.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.protocol.errors import BarnabasError


def started_by_spark() -> bool:
    """Whether this process is one of Spark's planners or workers."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors that were raised on purpose reach the user as their sentence alone; others keep their traceback."""
    try:
        yield
    except BarnabasError:
        if started_by_spark():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


@contextmanager
def without_warnings() -> Iterator[None]:
    """What the bridge would warn of is said elsewhere."""
    logger = logging.getLogger(__package__)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def quiet_client() -> None:
    """What the client would tell of brokers that are away, the bridge tells (`Patience`), once."""
    logger = logging.getLogger("barnabas.net")
    if started_by_spark() and logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
