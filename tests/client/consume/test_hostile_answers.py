"""Answers that lie about sizes and counts: what they cost is bounded, what is wrong is named, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.consume import taken
from barnabas.client.consume.taken import decode_taken
from barnabas.net.config import ClientConfig
from barnabas.net.errors import Disconnected, MalformedAnswer
from barnabas.net.metadata import Metadata
from barnabas.net.network import NetworkClient
from barnabas.protocol import batch as wire
from barnabas.protocol.compression import Codec, compress, decompress
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.primitives import varint
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.consume.test_fetcher import P0, P1, World, answer, asked, batch, data, offsets_answer, values
from tests.client.world import World as Brokers


def bomb(count: int, *, base_offset: int = 0, codec: int = Codec.ZSTD, **fields: Any) -> bytes:
    """A batch of `count` records with an empty key and no value: a few bytes that become many."""
    body = b"".join(
        (lambda record: varint(len(record)) + record)(b"\0\0" + varint(index) + b"\0\1\0") for index in range(count)
    )
    area = bytes(compress(codec, body))
    header = wire.BatchHeader(base_offset, 0, 0, 2, 0, int(codec), count - 1, 7, 7, -1, -1, -1, count)
    header = header._replace(length=len(area) + wire.LENGTH_MIN, **fields)
    raw = bytearray(wire.HEADER_SIZE) + area
    wire.write_header(raw, 0, header)
    wire.set_crc(raw, 0, len(raw))
    return bytes(raw)


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The compressed sizes of what is decompressed."""
    sizes: list[int] = []

    def counting(codec: int, area: Any) -> Any:
        sizes.append(len(area))
        return decompress(codec, area)

    monkeypatch.setattr("barnabas.client.consume.batches.decompress", counting)
    return sizes


def test_one_record_of_a_batch_of_many_costs_one(unpacked: list[int]) -> None:
    made: list[bytes] = []
    world = World(**{"key.deserializer": made.append})
    world.at(0, 0).answer(answer(data(0, bomb(20_000) + bomb(20_000, base_offset=20_000)), data(1)))
    assert [record.offset for record in world.fetcher.take_records(1)] == [0]
    assert len(made) == 1
    assert [record.offset for record in world.fetcher.take_records(3)] == [1, 2, 3]
    assert len(made) == 4
    assert len(unpacked) == 1


def test_all_records_come_in_the_end_whatever_is_asked_for_at_once() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 7) + bomb(10, base_offset=7) + batch(17, 5)), data(1)))
    found: list[int] = []
    while share := world.fetcher.take_records(4):
        assert len(share) <= 4
        found += [record.offset for record in share]
    assert found == list(range(22))
    assert asked(world.drive()[0]) == {0: 22}


def test_one_batch_is_unpacked_at_a_time_whatever_is_paused_meanwhile(unpacked: list[int]) -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, bomb(100)), data(1, bomb(100))))
    assert [record.offset for record in world.fetcher.take_records(60)] == list(range(60))
    world.fetcher.position_of(P0).paused = True
    assert [record.offset for record in world.fetcher.take_records(60)] == list(range(60))
    assert world.fetcher.position_of(P0).reader is None
    world.fetcher.position_of(P0).paused = False
    world.fetcher.position_of(P1).paused = True
    assert [record.offset for record in world.fetcher.take_records(60)] == list(range(60, 100))
    assert len(unpacked) == 3


def test_columns_of_a_batch_of_many_come_in_pieces(monkeypatch: pytest.MonkeyPatch, unpacked: list[int]) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(taken, "GROUP_RECORDS_MAX", 100)
    monkeypatch.setattr(taken, "CALL_RECORDS_MAX", 250)
    world = World()
    world.at(0, 0).answer(answer(data(0, bomb(1010) + bomb(5, base_offset=1010)), data(1, batch(0, 3))))
    found: dict[int, list[int]] = {0: [], 1: []}
    calls = 0
    while parts := world.fetcher.take_parts():
        columns, left, error = decode_taken(parts)
        world.fetcher.give_back(left, error)
        assert all(len(each) <= 100 for each in columns)
        assert sum(map(len, columns)) <= 350
        for each in columns:
            found[each.partition] += each.offset.to_pylist()
        calls += 1
    assert found == {0: list(range(1015)), 1: [0, 1, 2]}
    assert calls == 4
    assert asked(world.drive()[0]) == {0: 1015, 1: 3}


def test_what_one_call_leaves_of_the_columns_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch, unpacked: list[int]
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(taken, "CALL_BYTES_MAX", 1000)
    monkeypatch.setattr(taken, "AREA_BYTES_MAX", 1000)
    world = World()
    world.at(0, 0).answer(answer(data(0, b"".join(bomb(200, base_offset=200 * n) for n in range(9))), data(1)))
    columns, left, error = decode_taken(world.fetcher.take_parts())
    assert error is None
    assert [len(each) for each in columns] == [200]
    assert [(each.where, each.position) for each in left] == [(P0, 200)]
    assert len(unpacked) <= 2


