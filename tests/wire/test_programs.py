"""The programs of `clients/`: what is missing is named, and what is locked can be had anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wire.programs import SOURCES, ClientUnavailable, built, names
from tests.wire.tried import FRANZ_GO, JAVA, KAFKAJS, SARAMA, STREAMS


@pytest.mark.parametrize(("name", "tool"), [("sarama", "go"), ("kafkajs", "npm")])
def test_a_missing_tool_is_named(name: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ClientUnavailable, match=rf"^{tool} is not here: install "):
        built(name)
    assert not list((tmp_path / "cache" / "barnabas" / "clients").iterdir()), "a failed build leaves nothing"


def test_every_program_is_tried() -> None:
    assert names() == sorted(one.folder for one in (FRANZ_GO, JAVA, KAFKAJS, SARAMA, STREAMS))


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*/package-lock.json")), ids=lambda path: path.parent.name)
def test_what_is_locked_names_no_place_to_get_it_from(path: Path) -> None:
    text = path.read_text()
    assert "integrity" in text
    assert "://" not in text, "make it with npm's omit-lockfile-registry-resolved"
