"""What a fetch that waits is tied to: its connection, a longest time, and a bound for all of them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.account import KEPT, PARKED
from barnabas.broker.context import Connection
from barnabas.broker.ports import NotYet
from barnabas.broker.replica import fetch
from barnabas.broker.replica.shared import PARKED_PARTITION_BYTES
from barnabas.broker.replica.wide_fetch import WideFetch
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.broker.node.world import Answer, World, batch, part_of, records_of


@pytest.fixture
def world() -> World:
    world = World()
    world.create("t", 2)
    return world


def connection(number: int = 77) -> Connection:
    return Connection(number, "PLAINTEXT", "127.0.0.1", "kafka", 0)


def waiting(world: World) -> tuple[int, int]:
    """Fetches in the timer, and entries of the lists."""
    purgatory = world.core.replicas.shared.fetch
    return purgatory.num_delayed, purgatory.watched


def test_a_fetch_ends_with_its_connection(world: World) -> None:
    mine, other = connection(1), connection(2)
    gone = world.fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=10_000, connection=mine)
    stays = world.fetch({("t", 0): 0}, wait_ms=10_000, connection=other)
    assert waiting(world) == (2, 3)
    world.core.disconnected(mine)
    assert waiting(world) == (1, 1)
    world.put(batch(b"v"))
    world.advance(10_000)
    assert stays.done
    assert not gone.done
    assert waiting(world) == (0, 0)
    assert world.core.replicas.shared.parked_partitions == 0
    assert world.core.replicas.shared.waiting == {other.id: {}}
    world.core.disconnected(other)
    assert not world.core.replicas.shared.waiting


def test_a_fetch_that_was_answered_is_forgotten(world: World) -> None:
    mine = connection()
    world.fetch({("t", 0): 0}, wait_ms=10_000, connection=mine)
    world.put(batch(b"v"))
    assert not any(world.core.replicas.shared.waiting.values())
    world.core.disconnected(mine)
    assert not world.core.replicas.shared.waiting


def test_the_longest_wait_is_a_setting() -> None:
    world = World(barnabas_fetch_max_wait_ms=5000)
    world.create()
    answer = world.fetch({("t", 0): 0}, wait_ms=2**31 - 1)
    world.advance(4999)
    assert not answer.done
    world.advance(1)
    assert answer.at_ms == 5000


def many(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int = 10, partitions: int = 35
) -> dict[tuple[str, int], int]:
    monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE_MAX", at_once)
    world.create("many", partitions)
    return {("many", partition): 0 for partition in range(partitions)}


def test_a_fetch_of_many_partitions_is_read_in_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = many(world, monkeypatch)
    for partition in (3, 30):
        world.put(batch(b"%d" % partition), "many", partition)
    answer = world.fetch(asked)
    assert not answer.done
    world.settle()
    parts = answer.response.responses[0].partitions
    found = {part.partition_index: [record.value for record in records_of(part.records)] for part in parts}
    assert found == {partition: [b"%d" % partition] if partition in (3, 30) else [] for _, partition in asked}
    least = world.fetch(asked, max_bytes=1)
    world.settle()
    sizes = [bool(part.records) for part in least.response.responses[0].partitions]
    assert [at for at, size in enumerate(sizes) if size] == [3], "the first batch comes whole, and nothing after it"


def test_a_fetch_of_many_partitions_waits_and_is_woken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = many(world, monkeypatch)
    mine = connection()
    answer = world.fetch(asked, wait_ms=1000, connection=mine)
    world.settle()
    assert not answer.done
    assert world.core.replicas.shared.parked_partitions == 35
    world.put(batch(b"v"), "many", 34)
    assert answer.at_ms == 0
    assert [bytes(part.records) != b"" for part in answer.response.responses[0].partitions] == [False] * 34 + [True]


def test_a_connection_that_closes_while_its_fetch_is_read_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = connection()
    answer = world.fetch(many(world, monkeypatch), wait_ms=1000, connection=mine)
    world.core.disconnected(mine)
    world.settle()
    assert not answer.done
    assert waiting(world) == (0, 0)


def test_a_connection_that_closes_while_a_thread_reads_for_its_fetch_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, real, looked = connection(), fetch.read_partitions, []

    class Token:
        def on_ready(self, callback: Any) -> None:
            looked.append(callback)

    def cold(*given: Any) -> Any:
        if not looked:
            raise NotYet(Token())
        return real(*given)

    monkeypatch.setattr(fetch, "read_partitions", cold)
    answer = world.fetch({("t", 0): 0}, wait_ms=1000, connection=mine)
    world.core.disconnected(mine)
    looked[0]()
    world.core.wake(world.now_ms)
    assert not answer.done
    assert waiting(world) == (0, 0)
    assert not world.core.replicas.shared.waiting


WIDE = 50


def parking(world: World, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Answer, Connection]:
    """A fetch of 50 partitions that is read, and of which twenty are watched so far."""
    monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE_MAX", 20)
    world.create("wide", WIDE)
    mine = connection()
    answer = world.fetch({("wide", number): 0 for number in range(WIDE)}, connection=mine, **options)
    purgatory = world.core.replicas.shared.fetch
    while not purgatory.watched:
        assert world.core.run_job_step(world.now_ms)
    assert waiting(world) == (0, 20)
    return answer, mine


@pytest.mark.parametrize("partition", [0, 19, 20, WIDE - 1])
def test_what_comes_while_a_fetch_is_being_parked_wakes_it(
    world: World, monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    """Its partition may be watched already, or be looked at later."""
    answer, _ = parking(world, monkeypatch, wait_ms=10_000)
    world.produce({("wide", partition): batch(b"v")})
    world.settle()
    assert answer.done
    assert [len(part.records) > 0 for part in answer.response.responses[0].partitions].index(True) == partition
    world.core.replicas.shared.fetch.purge()
    assert waiting(world) == (0, 0)
    assert world.core.replicas.shared.parked_partitions == 0


def test_the_sum_counts_what_came_before_and_after_a_partition_was_watched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = len(batch(b"v"))
    answer, _ = parking(world, monkeypatch, wait_ms=10_000, min_bytes=4 * one)
    for partition in (0, 0, WIDE - 1):
        world.produce({("wide", partition): batch(b"v")})
    world.settle()
    assert not answer.done
    assert waiting(world) == (1, WIDE)
    world.put(batch(b"v"), "wide", 30)
    assert answer.done


def test_who_leaves_while_a_fetch_is_being_parked_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, mine = parking(world, monkeypatch, wait_ms=10_000)
    world.core.disconnected(mine)
    world.settle()
    assert waiting(world) == (0, 0)
    assert world.core.replicas.shared.parked_partitions == 0
    assert not world.core.replicas.shared.waiting
    assert not answer.done


def test_a_fetch_that_was_parked_in_steps_is_answered_when_its_time_is_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, _ = parking(world, monkeypatch, wait_ms=700)
    world.advance(699)
    assert not answer.done
    world.advance(1)
    assert answer.done


def test_a_fetch_that_cannot_be_parked_is_answered_as_it_stands(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer, _ = parking(world, monkeypatch, wait_ms=10_000)
    monkeypatch.setattr(WideFetch, "try_keys", lambda *_: 1 // 0)
    world.settle()
    assert answer.done
    assert "a fetch of 50 partitions cannot wait" in caplog.text


def test_large_fetches_do_not_wait_without_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PARKED_PARTITIONS_MAX", 80)
    asked = many(world, monkeypatch)
    answers = [world.fetch(asked, wait_ms=1000) for _ in range(3)]
    small = world.fetch({("t", 0): 0}, wait_ms=1000)
    world.settle()
    assert [one.done for one in [*answers, small]] == [False, False, True, False]


def test_a_cold_look_that_must_be_repeated_wakes_the_fetch(world: World) -> None:
    """A parked fetch that has to look a watermark's place up on the disk asks again when the bytes are there."""
    from barnabas.broker.ports import NotYet
    from barnabas.broker.replica import delayed_fetch

    answer = world.fetch({("t", 0): 0}, wait_ms=10_000, min_bytes=1)
    looked: list[object] = []

    class Token:
        def on_ready(self, callback: object) -> None:
            looked.append(callback)

    real = delayed_fetch._end_for

    def cold(isolation: object, partition: object) -> object:
        if not looked:
            raise NotYet(Token())
        return real(isolation, partition)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delayed_fetch, "_end_for", cold)
        world.put(batch(b"v"))
        assert not answer.done
        (ready,) = looked
        ready()  # type: ignore[operator]
        world.core.wake(world.now_ms)
    assert answer.done
    assert records_of(part_of(answer).records)


