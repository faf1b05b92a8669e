"""The fetch state against a scripted network: every rule of `AbstractFetch` and KIP-320 under virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.consume.columnar import Columns
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.fetcher import Fetcher
from barnabas.client.consume.positions import Phase
from barnabas.client.consume.taken import decode_taken
from barnabas.client.errors import LogTruncated, NoPosition
from barnabas.net.errors import ConfigError, Disconnected
from barnabas.net.metadata import Metadata
from barnabas.protocol import batch as wire
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from barnabas.protocol.records import Record, encode_batch
from barnabas.protocol.requests.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.protocol.requests.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.requests.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.requests.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

ID = b"t" * 16
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Sent:
    """One request and the way to answer it."""

    def __init__(self, node_id: int, request: Any, on_done: Callable[..., None], options: dict[str, Any]) -> None:
        self.node_id, self.request = node_id, request
        self.max_version, self.timeout_ms = options.get("max_version"), options.get("timeout_ms")
        self._on_done = on_done

    def answer(self, response: Any, now_ms: int = 0) -> None:
        self._on_done(response, None, now_ms)

    def fail(self, error: Exception, now_ms: int = 0) -> None:
        self._on_done(None, error, now_ms)


class Wire:
    """A network that keeps what is sent; every node is ready, but those `away`, and speaks all APIs."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.sent: list[Sent] = []
        self.connections = self
        self.versions: dict[int, tuple[int, int]] = {}
        self.away: set[int] = set()

    def of(self, node_id: int) -> Any:
        return type("Connection", (), {"versions": self.versions})

    def api_version(self, node_id: int, key: int) -> int | None:
        return self.versions[key][1] if key in self.versions else None

    def ready(self, node_id: int, now_ms: int) -> bool:
        return node_id not in self.away

    def has_failed(self, node_id: int) -> bool:
        return node_id in self.away

    def poll_delay_ms(self, node_id: int, now_ms: int) -> int:
        return 0

    def send(self, node_id: int, request: Any, now_ms: int, on_done: Any, **options: Any) -> None:
        self.sent.append(Sent(node_id, request, on_done, options))

    enqueue = send

    def take(self) -> list[Sent]:
        taken, self.sent = self.sent, []
        return taken


class World:
    """A fetcher on two partitions; node 1 leads both unless told otherwise."""

    def __init__(self, **settings: Any) -> None:
        self.config = ConsumerConfig.of({"bootstrap.servers": "h:1", **settings})
        self.metadata = Metadata(self.config, lambda: 0.5)
        self.metadata.add_topics(["t"], 0)
        self.wire = Wire(self.metadata)
        self.changes = 0
        self.fetcher = Fetcher(self.config, self.wire, self._changed)  # type: ignore[arg-type]
        self.lead()
        self.fetcher.assign([P0, P1])

    def _changed(self) -> None:
        self.changes += 1

    def lead(self, *leaders: int, epoch: int = 0) -> None:
        brokers = [MetadataResponseBroker(node, "h", node) for node in (1, 2)]
        partitions = [MetadataResponsePartition(0, index, node, epoch) for index, node in enumerate(leaders or (1, 1))]
        response = MetadataResponse(0, brokers, "c", 1, [MetadataResponseTopic(0, "t", ID, False, partitions)])
        _, wish, partial = self.metadata.next_request(0)
        self.metadata.update(wish, response, partial, 0)

    def drive(self, now_ms: int = 0) -> list[Sent]:
        self.fetcher.drive(now_ms)
        return self.wire.take()

    def at(self, *offsets: int) -> Sent:
        """Seeks the partitions and returns the one fetch that follows."""
        for where, offset in zip((P0, P1), offsets, strict=False):
            self.fetcher.position_of(where).seek(offset)
        (sent,) = self.drive()
        assert isinstance(sent.request, FetchRequest)
        return sent


