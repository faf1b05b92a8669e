"""`barnabas mqtt --explain` and `--check`, as a person types them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.process import run

EXAMPLE = str(Path(__file__).parents[2] / "configs/mqtt.toml")


def test_it_says_which_rule_takes_a_topic_and_what_comes_out() -> None:
    told = run("mqtt", "--config", EXAMPLE, "--explain", "sensors/attic/temperature", "--payload", "21.5")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[1] == "subscribed sensors/#, QoS 1"
    assert lines[2].startswith("takes it   ")
    assert "configs/mqtt.toml:" in lines[2]
    assert "[[rules]] 1: filter sensors/+/temperature" in lines[2]
    assert "record     to temperature" in lines
    assert "key        attic" in lines
    assert "header     room = attic" in lines
    assert lines[-1] == "value      as it is, once it was seen to be JSON: 21.5"


def test_it_says_why_one_is_refused_and_where_it_goes_and_which_would_not_come() -> None:
    told = run("mqtt", "--config", EXAMPLE, "--explain", "sensors/attic/temperature", "--payload", "warm").stdout
    assert "[[rules]] 1: the payload is no JSON" in told
    assert told.splitlines()[-1] == "record     to mqtt.dead-letter, the payload as it is"
    assert "subscribed no: it meets none of sensors/#" in run("mqtt", "--config", EXAMPLE, "--explain", "x").stdout


def test_a_filter_is_no_topic_to_explain() -> None:
    told = run("mqtt", "--config", EXAMPLE, "--explain", "sensors/+/temperature")
    assert (told.returncode, told.stdout) == (2, "")
    assert "--explain: 'sensors/+/temperature': + and # stand in filters alone" in told.stderr
    assert "1 to 65535 bytes" in run("mqtt", "--config", EXAMPLE, "--explain", "").stderr


def test_a_bad_file_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text('[mqtt]\nclient_id = "x"\n\n[[rules]]\nfilter = "a/b#"\ntopic = "t"\n')
    told = run("mqtt", "--config", str(path), "--check")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith(f"barnabas: {path}:4 [[rules]] 1: filter: a/b#: # stands alone in the last level")
    assert len(told.stderr.splitlines()) == 1
    assert run("mqtt", "--config", EXAMPLE, "--check").stdout.startswith(f"{EXAMPLE} is good: 2 rules in, 1 out")


def test_without_its_packages_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['aiomqtt'] = None; from barnabas.cli.mqtt import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "--config", EXAMPLE]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 4
    hint = "the bridge needs the package aiomqtt: run pip install '.[mqtt]' in a checkout of Barnabas"
    assert told.stderr == f"barnabas: {hint}\n"
