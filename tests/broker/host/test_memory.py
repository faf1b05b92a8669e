"""How much may be held for requests, on large machines and in small containers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from barnabas.broker.account import UNLIMITED
from barnabas.broker.config import BrokerConfig, ConfigError, load
from barnabas.broker.handlers.config_entries import Source, broker_entries
from barnabas.broker.host import assemble
from barnabas.broker.host.memory import account_for, container_bytes, fitted

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("container", "limit"),
    [(None, 160 * MIB), (8192 * MIB, 160 * MIB), (512 * MIB, 128 * MIB), (256 * MIB, 100 * MIB)],
)
def test_160_mib_by_default_less_in_a_small_container_and_never_less_than_a_frame(
    container: int | None, limit: int
) -> None:
    assert account_for(fitted(BrokerConfig(), container)).limit == limit


def test_a_broker_that_starts_in_a_small_container_has_what_that_leaves_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(assemble, "container_bytes", lambda: 512 * MIB)
    caplog.set_level(logging.INFO, "barnabas")
    one = assemble.Assembly(load(overrides={"listeners": "PLAINTEXT://127.0.0.1:0"}).config, None)
    try:
        assert one.host.account.limit == 128 * MIB
        told = [text for text in caplog.messages if "queued.max.request.bytes" in text]
        assert len(told) == 1
        assert told[0].startswith(f"queued.max.request.bytes is {128 * MIB}, not {160 * MIB}: ")
        core = one.host.core
        entries = {each.name: each for each in broker_entries(core.image, core.static_config)}
        entry = entries["queued.max.request.bytes"]
        assert (entry.value, entry.source) == (str(128 * MIB), Source.STATIC_BROKER)
        assert entry.synonyms[1:] == [(entry.name, str(160 * MIB), Source.DEFAULT)]
    finally:
        one.release()


@pytest.mark.parametrize(
    ("container", "size"),
    [(None, 128), (8192, 128), (512, 128), (384, 110), (256, 46), (128, 8), (64, 8)],
)
def test_a_batch_is_unpacked_in_what_a_small_container_has_beside_the_account(
    container: int | None, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """128 MiB of one of 10 KB, beside an account that is full, ended a broker in 256 MiB."""
    caplog.set_level(logging.INFO, "barnabas")
    config = fitted(BrokerConfig(), container and container * MIB)
    assert config.barnabas_batch_bytes_max == size * MIB
    told = [text for text in caplog.messages if text.startswith("barnabas.batch.bytes.max is ")]
    assert len(told) == (size < 128)
    less = BrokerConfig(barnabas_batch_bytes_max=4 * MIB)
    assert fitted(less, container and container * MIB).barnabas_batch_bytes_max == 4 * MIB


@pytest.mark.parametrize("container", [None, 640 * MIB])
def test_where_there_is_room_nothing_is_told(container: int | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    config = BrokerConfig()
    assert fitted(config, container) is config
    assert not caplog.messages


def test_minus_one_is_no_limit_as_in_kafka() -> None:
    account = account_for(fitted(BrokerConfig(queued_max_request_bytes=-1), 256 * MIB))
    assert account.limit == UNLIMITED
    account.charge(1, "kept", 2**40)
    assert not account.short


def test_a_limit_below_one_largest_frame_is_refused_as_in_kafka() -> None:
    with pytest.raises(ConfigError, match=r"queued.max.request.bytes=5: .*write at least .*104857600.*or -1"):
        load(overrides={"queued.max.request.bytes": "5"})
    assert load(overrides={"queued.max.request.bytes": "-1"}).config.queued_max_request_bytes == -1


def test_the_least_limit_of_the_groups_above_a_process_counts(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    (root / "a/b").mkdir(parents=True)
    own.write_text("1:cpu:/x\n0::/a/b\n")
    assert container_bytes(str(root), str(own)) is None
    (root / "a/b/memory.max").write_text("max\n")
    assert container_bytes(str(root), str(own)) is None
    (root / "a/memory.max").write_text("1000\n")
    (root / "memory.max").write_text("2000\n")
    assert container_bytes(str(root), str(own)) == 1000


def test_version_1_of_control_groups_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    limit = tmp_path / "memory/memory.limit_in_bytes"
    limit.write_text("9223372036854771712\n")
    assert container_bytes(str(tmp_path), str(tmp_path / "none")) is None
    limit.write_text("1234\n")
    assert container_bytes(str(tmp_path), str(tmp_path / "none")) == 1234


def test_so_it_is_with_version_1_in_whatever_group_a_process_is(tmp_path: Path) -> None:
    """A service, or a shell of a container's: the root has no limit, the group has. In a container the root is it."""
    root, own = tmp_path / "cgroup", tmp_path / "own"
    (root / "memory/a/b").mkdir(parents=True)
    own.write_text("5:cpu,cpuacct:/x\n4:hugetlb,memory:/a/b\n1:name=systemd:/c:d\n0::/\n")
    (root / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert container_bytes(str(root), str(own)) is None
    (root / "memory/a/memory.limit_in_bytes").write_text("2000\n")
    assert container_bytes(str(root), str(own)) == 2000
    (root / "memory/a/b/memory.limit_in_bytes").write_text("1000\n")
    assert container_bytes(str(root), str(own)) == 1000
    own.write_text("4:memory:/docker/of-the-host\n")
    (root / "memory/memory.limit_in_bytes").write_text("3000\n")
    assert container_bytes(str(root), str(own)) == 3000
