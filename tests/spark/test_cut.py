"""A log that lost its end, by a power failure or an election, and has grown anew: its offsets are others' now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas import Broker, Consumer
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.epochs import epoch_keys, newer, stored_epochs
from barnabas.spark_bridge.offsets import OffsetError, parse_stored
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.source import StreamReader
from tests.spark.test_kept import cut, put

pytestmark = pytest.mark.spark


@contextmanager
def reading(servers: str, **given: str) -> Iterator[StreamReader]:
    """A stream of tasks that fetch a record at a time."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": "t", "startingOffsets": "earliest", **given}
    small = {"prefetchRecords": "0", "kafka.max.partition.fetch.bytes": "100"}
    reader = StreamReader(read_options({**options, **small}, "stream"))
    yield reader
    reader.stop()


def numbers(columns: Any) -> list[tuple[int, int]]:
    """Offsets and values."""
    return list(zip(columns.column("offset").to_pylist(), map(int, columns.column("value").to_pylist()), strict=True))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_log_that_is_cut_and_grows_under_a_task(tmp_path: Path, fail: str, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(data_dir=tmp_path, topics={"t": 1}) as broker:
        put(broker, range(10))
        port, servers = broker.port, broker.bootstrap_servers
        with reading(servers, failOnDataLoss=fail) as reader:
            start = reader.initialOffset()
            (task,) = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
            rows = reader.read(task)
            found = [each for _ in range(3) for each in numbers(next(rows))]
            broker.close()
            cut(tmp_path, 2)
            with Broker(data_dir=tmp_path, port=port) as again:
                put(again, range(80, 90))  # from offset 2 on
                if fail == "true":
                    with pytest.raises(OffsetError, match=r"t-0: the log was cut at offset 2, .* from 2 to 9 are gone"):
                        list(rows)
                    return
                found += [each for columns in rows for each in numbers(columns)]
    reached = next(offset for offset, value in found if value >= 80)  # a record or two may have been under way
    assert reached >= 3
    assert found == [(at, at if at < reached else 78 + at) for at in range(10)]
    assert f"t-0: the log was cut at offset 2, and was read up to {reached}" in caplog.text


def planned(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def rows_of(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        each for task in reader.partitions(start, end) for columns in reader.read(task) for each in numbers(columns)
    ]


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_log_that_was_cut_and_has_outgrown_what_was_read_is_known(
    tmp_path: Path, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets look as if nothing had happened."""
    with Broker(data_dir=tmp_path, topics={"t": 1}) as broker:
        put(broker, range(10))
        port, servers = broker.port, broker.bootstrap_servers
        with reading(servers) as strict, reading(servers, failOnDataLoss="false") as lenient:
            ends = [planned(reader, reader.initialOffset()) for reader in (strict, lenient)]
            assert ends[0] == ends[1]
            broker.close()
            cut(tmp_path, 6)
            with Broker(data_dir=tmp_path, port=port) as again, reading(servers) as one:
                put(again, range(86, 100))
                with reading(servers, failOnDataLoss="false") as other:
                    if restarted:
                        strict, lenient = one, other
                    with pytest.raises(
                        OffsetError, match="t-0 was read up to 10 and was cut at 6, where other records"
                    ):
                        planned(strict, ends[0])
                    end = planned(lenient, ends[0])
                    assert "t-0 was read up to 10 and was cut at 6" in caplog.text
                    assert rows_of(lenient, ends[0], end) == [(at, 80 + at) for at in range(6, 20)]
                    caplog.clear()
                    put(again, range(100, 101))
                    assert rows_of(lenient, end, planned(lenient, end)) == [(20, 100)]
                    assert "cut" not in caplog.text, "said once"


def test_a_batch_that_is_run_again_says_that_its_records_are_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark has written down where it ends, and asks a new planner for its tasks first."""
    with Broker(data_dir=tmp_path, topics={"t": 1}) as broker:
        put(broker, range(10))
        port, servers = broker.port, broker.bootstrap_servers
        with reading(servers) as first:
            start = first.initialOffset()
            end = planned(first, start)
    cut(tmp_path, 6)
    with Broker(data_dir=tmp_path, port=port) as again:
        put(again, range(86, 100))
        told = "the last batch was planned up to 10, but t-0 was cut at 6"
        with reading(servers) as strict, pytest.raises(OffsetError, match=told):
            strict.partitions(start, end)
        with reading(servers, failOnDataLoss="false") as lenient:
            assert rows_of(lenient, start, end) == [(at, at if at < 6 else 80 + at) for at in range(10)]
        assert told in caplog.text


def test_a_broker_that_lost_nothing_is_asked_once_after_its_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[TopicPartition, int]] = []
    ask = Consumer.epoch_ends

    def noted(self: Consumer, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        asked.append(epochs)
        return ask(self, epochs)

    monkeypatch.setattr(Consumer, "epoch_ends", noted)
    where = TopicPartition("t", 0)
    with Broker(data_dir=tmp_path, topics={"t": 1}) as broker:
        put(broker, range(10))
        port, servers = broker.port, broker.bootstrap_servers
        with reading(servers) as reader:
            end = planned(reader, reader.initialOffset())
            assert planned(reader, end) == end
            assert not asked
            broker.close()
            with Broker(data_dir=tmp_path, port=port) as again:
                assert planned(reader, end) == end
                assert planned(reader, end) == end
                assert len(asked) == 1
                put(again, range(10, 12))
                later = planned(reader, end)
                assert parse_stored(later) == ({where: 12}, {})
                assert stored_epochs(later)[where] > stored_epochs(end)[where]
                assert len(asked) == 1


# ---- in the checkpoint ----------------------------------------------------------------------------------------------

places = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 12))


@given(st.dictionaries(places, st.integers(-1, 2)))
def test_epochs_are_read_as_they_were_written(epochs: dict[TopicPartition, int]) -> None:
    known = {where: epoch for where, epoch in epochs.items() if epoch >= 0}
    assert stored_epochs({"a": {"0": 5}, **{key: {} for key in epoch_keys(epochs)}}) == known


def test_what_epochs_look_like_and_what_else_is_passed_over() -> None:
    at = {TopicPartition("a", number): epoch for number, epoch in ((0, 3), (1, 3), (2, 3), (4, 3), (5, 0))}
    assert list(epoch_keys(at)) == ["$epochs/a/0-2:3,4:3,5:0"]
    for damaged in ("", "1", "1:", "-1:2", "1:-2", "x:1", "1:2:3", "9" * 99 + ":1"):
        assert stored_epochs({f"$epochs/a/{damaged},7:1": {}}) == {TopicPartition("a", 7): 1}
    assert len(stored_epochs({"$epochs/a/0-999999999:1": {}})) == 1 << 20


def test_an_epoch_that_is_not_known_any_more_says_nothing() -> None:
    first, second = TopicPartition("a", 0), TopicPartition("a", 1)
    assert newer({first: 3, second: 3}, {first: 4}) == {first: 3}
    assert newer({first: 3}, {first: -1}) == newer({first: 3}, {first: 3}) == {}