def batch(base_offset: int, count: int, *, control: bool = False, epoch: int = 0) -> bytes:
    records = [Record(base_offset + index, 7, b"k", b"%d" % (base_offset + index)) for index in range(count)]
    attributes = wire.CONTROL | wire.TRANSACTIONAL if control else 0
    header = wire.BatchHeader(base_offset, 0, epoch, 2, 0, attributes, count - 1, 7, 7, 9, 0, -1, count)
    return bytes(encode_batch(header, records))


def transaction(raw: bytes) -> bytes:
    """The batch as part of a transaction."""
    changed = bytearray(raw)
    changed[wire.ATTRIBUTES_AT + 1] |= wire.TRANSACTIONAL
    wire.set_crc(changed, 0, len(changed))
    return bytes(changed)


def answer(*parts: PartitionData, session: int = 5, error: int = 0) -> FetchResponse:
    return FetchResponse(0, error, session, [FetchableTopicResponse("", ID, list(parts))])


def data(partition: int, records: bytes = b"", error: int = 0, **fields: Any) -> PartitionData:
    return PartitionData(partition, error, high_watermark=100, records=memoryview(records), **fields)


def asked(sent: Sent) -> dict[int, int]:
    return {each.partition: each.fetch_offset for topic in sent.request.topics for each in topic.partitions}


def offsets_answer(*offsets: tuple[int, int], error: int = 0) -> ListOffsetsResponse:
    parts = [ListOffsetsPartitionResponse(number, error, -1, offset, 0) for number, offset in offsets]
    return ListOffsetsResponse(0, [ListOffsetsTopicResponse("t", parts)])


def values(world: World, count: int = 500) -> list[bytes]:
    return [record.value for record in world.fetcher.take_records(count)]


def decoded(world: World) -> list[Columns]:
    """What a reader of columns gets: what cannot be decoded goes back."""
    columns, left, error = decode_taken(world.fetcher.take_parts())
    world.fetcher.give_back(left, error)
    return columns


# ---- where to start -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "timestamp"), [("latest", LATEST_TIMESTAMP), ("earliest", EARLIEST_TIMESTAMP)])
def test_without_a_position_the_reset_policy_asks_the_leader(policy: str, timestamp: int) -> None:
    world = World(**{"auto.offset.reset": policy})
    (sent,) = world.drive()
    assert isinstance(sent.request, ListOffsetsRequest)
    assert [each.timestamp for each in sent.request.topics[0].partitions] == [timestamp] * 2
    assert world.drive() == []  # one question at a time
    sent.answer(offsets_answer((0, 42), (1, 43)))
    (fetch,) = world.drive()
    assert asked(fetch) == {0: 42, 1: 43}


def test_without_a_policy_a_position_must_be_given() -> None:
    world = World(**{"auto.offset.reset": "none"})
    assert world.drive() == []
    with pytest.raises(NoPosition, match="t-0 has no position"):
        world.fetcher.take_records(1)
    assert asked(world.at(1, 2)) == {0: 1, 1: 2}


@pytest.mark.parametrize("offset", [None, 3])
def test_a_partition_that_its_topic_lacks_is_a_trouble_while_it_is_assigned(offset: int | None) -> None:
    world = World()
    world.fetcher.assign([P0, TopicPartition("t", 9)])
    if offset is not None:
        world.fetcher.position_of(TopicPartition("t", 9)).seek(offset)
    world.drive()
    assert "topic t has no partition 9; it has 2, from 0 on" in world.metadata.troubles.why()
    world.fetcher.assign([P0])
    assert not world.metadata.troubles


def test_a_seek_while_an_offset_is_asked_wins() -> None:
    world = World()
    (sent,) = world.drive()
    world.fetcher.position_of(P0).seek(9)
    sent.answer(offsets_answer((0, 42), (1, 43)))
    assert asked(world.drive()[0]) == {0: 9, 1: 43}


def test_an_answer_to_an_older_question_is_no_answer_to_the_newer_one() -> None:
    world = World()
    (sent,) = world.drive()
    world.fetcher.position_of(P0).await_reset(EARLIEST_TIMESTAMP)  # it was asked for the latest
    sent.answer(offsets_answer((0, 42), (1, 43)))
    assert world.fetcher.position_of(P0).phase is Phase.RESET
    again = [each for each in world.drive() if isinstance(each.request, ListOffsetsRequest)]
    assert [each.timestamp for each in again[0].request.topics[0].partitions] == [EARLIEST_TIMESTAMP]


