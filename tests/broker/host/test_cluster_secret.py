"""The file of the cluster's secret: who may read it, what it may hold, and that nobody is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.host.cluster_secret import read_secret
from barnabas.protocol.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"0123456789abcdef0123\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_it_is_what_the_file_holds_without_the_line_s_end(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert read_secret(str(file)) == b"0123456789abcdef0123"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o666, 0o610, 0o601])
def test_one_that_others_may_use_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigError, match=rf"others may use it \(mode {mode:04o}\); make it yours alone: chmod 600"):
        read_secret(str(file))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "has 0 bytes"),
        (b"  short\n\n", "has 5 bytes"),
        (b"x" * 15, "has 15 bytes"),
        (b"x" * 4097, "has more than 4096 bytes"),
    ],
)
def test_one_that_is_too_short_or_too_long_is_refused_and_not_told(file: Path, content: bytes, told: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{told}; write 16 to 4096 that nobody can guess") as refused:
        read_secret(str(file))
    assert "short" not in str(refused.value).replace(str(file), "")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"barnabas.cluster.secret.file=.*: it is no file"):
        read_secret(str(tmp_path))
    with pytest.raises(ConfigError, match="it cannot be read: No such file"):
        read_secret(str(tmp_path / "missing"))
