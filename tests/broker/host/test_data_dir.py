"""A data directory that cannot be served from is refused in one sentence, and nothing in it is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.broker.host.data_dir import DataDirLock, DataDirUnusable


def test_a_directory_that_is_not_ours_to_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser may write everywhere, so the system's answer is made up."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(DataDirUnusable, match="is not writable for this user; change its owner, or name another"):
        DataDirLock(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