def test_a_refused_offset_is_asked_again_after_the_back_off_with_newer_metadata() -> None:
    world = World()
    (sent,) = world.drive()
    sent.answer(offsets_answer((0, -1), (1, -1), error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 1000)
    assert world.metadata.update_requested
    assert world.drive(1099) == []
    assert len(world.drive(1100)) == 1


# ---- what is asked --------------------------------------------------------------------------------------------------


def test_a_request_carries_the_settings_and_one_is_in_flight_per_node() -> None:
    world = World()
    world.lead(1, 2)
    for where in (P0, P1):
        world.fetcher.position_of(where).seek(0)
    first, second = world.drive()
    assert (first.node_id, second.node_id) == (1, 2)
    request = first.request
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (1, 500, 52428800)
    assert request.topics[0].partitions[0].partition_max_bytes == 1048576
    assert world.drive() == []
    second.answer(answer(data(1)))
    assert [sent.node_id for sent in world.drive()] == [2]


def test_no_partition_is_looked_at_while_all_brokers_are_asked() -> None:
    """Each event is a step, and of 2,000 partitions each step would look at all."""
    world = World()
    world.lead(1, 2)
    for where in (P0, P1):
        world.fetcher.position_of(where).seek(0)
    first, _ = world.drive()
    there = world.fetcher.positions
    world.fetcher.positions = Watched(there)
    assert world.drive() == []
    assert world.fetcher.positions.looks == 1  # the offsets that are asked for, not the fetches
    first.answer(answer(data(0)))
    assert [sent.node_id for sent in world.drive()] == [1]


class Watched(dict[TopicPartition, Any]):
    """Counts who walks all positions."""

    looks = 0

    def items(self) -> Any:
        self.looks += 1
        return super().items()

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_buffered_paused_and_unknown_partitions_are_left_out() -> None:
    world = World()
    sent = world.at(0, 0)
    sent.answer(answer(data(0, batch(0, 2)), data(1)))
    (fetch,) = world.drive()
    assert asked(fetch) == {}  # partition 1 has not changed, and the session knows it
    assert [topic.partitions for topic in fetch.request.forgotten_topics_data] == [[0]]
    fetch.answer(answer())
    world.fetcher.position_of(P1).paused = True
    assert world.drive() == []
    assert values(world) == [b"0", b"1"]
    (fetch,) = world.drive()
    assert asked(fetch) == {0: 2}


def test_a_leader_nobody_knows_is_looked_for() -> None:
    world = World()
    world.lead(-1, 1)
    world.fetcher.position_of(P0).seek(0)
    world.fetcher.position_of(P1).seek(0)
    (fetch,) = world.drive()
    assert asked(fetch) == {1: 0}
    assert world.metadata.update_requested


# ---- what comes -----------------------------------------------------------------------------------------------------


def test_max_poll_records_only_slices_what_is_buffered() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 3) + batch(3, 3)), data(1, batch(0, 1))))
    assert values(world, 2) == [b"0", b"1"]
    assert world.fetcher.position_of(P0).offset == 2
    assert values(world, 3) == [b"2", b"3", b"4"]
    assert values(world, 10) == [b"5", b"0"]
    assert world.fetcher.position_of(P0).offset == 6
    assert not world.fetcher.has_something


def test_records_below_the_position_are_skipped_and_control_batches_passed() -> None:
    world = World()
    world.at(2, 0).answer(answer(data(0, batch(0, 4) + batch(4, 1, control=True)), data(1)))
    assert values(world) == [b"2", b"3"]
    assert world.fetcher.position_of(P0).offset == 5


def test_a_lone_control_batch_moves_the_position_without_a_record() -> None:
    world = World()
    world.at(4, 0).answer(answer(data(0, batch(4, 1, control=True)), data(1)))
    assert values(world) == []
    assert world.fetcher.position_of(P0).offset == 5