def test_a_stranger_s_replica_id_is_no_follower_s_session(world: World) -> None:
    answer = world.fetch({("t", 0): 0}, session=(0, 0), replica_id=5, connection=connection())
    assert part_of(answer).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.fetch({("t", 0): 0}, session=(0, 0), replica_id=5)  # a broker of the cluster, and no replica of it
    sessions = world.core.services.sessions.snapshot(0)
    assert [one["follower"] for one in sessions] == [False] * len(sessions)
    assert sessions


def test_sessions_end_with_their_connection(world: World) -> None:
    mine = connection()
    answer = world.fetch({("t", 0): 0}, session=(0, 0), connection=mine)
    assert answer.response.session_id
    world.core.disconnected(mine)
    assert not world.core.services.sessions.sessions


def test_names_of_unknown_topics_are_kept_nowhere(world: World) -> None:
    from barnabas.broker.handlers.services import topic_resource

    before = topic_resource.cache_info().currsize
    world.fetch({("nobody-knows-this", 0): 0})
    world.produce({("nobody-knows-that", 0): batch(b"v")})
    assert topic_resource.cache_info().currsize == before


def test_list_offsets_tells_the_epoch_of_the_earliest_record(world: World) -> None:
    world.put(batch(b"v"))
    world.restart()
    world.put(batch(b"w"))
    first = world.offsets(-2)
    assert (first.offset, first.leader_epoch) == (0, 0)
    assert world.offsets(-1).leader_epoch > 0