COUNTS = [
    ({"record_count": 2**31 - 1}, "2147483647 records in"),
    ({"record_count": -5}, "-5 records"),
    ({"last_offset_delta": -1}, "records"),
    ({"last_offset_delta": 1}, "offsets that do not rise|an offset outside of its batch"),
    ({"base_offset": 2**63 - 2}, "base offset 9223372036854775806 with a last delta of 3"),
    ({"base_offset": -9}, "base offset -9"),
    ({"record_count": 2}, "bytes follow|lengths of its records"),
]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(("fields", "why"), COUNTS)
def test_a_header_that_lies_names_the_partition_and_the_others_go_on(
    fields: dict[str, int], why: str, codec: int, columns: bool
) -> None:
    if columns:
        pytest.importorskip("pyarrow")
    world = World()
    world.at(0, 0).answer(answer(data(0, bomb(4, codec=codec, **fields)), data(1, batch(0, 2))))

    def take() -> list[bytes]:
        if not columns:
            return values(world)
        parts, left, error = decode_taken(world.fetcher.take_parts())
        world.fetcher.give_back(left, error)
        if error is not None and not parts:
            raise error
        return [value for part in parts for value in part.value.to_pylist()]

    with pytest.raises(KafkaError, match=rf"t-0.* offset 0.*({why})") as caught:
        take()
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    world.fetcher.position_of(P0).paused = True
    assert take() == [b"0", b"1"]


def test_batches_of_one_partition_do_not_overlap() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4) + batch(2, 4)), data(1)))
    assert values(world) == [b"0", b"1", b"2", b"3"]
    with pytest.raises(KafkaError, match="t-0, at or after offset 4: offsets that do not rise: 2 behind 3"):
        values(world)


def test_an_answer_nobody_can_read_names_the_partitions_it_was_about() -> None:
    world = World()
    sent = world.at(5, 6)
    sent.fail(MalformedAnswer("node 1: responses announces 2147483647"))
    for where, offset in ((P0, 5), (P1, 6)):
        with pytest.raises(KafkaError, match=f"{where}, offset {offset}: .* 2147483647") as caught:
            world.fetcher.take_records(1)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        world.fetcher.position_of(where).seek(offset)
    assert asked(world.drive(now_ms=10_000)[0]) == {0: 5, 1: 6}


def test_an_offset_that_is_none_is_no_position() -> None:
    world = World()
    world.drive()[0].answer(offsets_answer((0, -1), (1, 4)))
    with pytest.raises(KafkaError, match="t-0: the leader tells offset -1"):
        world.fetcher.take_records(1)
    assert asked(world.drive()[0]) == {1: 4}


def test_an_array_of_two_thousand_millions_ends_its_connection_and_nothing_else() -> None:
    brokers = Brokers()
    config = ClientConfig.of(bootstrap_servers="boot:9092")
    network = brokers.network = NetworkClient(config, Metadata(config, brokers.random.random), brokers.random.random)
    brokers.run(until=lambda: not network.cluster.is_bootstrap)
    told: list[Any] = []
    network.enqueue(1, MetadataRequest([]), brokers.now_ms, lambda response, error, _: told.append(error or response))
    network.enqueue(1, MetadataRequest([]), brokers.now_ms, lambda response, error, _: told.append(error or response))
    brokers.run(until=lambda: network.in_flight_count(1) == 2)
    # correlation id, no tags, throttle time, and an array of brokers that announces 2^31 - 2 of them
    frame = network._in_flight[1][0].correlation_id.to_bytes(4, "big") + b"\0" + bytes(4) + b"\xff\xff\xff\xff\x07"
    network.on_received(1, memoryview(frame), brokers.now_ms)
    assert [type(each) for each in told] == [MalformedAnswer, Disconnected]
    assert all("brokers" in str(each) and "2147483646" in str(each) for each in told)
    told.clear()
    network.enqueue(1, MetadataRequest([]), brokers.now_ms, lambda response, error, _: told.append(error or response))
    brokers.run(until=lambda: told)
    assert told[0].brokers


@pytest.mark.parametrize("numbers", [[0, 5], [1], [0, 0], [-1, 0], [0, 2**31 - 1]])
def test_partitions_that_are_numbered_with_gaps_are_an_error_of_their_topic(numbers: list[int]) -> None:
    config = ClientConfig.of(bootstrap_servers="boot:9092")
    metadata = Metadata(config, lambda: 0.5)
    metadata.add_topics(["good", "bad"], 0)
    _, wish, partial = metadata.next_request(0)
    topics = [
        MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition(partition_index=n) for n in told])
        for name, told in (("good", [1, 0]), ("bad", numbers))
    ]
    broker = MetadataResponseBroker(1, "h", 9092)
    metadata.update(wish, MetadataResponse(brokers=[broker], topics=topics), partial, 0)
    assert list(metadata.cluster.topics) == ["good"]
    assert "bad: the broker tells of" in str(metadata.topic_errors["bad"])
