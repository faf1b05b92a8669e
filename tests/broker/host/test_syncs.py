"""The real disk is watched: each sync that a promise rests on comes before the answer, the rename or the marker."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.cluster.ledger import LEDGER_FILE
from barnabas.broker.host.disk import RealDisk
from barnabas.broker.log.closing import CLOSING_FILE
from barnabas.protocol.requests import create_topics
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest
from tests.broker.node.world import World, batch

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="what is synced is told by /proc")

META = "__cluster_metadata-0"
SEGMENT = "00000000000000000000.log"


class Watched(RealDisk):
    """A real disk whose completions come when the test's loop asks for them."""

    def __init__(self, root: Path) -> None:
        self._posted: queue.Queue[Callable[[], None]] = queue.Queue()
        super().__init__(root, self._posted.put)

    def deliver(self) -> int:
        """Wait for what is under way."""
        if not self.under_way:
            return 0
        self._posted.get(timeout=60)()
        return 1


class Watch:
    """What was made durable or named, in order: `sync path`, `sync directory/`, `name path`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self._root = str(root)
        for name in ("fdatasync", "fsync"):
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))
        rename = os.replace

        def replace(old: str, new: str, **fds: Any) -> None:
            rename(old, new, **fds)
            within = os.readlink(f"/proc/self/fd/{fds['dst_dir_fd']}")
            self.events.append(f"name {os.path.relpath(os.path.join(within, new), self._root)}")

        monkeypatch.setattr(os, "replace", replace)

    def _watched(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            call(fd)
            full = os.readlink(f"/proc/self/fd/{fd}")
            path = os.path.relpath(full, self._root)
            self.events.append(f"sync {path}/" if os.path.isdir(full) else f"sync {path}")

        return sync

    def before(self, event: str) -> list[str]:
        """What came before the first of an event."""
        return self.events[: self.events.index(event)]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Watch]]:
    """A core on a real disk, started; what it did until then is forgotten."""
    root = tmp_path / "data"
    root.mkdir()
    watch = Watch(root, monkeypatch)
    disk: Any = Watched(root)
    world = World(disk=disk)
    yield world, watch
    disk.close()


def answered(world: World, watch: Watch, answer: Any) -> list[str]:
    """What came before the answer: the answer is told of on the thread that notes it."""
    told: list[list[str]] = []
    respond = answer.respond

    def noting(response: Any) -> None:
        told.append(list(watch.events))
        respond(response)

    assert not answer.done, "it waits for the disk"
    answer.respond = noting
    world.settle()
    assert answer.done
    return told[0]


def assert_in_order(events: list[str], seen: list[str]) -> None:
    """Each of some events is there, behind the one before it; others may be between."""
    rest = iter(seen)
    assert all(event in rest for event in events), (events, seen)


def test_with_flush_messages_1_segment_and_names_are_synced_before_the_acknowledgement(
    made: tuple[World, Watch],
) -> None:
    world, watch = made
    world.create(flush_messages=1, segment_bytes=1 << 20)
    watch.events.clear()
    seen = answered(world, watch, world.produce({("t", 0): batch(b"first")}, acks=-1))
    assert_in_order([f"sync t-0/{SEGMENT}", "sync t-0/"], seen)  # the segment and its name
    assert "sync ./" in seen, "and the name of its directory, by one of two threads"
    metadata = "t-0/partition.metadata"
    assert_in_order([f"sync {metadata}.tmp", f"name {metadata}", "sync t-0/"], seen)  # whose it is, in a thread beside
    for acks in (1, -1):
        watch.events.clear()
        seen = answered(world, watch, world.produce({("t", 0): batch(b"next")}, acks=acks))
        assert seen == [f"sync t-0/{SEGMENT}"], "its name is known by now"


def test_with_flush_messages_1_a_fresh_segment_is_synced_with_its_name(made: tuple[World, Watch]) -> None:
    world, watch = made
    world.create(flush_messages=1, segment_bytes=1 << 20)
    world.put(batch(b"x" * 700_000), acks=-1)
    watch.events.clear()
    seen = answered(world, watch, world.produce({("t", 0): batch(b"y" * 700_000)}, acks=-1))
    fresh = "sync t-0/00000000000000000001.log"
    assert fresh in seen
    assert "sync t-0/" in seen[seen.index(fresh) :]


def test_a_change_of_metadata_is_synced_before_its_answer(made: tuple[World, Watch]) -> None:
    world, watch = made
    watch.events.clear()
    request = create_topics.CreateTopicsRequest([create_topics.CreatableTopic("u", 1, 1)])
    seen = answered(world, watch, world.send(request, 7))
    assert f"sync {META}/{SEGMENT}" in seen


def durably(watch: Watch, events: list[str], name: str) -> bool:
    """Whether a small file was synced, then named, and the name synced."""
    if f"name {name}" not in events:
        return False
    named = events.index(f"name {name}")
    return f"sync {name}.tmp" in events[:named] and "sync ./" in events[named:]


def test_a_block_of_producer_ids_is_noted_durably_before_one_of_them_is_given_out(made: tuple[World, Watch]) -> None:
    world, watch = made
    watch.events.clear()
    seen = answered(world, watch, world.send(InitProducerIdRequest(None), 4))
    assert f"sync {META}/{SEGMENT}" in seen
    assert durably(watch, seen, LEDGER_FILE)


def test_a_clean_stop_syncs_the_file_of_many_logs_before_its_marker(made: tuple[World, Watch]) -> None:
    """The first hundred logs have files of their own, the others share one."""
    world, watch = made
    world.create("t", 130)
    for number in range(130):
        world.put(batch(b"x", pid=7000 + number, epoch=0, sequence=0), partition=number)
    watch.events.clear()
    world.stop()
    assert durably(watch, watch.before("name .kafka_cleanshutdown"), CLOSING_FILE)


def test_a_first_start_syncs_what_it_makes(made: tuple[World, Watch]) -> None:
    _, watch = made
    assert f"sync {META}/{SEGMENT}" in watch.events
    assert f"sync {META}/" in watch.events
    assert "sync meta.properties.tmp" in watch.before("name meta.properties")
    assert "sync ./" in watch.events[watch.events.index("name meta.properties") :]


def test_a_clean_stop_syncs_all_before_its_marker(made: tuple[World, Watch]) -> None:
    """Data, small files, checkpoints; each small file before its name, each directory after."""
    world, watch = made
    world.create("t", 2)
    world.put(batch(b"first", keys=[b"k"], pid=world.producer_id(), epoch=0, sequence=0))
    world.put(batch(b"other"), partition=1)
    world.settle()
    watch.events.clear()
    world.stop()
    marker = "name .kafka_cleanshutdown"
    before = watch.before(marker)
    for number in (0, 1):
        assert f"sync t-{number}/{SEGMENT}" in before
        assert f"sync t-{number}/" in before
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        assert f"sync {name}.tmp" in watch.before(f"name {name}")
        named = before.index(f"name {name}")
        assert "sync ./" in before[named:], "its directory, before the marker"
    data = [at for at, event in enumerate(before) if event.endswith(".log")]
    assert max(data) < before.index("name recovery-point-offset-checkpoint"), "it speaks of what is durable"
    assert "sync .kafka_cleanshutdown.tmp" in before
    assert "sync ./" in watch.events[watch.events.index(marker) :]
    small = [event.removeprefix("name ") for event in before if event.startswith("name t-")]
    assert any(name.endswith(".snapshot") for name in small)
    for name in small:
        at = watch.events.index(f"name {name}")
        assert f"sync {name}.tmp" in watch.events[:at]
        assert "sync " + name.rpartition("/")[0] + "/" in watch.events[at : watch.events.index(marker)]


@pytest.mark.parametrize("aside", [False, True])
def test_the_first_small_file_of_a_directory_is_synced_with_the_name_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aside: bool
) -> None:
    """A controller's first vote is one: a power failure took the directory, and with it the vote."""
    watch, disk = Watch(tmp_path, monkeypatch), Watched(tmp_path)
    disk.make_dir("a")
    for events in (["sync a/b.tmp", "name a/b", "sync a/", "sync ./"], ["sync a/b.tmp", "name a/b", "sync a/"]):
        told: list[Any] = []
        disk.write_atomic("a/b", b"x", told.append if aside else None)
        while aside and not told:
            disk.deliver()
        assert watch.events == events
        watch.events.clear()
    disk.close()
