"""What any read would refuse is refused by `load()`, not by a query that is found dead later."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.source import BarnabasDataSource

pytestmark = pytest.mark.spark

GIVEN = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "a"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": " "}, "subscribe names no topic"),
        ({"startingOffset": "earliest"}, "unknown option 'startingoffset'; did you mean 'startingOffsets'"),
        ({"includeHeaders": "yes"}, "includeHeaders: 'yes' is neither true nor false"),
        ({"kafka.fetch.max.bytes": "x"}, "fetch.max.bytes: 'x' is no int"),
        ({"kafka.bootstrap.servers": "h:0"}, "0 is no port"),
    ],
)
def test_what_no_read_takes_is_refused_at_once(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        BarnabasDataSource({**GIVEN, **options}).schema()


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest", "maxOffsetsPerTrigger": "5"},  # a stream's
        {"endingOffsets": "latest"},  # a batch's
        {"startingOffsets": "latest", "endingOffsets": "latest"},  # neither's: each has a reason of its own, told later
        {"kafka.group.id": "g"},
    ],
)
def test_what_one_of_them_takes_is_left_to_it_and_nothing_is_warned_of_twice(
    options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert BarnabasDataSource({**GIVEN, **options}).schema().startswith("key binary, value binary")
    assert not caplog.records
    if "kafka.group.id" in options:
        source: Any = BarnabasDataSource({**GIVEN, **options})
        from barnabas.spark_bridge.options import read_options

        read_options(source.options, "stream")
        assert "kafka.group.id has no effect" in caplog.text, "and the reader does warn"


def test_a_stream_with_a_wrong_option_fails_in_load(spark: Any) -> None:
    with pytest.raises(Exception, match="exactly one of the options subscribe, subscribePattern and assign") as caught:
        spark.readStream.format("barnabas").option("kafka.bootstrap.servers", "localhost:1").load()
    assert "Traceback" not in str(caught.value)