def test_an_answer_for_a_position_that_moved_is_dropped() -> None:
    world = World()
    sent = world.at(0, 0)
    world.fetcher.position_of(P0).seek(50)
    sent.answer(answer(data(0, batch(0, 3)), data(1, batch(0, 1))))
    assert values(world) == [b"0"]
    assert world.fetcher.position_of(P0).offset == 50


def test_columns_finish_what_records_began() -> None:
    pytest.importorskip("pyarrow")
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4) + batch(4, 2, epoch=3)), data(1)))
    assert values(world, 1) == [b"0"]
    (columns,) = decoded(world)
    assert columns.value.to_pylist() == [b"1", b"2", b"3", b"4", b"5"]
    position = world.fetcher.position_of(P0)
    assert (position.offset, position.offset_epoch) == (6, 3)
    assert not world.fetcher.has_something


def test_columns_tell_the_epoch_of_the_leader_that_gave_them() -> None:
    """Not that of the one who leads now, nor of the one who wrote them."""
    pytest.importorskip("pyarrow")
    world = World()
    world.lead(1, 1, epoch=4)
    world.at(0, 0).answer(answer(data(0, batch(0, 4, epoch=2)), data(1, batch(0, 2))))
    world.lead(1, 1, epoch=6)
    parts = world.fetcher.take_parts()
    world.fetcher.give_back(parts, None)
    columns = decoded(world)
    assert [(each.leader_epoch, each.slice(1, 1).leader_epoch) for each in columns] == [(4, 4), (4, 4)]


def test_taking_undecoded_parts_lets_the_next_fetch_go() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1, batch(0, 2))))
    parts = world.fetcher.take_parts()
    assert [(part.where, part.position) for part in parts] == [(P0, 0), (P1, 0)]
    (sent,) = world.drive()
    assert asked(sent) == {0: 4, 1: 2}


def test_a_corrupt_batch_stops_columns_before_it_while_the_next_fetch_is_under_way() -> None:
    pytest.importorskip("pyarrow")
    world = World()
    bad = bytearray(batch(0, 2) + batch(2, 2))
    bad[wire.HEADER_SIZE] ^= 1  # in the first batch: the last one says where to go on
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1, bytes(bad))))
    taken = world.fetcher.take_parts()
    (ahead,) = world.drive()
    assert asked(ahead) == {0: 4, 1: 4}
    columns, left, error = decode_taken(taken)
    world.fetcher.give_back(left, error)
    assert [each.value.to_pylist() for each in columns] == [[b"0", b"1", b"2", b"3"]]
    ahead.answer(answer(data(0, batch(4, 1)), data(1, batch(4, 1))))  # for a position that is no longer
    world.fetcher.position_of(P0).paused = True
    for _ in range(2):
        with pytest.raises(KafkaError, match=r"t-1, at or after offset 0: .* checksum"):
            world.fetcher.take_parts()
    assert world.fetcher.position_of(P1).offset == 0
    world.fetcher.position_of(P1).seek(2)
    assert [asked(sent)[1] for sent in world.drive()] == [2]


def test_a_last_batch_that_is_corrupt_does_not_say_where_to_go_on() -> None:
    world = World()
    bad = bytearray(batch(0, 2))
    bad[-1] ^= 1
    world.at(0, 0).answer(answer(data(0, bytes(bad)), data(1)))
    with pytest.raises(KafkaError, match="checksum"):
        world.fetcher.take_parts()
    assert world.fetcher.position_of(P0).offset == 0
    assert asked(world.drive()[0]) == {}


def test_columns_leave_out_aborted_data_and_pass_markers() -> None:
    pytest.importorskip("pyarrow")
    world = World(**{"isolation.level": "read_committed"})
    aborted = [AbortedTransaction(9, 0)]
    records = transaction(batch(0, 2)) + batch(2, 1, control=True, epoch=3)
    world.at(0, 0).answer(answer(data(0, records, aborted_transactions=aborted), data(1, batch(0, 1))))
    (columns,) = decoded(world)
    assert (columns.partition, columns.value.to_pylist()) == (1, [b"0"])
    position = world.fetcher.position_of(P0)
    assert (position.offset, position.offset_epoch) == (3, 3)


