"""What a person can get wrong: one clear sentence, exit code 2, nothing touched."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.cli.process import broker, run, tree


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "num.partitons=3"], "num.partitons (from --set) is no setting; did you mean num.partitions?"),
        (["--set", "num.partitions=many"], "num.partitions=many: not a whole number"),
        (["--set", "num.partitions=0"], "num.partitions=0: too small; write 1 or more (from --set)"),
        (["--set", "num.partitions"], "--set num.partitions: write it as KEY=VALUE"),
        (["--set", "listeners=9092"], "listeners has '9092'; write NAME://host:port"),
        (["--set", "listeners=SSL://127.0.0.1:0"], "listener SSL asks for SSL, which this release does not serve"),
        (["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--port", "1"], "leave --host and --port out"),
        (["--port", "65536"], "--port 65536: write a port between 0 and 65535"),
        (["--port", "0", "--topic", "a b"], "barnabas.topics: cannot read"),
        (["--port", "0", "--topic", "t:0"], "barnabas.topics: t has 0 partitions; write 1 to 10000"),
        (["--port", "abc"], "argument --port: invalid int value: 'abc' (barnabas broker --help says more)"),
        (["--prot", "1"], "unrecognized arguments: --prot 1 (barnabas broker --help says more)"),
        (["--memory", "--data-dir", "x"], "argument --data-dir: not allowed with argument --memory"),
        (["--port", "0", "--topic", ".."], ".. cannot be a topic's name"),
        (["--config", "/does/not/exist"], "--config /does/not/exist cannot be read: No such file or directory"),
        (["--host", "no.such.host.invalid", "--port", "0"], "'no.such.host.invalid', which does not resolve"),
        (["--host", "192.0.2.1", "--port", "0"], "192.0.2.1:0 is no address of this machine"),
        (["--port", "0", "--data-dir", "/dev/null/x"], "data directory /dev/null/x cannot be made: Not a directory"),
    ],
)
def test_one_clear_sentence_and_exit_code_2(options: list[str], sentence: str, tmp_path: Path) -> None:
    ended = run("broker", *options, environment={"XDG_DATA_HOME": str(tmp_path)})
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("barnabas: ")
    assert sentence in line
    assert ended.stdout == ""
    assert tree(tmp_path) == {}


def test_a_port_in_use_touches_no_data_directory(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("broker", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert ended.returncode == 2
    assert f"127.0.0.1:{port} is in use by another program" in ended.stderr
    assert tree(tmp_path) == {}


def test_a_second_broker_on_the_same_directory_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    with broker(
        "--port", "0", "--data-dir", str(tmp_path)
    ) as first:  # and no topic, whose small files come when they come
        before = sorted(tree(tmp_path))
        ended = run("broker", "--port", "0", "--data-dir", str(tmp_path))
        assert ended.returncode == 2
        assert f"another broker serves from {tmp_path}; stop it, or name another" in ended.stderr
        assert sorted(tree(tmp_path)) == before
        assert run("health", f"127.0.0.1:{first.port}").returncode == 0
        assert first.end() == 0


def test_a_foreign_directory_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")
    before = tree(tmp_path)
    ended = run("broker", "--port", "0", "--data-dir", str(tmp_path))
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert str(tmp_path) in ended.stderr
    assert tree(tmp_path) == before


def test_a_directory_of_apache_kafka_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\n")
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(b"x" * 100)
    before = tree(tmp_path)
    ended = run("broker", "--port", "0", "--data-dir", str(tmp_path))
    assert ended.returncode == 2, ended
    assert len(ended.stderr.splitlines()) == 1
    assert tree(tmp_path) == before


def test_a_directory_of_a_newer_format_is_refused_untouched(tmp_path: Path) -> None:
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process:
        assert process.end() == 0
    mine = tmp_path / "meta.properties"
    mine.write_text(mine.read_text().replace("barnabas.format=1", "barnabas.format=2"))
    before = tree(tmp_path)
    ended = run("broker", "--port", "0", "--data-dir", str(tmp_path))
    assert ended.returncode == 2
    assert f"{tmp_path}: the data directory has format 2, this release reads up to 1" in ended.stderr
    assert tree(tmp_path) == before


def test_settings_of_kafka_without_effect_are_named_once_and_unknown_variables_ignored(tmp_path: Path) -> None:
    environment = {
        "KAFKA_NUM_NETWORK_THREADS": "8",
        "KAFKA_OPTS": "-Xmx1g",
        "KAFKA_NO_SUCH_THING": "1",
        "KAFKA_NUM_PARTITIONS": "7",
    }
    with broker("--port", "0", "--memory", environment=environment) as process:
        assert process.end() == 0
    text = "".join(process.errors)
    assert text.count('settings of Apache Kafka that have no effect here: num.network.threads"') == 1
    assert "such" not in text
    assert "opts" not in text.lower()


def test_an_unknown_command_names_the_nearest() -> None:
    ended = run("borker")
    assert ended.returncode == 2
    assert ended.stderr == "barnabas: there is no command borker; did you mean broker?\n"
