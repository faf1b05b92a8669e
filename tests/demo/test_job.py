"""What the demo makes of a query that ended: what to do, where something can be done, else Spark's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from barnabas.demo.job import TooBusy, check_runs

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Query:
    def __init__(self, why: str) -> None:
        self.why, self.isActive = why, not why

    def exception(self) -> str:
        return self.why


def test_a_machine_too_busy_for_spark_is_told_of_in_one_sentence() -> None:
    check_runs(cast("StreamingQuery", Query("")))
    with pytest.raises(TooBusy, match="ten seconds to start, and this machine is too busy for that: end"):
        check_runs(cast("StreamingQuery", Query("Python worker failed to connect back.\n=== Streaming Query ===")))
    with pytest.raises(RuntimeError, match="the Spark job ended early: a broken pipe"):
        check_runs(cast("StreamingQuery", Query("a broken pipe")))