@pytest.mark.parametrize("cut", [1, 40])
def test_columns_of_no_whole_batch_are_refused(cut: int) -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)[:-cut]), data(1)))
    with pytest.raises(KafkaError, match="no whole batch at offset 0"):
        world.fetcher.take_parts()


@pytest.mark.parametrize("position", [4, 9])
def test_columns_of_batches_below_the_position_do_not_move_it(position: int) -> None:
    world = World()
    world.at(position, 0).answer(answer(data(0, batch(0, 4)), data(1)))
    with pytest.raises(KafkaError, match=f"no whole batch at offset {position}"):
        world.fetcher.take_parts()
    assert world.fetcher.position_of(P0).offset == position


def test_columns_do_without_sums_if_they_are_not_asked_for() -> None:
    pytest.importorskip("pyarrow")
    bad = bytearray(batch(0, 1) + batch(1, 1))
    bad[wire.CRC_AT] ^= 1
    bad[len(bad) // 2 + wire.CRC_AT] ^= 1
    world = World(**{"check.crcs": False})
    world.at(0, 0).answer(answer(data(0, bytes(bad)), data(1)))
    (columns,) = decoded(world)
    assert columns.value.to_pylist() == [b"0", b"1"]


def test_parts_given_back_come_again_and_the_first_is_in_error() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1, batch(0, 2))))
    parts = world.fetcher.take_parts()
    world.fetcher.give_back(parts, KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-0"))
    assert [world.fetcher.position_of(where).offset for where in (P0, P1)] == [0, 0]
    with pytest.raises(KafkaError, match="t-0"):
        world.fetcher.take_parts()


def test_parts_given_back_after_a_seek_or_unassigned_change_nothing() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1, batch(0, 2))))
    parts = world.fetcher.take_parts()
    world.fetcher.position_of(P0).seek(50)
    world.fetcher.assign([P0])
    world.fetcher.give_back(parts, None)
    assert world.fetcher.position_of(P0).offset == 50


def test_an_error_is_not_told_of_another_partition() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1, batch(0, 2))))
    parts = world.fetcher.take_parts()
    world.fetcher.position_of(P0).seek(50)
    world.fetcher.give_back(parts, KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-0"))
    assert world.fetcher.position_of(P1).offset == 0
    assert [part.where for part in world.fetcher.take_parts()] == [P1]


def test_parts_come_again_though_their_leader_changed_meanwhile() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1, batch(0, 2))))
    parts = world.fetcher.take_parts()
    world.lead(2, 2, epoch=1)
    (check,) = [sent for sent in world.drive() if isinstance(sent.request, OffsetForLeaderEpochRequest)]
    assert world.fetcher.position_of(P0).phase is Phase.VALIDATE
    world.fetcher.give_back(parts, KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-0"))
    check.answer(OffsetForLeaderEpochResponse(0, []))
    assert [world.fetcher.position_of(where).offset for where in (P0, P1)] == [0, 0]
    with pytest.raises(KafkaError, match="t-0"):
        world.fetcher.take_parts()
    world.fetcher.position_of(P0).paused = True
    assert [(part.where, part.position) for part in world.fetcher.take_parts()] == [(P1, 0)]


def test_partitions_served_go_to_the_end() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 1)), data(1, batch(0, 1))))
    world.fetcher.take_records(1)
    assert list(world.fetcher.positions) == [P1, P0]


def test_a_corrupt_batch_is_told_until_a_seek_after_what_was_good() -> None:
    world = World()
    bad = bytearray(batch(0, 2))
    bad[-1] ^= 1
    world.at(0, 0).answer(answer(data(0, bytes(bad)), data(1, batch(0, 1))))
    world.fetcher.positions = {P1: world.fetcher.positions[P1], P0: world.fetcher.positions[P0]}
    assert values(world) == [b"0"]
    for _ in range(2):
        with pytest.raises(KafkaError, match="checksum"):
            world.fetcher.take_records(1)
    world.fetcher.position_of(P0).seek(2)
    assert values(world) == []