def test_nobody_reads_on_for_a_connection_that_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fetch of many partitions, whose connection is closed after its first step, nothing more is read."""
    monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE_MAX", 1)
    mine = connection()
    answer = world.fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=10_000, connection=mine)
    assert world.core.jobs.snapshot()
    world.core.run_job_step(world.now_ms)
    assert world.core.jobs.snapshot(), "one of two steps"
    world.core.disconnected(mine)
    monkeypatch.setattr(fetch, "read_partitions", lambda *_: pytest.fail("it was read for nobody"))
    world.core.run_job_step(world.now_ms)
    assert not answer.done
    assert not world.core.jobs.snapshot()


def charged(world: World) -> int:
    return world.core.account.by_kind[PARKED]


def test_the_account_hears_of_what_a_fetch_keeps_while_it_waits_also_by_a_session() -> None:
    """An incremental request of 40 bytes kept half a KiB for each of 10,000 partitions, and nobody counted it."""
    world = World()
    world.create("t", 100)
    mine = connection(5)
    opened = world.fetch({("t", number): 0 for number in range(100)}, session=(0, 0), connection=mine)
    session_id = opened.response.session_id
    answer = world.fetch({}, wait_ms=10_000, session=(session_id, 1), connection=mine)
    assert charged(world) == 100 * PARKED_PARTITION_BYTES
    assert world.core.account.held_by(5) == charged(world) + world.core.account.by_kind[KEPT]
    other = connection(6)
    world.fetch({("t", number): 0 for number in range(40)}, wait_ms=10_000, connection=other)
    assert world.core.account.held_by(6) == 40 * PARKED_PARTITION_BYTES
    world.core.disconnected(other)
    world.put(batch(b"v"), partition=99)
    assert answer.done
    assert charged(world) == 0
    world.core.disconnected(mine)
    assert world.core.account.total == 0


def test_a_fetch_of_few_partitions_costs_the_account_nothing(world: World) -> None:
    world.fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=10_000, connection=connection())
    assert waiting(world) == (1, 2)
    assert charged(world) == 0


def test_an_append_looks_at_its_own_partition_alone_however_many_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fetch of 10,000 partitions made every append to one of them look at all."""
    world = World()
    world.create("t", 50)
    looked = []
    usual = WideFetch._look

    def look(self: WideFetch, key: TopicPartition) -> int | None:
        looked.append(key.partition)
        return usual(self, key)

    monkeypatch.setattr(WideFetch, "_look", look)
    answer = world.fetch({("t", number): 0 for number in range(50)}, wait_ms=10_000, min_bytes=300)
    assert looked == list(range(50)), "once, when it is parked"
    looked.clear()
    for partition in (7, 7, 9):
        world.put(batch(b"v" * 20), partition=partition)
    assert set(looked) == {7, 9}
    assert len(looked) <= 6
    assert not answer.done
    world.put(batch(b"v" * 20), partition=30)
    assert answer.done
    assert {part.partition_index for part in answer.response.responses[0].partitions if part.records} == {7, 9, 30}
