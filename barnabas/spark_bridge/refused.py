"""A streaming read that cannot be: its options were refused, and the user is to hear why."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.process import plain_errors


class RefusedReader(DataSourceStreamReader):
    """Stands for a streaming read that cannot be, and says why when it is first used.

    Were it said by `streamReader`, PySpark would report an error of its own (an unbound `reader`) in its place.
    """

    def __init__(self, error: BarnabasError) -> None:
        self.error = error

    @plain_errors()
    def initialOffset(self) -> NoReturn:  # noqa: N802
        """Raises what was wrong with the options."""
        raise self.error

    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802
        """As `initialOffset`."""
        self.initialOffset()

    def latestOffset(self, start: dict[str, Any], limit_: ReadLimit) -> NoReturn:  # noqa: N802
        """As `initialOffset`."""
        self.initialOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        """As `initialOffset`."""
        self.initialOffset()

    def read(self, partition: InputPartition) -> NoReturn:
        """As `initialOffset`."""
        self.initialOffset()