def test_check_crcs_may_be_off() -> None:
    world = World(**{"check.crcs": False})
    bad = bytearray(batch(0, 1))
    bad[wire.CRC_AT] ^= 1
    world.at(0, 0).answer(answer(data(0, bytes(bad)), data(1)))
    assert values(world) == [b"0"]


# ---- trouble --------------------------------------------------------------------------------------------------------


def test_out_of_range_resets_by_policy_or_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = World(**{"auto.offset.reset": "earliest"})
    world.at(7, 0).answer(answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE), data(1)))
    assert world.fetcher.position_of(P0).phase is Phase.RESET
    (said,) = caplog.messages
    assert said == "t-0: offset 7 is not in the log (any more, or yet): auto.offset.reset goes to the earliest"
    sent = [each for each in world.drive() if isinstance(each.request, ListOffsetsRequest)]
    assert sent[0].request.topics[0].partitions[0].timestamp == EARLIEST_TIMESTAMP
    strict = World(**{"auto.offset.reset": "none"})
    strict.at(7, 0).answer(answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE), data(1)))
    with pytest.raises(KafkaError, match=r"offset 7 is not in the log"):
        strict.fetcher.take_records(1)


@pytest.mark.parametrize("code", [3, 6, 56, 74, 75, 78, 100, 103])
def test_errors_that_pass_are_tried_again_after_the_back_off(code: int) -> None:
    world = World()
    world.at(7, 0).answer(answer(data(0, error=code), data(1)), 1000)
    assert world.metadata.update_requested == (code not in (75, 78))
    (now,) = world.drive(1000)
    assert asked(now) == {}
    now.answer(answer(), 1100)
    assert asked(world.drive(1100)[0]) == {0: 7}


def test_a_told_leader_is_asked_at_once() -> None:
    world = World()
    hint = LeaderIdAndEpoch(2, 1)
    world.at(7, 0).answer(answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint), data(1)))
    assert {sent.node_id for sent in world.drive()} == {1, 2}


def test_an_answer_with_nothing_that_comes_before_its_time_is_no_reason_to_ask_again_at_once() -> None:
    world = World()
    world.at(101, 0).answer(answer(data(0), data(1)))
    (sent,) = world.drive(1000)
    sent.answer(FetchResponse(session_id=5), 1003)
    assert world.fetcher.drive(1003) == 1000 + world.config.retry_backoff_ms
    assert not world.drive(1099)
    (sent,) = world.drive(1100)
    sent.answer(FetchResponse(session_id=5), 1100 + world.config.fetch_max_wait_ms)
    assert world.drive(1100 + world.config.fetch_max_wait_ms)


def test_who_lets_nobody_wait_is_answered_with_nothing_and_asks_again() -> None:
    world = World(fetch_max_wait_ms=0)
    world.at(0, 0).answer(FetchResponse(session_id=5), 0)
    assert world.drive(0)


def test_other_errors_are_told() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), data(1)))
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        world.fetcher.take_records(1)


def test_a_lost_connection_asks_for_everything_again_after_the_back_off() -> None:
    world = World()
    world.at(3, 4).fail(Disconnected("gone"), 1000)
    assert world.drive(1050) == []
    (again,) = world.drive(1100)
    assert asked(again) == {0: 3, 1: 4}
    assert again.request.session_epoch == 0


