"""What the broker makes is its owner's alone, and no link in its directory is followed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.host.data_dir import DataDirLock
from barnabas.broker.host.disk import RealDisk
from barnabas.broker.host.local import NAME
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from tests.cli.process import broker, tree


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The most careless umask there is."""
    before = os.umask(0)
    yield
    os.umask(before)


PRIVATE = {("directory", 0o700), ("file", 0o600)}
SHORT = {"delivery.timeout.ms": 2000, "request.timeout.ms": 1500}
ROLLED = ("--set", "log.segment.bytes=1048576", "--set", "offsets.topic.num.partitions=1")


def modes(path: Path) -> set[tuple[str, int]]:
    return {
        ("directory" if one.is_dir() else "file", stat.S_IMODE(one.stat().st_mode))
        for one in (path, *path.rglob("*"))
        if not one.is_socket()
    }


@pytest.mark.usefixtures("open_umask")
def test_whatever_the_umask_says_directories_are_0700_and_files_0600(tmp_path: Path) -> None:
    """Segments, indexes, checkpoints and what producers and groups leave, while it runs and when it has ended."""
    data = tmp_path / "data"
    with broker("--port", "0", "--data-dir", str(data), "--topic", "t:2", *ROLLED) as process:
        server = f"127.0.0.1:{process.port}"
        with Producer(bootstrap_servers=server) as producer:
            for _ in range(3):
                producer.send("t", b"v" * 700_000, partition=0).result(60)
        with Consumer("t", bootstrap_servers=server, group_id="g", auto_offset_reset="earliest") as consumer:
            assert consumer.poll(60)
            consumer.commit()
        assert modes(data) == PRIVATE
        assert stat.S_IMODE((data / NAME).stat().st_mode) == 0o600
        assert process.end() == 0
    assert modes(data) == PRIVATE
    kinds = {one.suffix or one.name for one in data.rglob("*") if one.is_file()}
    wanted = {".log", ".index", ".timeindex", ".snapshot", ".metadata", ".properties", "leader-epoch-checkpoint"}
    assert kinds >= wanted | {"recovery-point-offset-checkpoint", "replication-offset-checkpoint"}
    assert len(list((data / "t-0").glob("*.log"))) > 1


@pytest.mark.usefixtures("open_umask")
def test_the_data_directory_itself_is_made_for_its_owner(tmp_path: Path) -> None:
    DataDirLock(str(tmp_path / "data")).release()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


@pytest.mark.parametrize("way", ["load", "write", "create", "append"])
def test_a_link_inside_the_directory_is_not_followed(tmp_path: Path, way: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"not the broker's")
    root = tmp_path / "data"
    root.mkdir()
    for name in ("f", "f.tmp"):
        (root / name).symlink_to(elsewhere)
    disk = RealDisk(root, lambda completion: completion())
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT012 - opening is lazy, so the handle is asked for, too
            if way == "load":
                disk.load("f")
            elif way == "write":
                disk.write_atomic("f", b"ours")
            else:
                disk.open("f", create=way == "create").append([b"ours"])
        assert caught.value.errno == errno.ELOOP
    finally:
        disk.close()
    assert elsewhere.read_bytes() == b"not the broker's"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory as a broker leaves it."""
    data = tmp_path_factory.mktemp("served") / "data"
    with broker("--port", "0", "--data-dir", str(data), "--topic", "t:1") as process:
        with Producer(bootstrap_servers=f"127.0.0.1:{process.port}") as producer:
            producer.send("t", b"v").result(60)
        assert process.end() == 0
    return data


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("t-0", "is left as it is"),
        ("t-0/00000000000000000000.log", "is left as it is"),
        ("t-0/00000000000000000000.index", "is replaced"),
        ("t-0/leader-epoch-checkpoint", "is replaced"),
        ("__cluster_metadata-0", "keeps it from starting"),
        ("meta.properties", "keeps it from starting"),
        ("recovery-point-offset-checkpoint", "is replaced"),
        (".kafka_cleanshutdown", "is replaced"),
        (NAME, "is replaced"),
        (".lock", "is left as it is"),
    ],
)
def test_what_became_a_link_between_two_starts_is_not_followed(
    served: Path, tmp_path: Path, name: str, how: str
) -> None:
    """A real start with a link in the place of what was there, or of what Apache Kafka has (`.lock`)."""
    data, elsewhere, link = tmp_path / "data", tmp_path / "elsewhere", tmp_path / "data" / name
    shutil.copytree(served, data)
    if link.exists():
        link.rename(elsewhere)
    else:
        elsewhere.write_bytes(b"not the broker's")
    link.symlink_to(elsewhere)
    before = tree(elsewhere), elsewhere.stat().st_mode, elsewhere.is_dir() or elsewhere.read_bytes()
    try:
        with broker("--port", "0", "--data-dir", str(data)) as process:
            with Producer(bootstrap_servers=f"127.0.0.1:{process.port}", config=SHORT) as producer:
                sent = producer.send("t", b"more").exception(60)
            assert (sent is not None) is (how == "is left as it is" and name != ".lock")
            assert process.end() == 0
            said = "".join(process.errors)
        assert how != "keeps it from starting"
    except AssertionError as refused:
        assert how == "keeps it from starting"
        said = str(refused)
        assert "exit code 2" in said
    assert (tree(elsewhere), elsewhere.stat().st_mode, elsewhere.is_dir() or elsewhere.read_bytes()) == before
    assert link.is_symlink() is (how != "is replaced")
    assert how == "is replaced" or name == ".lock" or name in said