def test_a_lost_session_is_opened_anew() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0), data(1)))
    (second,) = world.drive()
    assert (second.request.session_id, second.request.session_epoch) == (5, 1)
    second.answer(answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    (third,) = world.drive()
    assert (third.request.session_id, third.request.session_epoch) == (0, 0)
    assert asked(third) == {0: 0, 1: 0}


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_broker_that_refuses_every_session_is_not_asked_without_end(code: int) -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0), data(1)))
    (second,) = world.drive(1000)
    second.answer(answer(error=code), 1000)
    (full,) = world.drive(1000)
    assert full.request.session_epoch == 0
    assert asked(full) == {0: 0, 1: 0}
    full.answer(answer(error=code), 1000)
    assert world.drive(1099) == []
    (again,) = world.drive(1100)
    assert asked(again) == {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("code", "stale"),
    [
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_an_answer_that_is_an_error_as_a_whole_waits_for_the_back_off(code: int, stale: bool) -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0), data(1)))
    (second,) = world.drive(1000)
    second.answer(answer(error=code), 1000)
    assert world.metadata.update_requested == stale
    assert world.drive(1099) == []
    assert asked(world.drive(1100)[0]) == {0: 0, 1: 0}


def test_the_wait_at_the_broker_is_no_part_of_its_answering_time() -> None:
    world = World(**{"request.timeout.ms": 2000, "fetch.max.wait.ms": 500})
    assert world.at(0, 0).timeout_ms == 2500


# ---- a new leader ---------------------------------------------------------------------------------------------------


def validated(world: World, end_offset: int) -> None:
    """Reads up to offset 4 in epoch 0; then node 2 leads in epoch 1 and tells where epoch 0 ends."""
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1)))
    values(world)
    for sent in world.drive():
        sent.answer(answer())
    world.lead(2, 1, epoch=1)
    checks = [sent for sent in world.drive() if isinstance(sent.request, OffsetForLeaderEpochRequest)]
    assert [(sent.node_id, sent.request.topics[0].partitions[0].leader_epoch) for sent in checks] == [(2, 0)]
    assert not [sent for sent in world.drive() if sent.node_id == 2]  # nothing is fetched meanwhile
    end = EpochEndOffset(0, 0, 0, end_offset)
    checks[0].answer(OffsetForLeaderEpochResponse(0, [OffsetForLeaderTopicResult("t", [end])]))


def test_a_log_that_holds_what_was_read_goes_on() -> None:
    world = World()
    validated(world, 4)
    assert {2: {0: 4}}.items() <= {sent.node_id: asked(sent) for sent in world.drive()}.items()


def test_a_log_that_ends_just_where_the_reader_stands_has_lost_nothing() -> None:
    strict = World(**{"auto.offset.reset": "none"})
    validated(strict, 4)
    assert strict.fetcher.take_records(1) == []


def test_what_is_buffered_is_taken_before_a_new_leader_is_asked() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1)))
    world.lead(2, 1, epoch=1)
    assert not [sent for sent in world.drive() if isinstance(sent.request, OffsetForLeaderEpochRequest)]
    assert values(world) == [b"0", b"1", b"2", b"3"]
    checks = [sent for sent in world.drive() if isinstance(sent.request, OffsetForLeaderEpochRequest)]
    assert [(sent.node_id, sent.request.topics[0].partitions[0].leader_epoch) for sent in checks] == [(2, 0)]


def test_a_broker_that_cannot_tell_where_epochs_ended_is_trusted() -> None:
    world = World()
    world.at(0, 0).answer(answer(data(0, batch(0, 4)), data(1)))
    values(world)
    for sent in world.drive():
        sent.answer(answer())
    world.wire.versions = {ApiKey.FETCH: (4, 12)}
    world.lead(2, 1, epoch=1)
    assert {2: {0: 4}}.items() <= {sent.node_id: asked(sent) for sent in world.drive()}.items()


def test_a_log_that_lost_what_was_read_resets_or_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    validated(world, 2)
    assert world.fetcher.position_of(P0).offset == 2
    assert caplog.messages == ["t-0: read up to offset 4, but the new leader's log diverges at 2: goes on from there"]
    strict = World(**{"auto.offset.reset": "none"})
    validated(strict, 2)
    with pytest.raises(LogTruncated, match="read up to offset 4, but the new leader's log diverges at 2"):
        strict.fetcher.take_records(1)


# ---- settings -------------------------------------------------------------------------------------------------------


def test_a_partition_that_is_not_assigned_is_refused() -> None:
    with pytest.raises(ConfigError, match="x-0 is not assigned"):
        World().fetcher.position_of(TopicPartition("x", 0))
