"""What all commands share: where options may stand, help with examples, one exit code for one kind of fault."""

from __future__ import annotations

import io
import logging
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from barnabas.cli import COMMANDS
from barnabas.cli.codes import TABLE, code_of
from barnabas.cli.completion import whole_parser
from barnabas.cli.look import NoBroker
from barnabas.cli.options import Options, _with_value, verbs_of
from barnabas.client.errors import RecordTooLarge
from barnabas.net.errors import ClientTimeout, ConfigError, Disconnected
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from tests.cli.process import run
from tests.cli.terminal import call

OWN = [name for name in COMMANDS if name != "broker"]


def parsers() -> Iterator[Options]:
    """Every command and every verb of it."""
    for name in OWN:
        command: Options = import_module(COMMANDS[name][0]).parser()
        yield command
        yield from verbs_of(command).values()


def called(parser: Options) -> str:
    return parser.prog.removeprefix("barnabas ").replace(" ", "-")


PARSERS = list(parsers())


@pytest.mark.parametrize("parser", PARSERS, ids=called)
def test_every_help_has_examples_that_are_right_and_the_exit_codes(parser: Options) -> None:
    told = parser.format_help()
    assert parser.examples
    assert "exit codes: 0 done" in told
    assert all(line in told for line in parser.examples)
    for line in parser.examples:
        calls = [part for part in line.partition("  #")[0].split("|") if "barnabas" in part]
        for one in calls:
            _, _, words = one.partition("barnabas ")
            command, *arguments = shlex.split(words.partition("; do")[0].partition(" < ")[0].partition(" > ")[0])
            import_module(COMMANDS[command][0]).parser().read(arguments)


@pytest.mark.parametrize("name", [name for name in OWN if verbs_of(import_module(COMMANDS[name][0]).parser())])
def test_no_name_is_an_option_with_a_value_in_one_verb_and_without_in_another(name: str) -> None:
    """Or nobody could tell what stands before the verb."""
    verbs = verbs_of(import_module(COMMANDS[name][0]).parser()).values()
    with_value = {each for verb in verbs for each in _with_value(verb)}
    for verb in verbs:
        assert with_value & set(verb._option_string_actions) == set(_with_value(verb))


@pytest.mark.parametrize(
    "call",
    [
        ["list", "-b", "h:1", "--json", "-X", "client.id=me"],
        ["-b", "h:1", "--json", "-X", "client.id=me", "list"],
        ["--server", "h:1", "list", "--json", "-Xclient.id=me"],
        ["--server=h:1", "--json", "list", "--setting=client.id=me"],
        ["-bh:1", "--setting", "client.id=me", "list", "--json"],
    ],
)
def test_options_stand_before_and_behind_the_verb(call: list[str]) -> None:
    given = import_module("barnabas.cli.topics").parser().read(call)
    assert (given.verb, given.server, given.json, given.setting) == ("list", "h:1", True, [("client.id", "me")])


def test_options_of_a_verb_stand_before_it_too_and_between_its_names() -> None:
    parser = import_module("barnabas.cli.topics").parser()
    given = parser.read(["-p", "3", "create", "a", "-r", "2", "b", "--", "-c"])
    assert (given.partitions, given.replication_factor, given.names) == (3, 2, ["a", "b", "-c"])


def test_options_stand_before_the_command_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        at = f"127.0.0.1:{nobody.getsockname()[1]}"
    for before in (["-b", at], ["--server", at], [f"--server={at}"], [f"-b{at}"], ["-X", "client.id=me", "-b", at]):
        code, _, wrong = call(*before, "health")
        if "-X" in before:  # which it does not take
            assert (code, wrong.count("unrecognized arguments: -X")) == (2, 1)
        else:
            assert (code, wrong.count(at)) == (1, 1)
    assert call("--jsom", "topics", "list")[::2] == (
        2,
        "barnabas: there is no option --jsom before a command; barnabas --help says more\n",
    )


@pytest.mark.parametrize("value", ["-5", "-", "-b", "-%s"])
def test_a_value_may_begin_with_a_dash(value: str) -> None:
    given = import_module("barnabas.cli.consume").parser().read(["t", "-f", value, "--delimiter", value])
    assert (given.topics, given.format, given.delimiter) == (["t"], value, value.encode())


def test_a_number_below_0_is_no_option() -> None:
    given = import_module("barnabas.cli.explain").parser().read(["wheel", "--tick", "1", "-5"])
    assert (given.walk, given.delay_ms) == ("wheel", [-5])


def test_an_option_before_the_command_wants_its_value() -> None:
    said = "barnabas: -b wants a value, and then a command; barnabas --help says more\n"
    assert call("-b") == (2, b"", said)


def test_names_of_options_are_not_completed_by_the_parser() -> None:
    """What is short for one option today would be short for two tomorrow."""
    code, _, wrong = call("topics", "list", "--serv", "h:1")
    assert (code, "unrecognized arguments: --serv" in wrong) == (2, True)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("topics list --bootstrap-server h:1", "; --bootstrap-server is --server (-b) here ("),
        ("topics --list --brokers h:1", "; --list is a verb without dashes, first here ("),
        ("topics --bootstrap-server h:1 --list", "; --bootstrap-server is --server (-b) here ("),
        ("consume --topic t --max-messages=3", "; --topic is a name without an option here ("),
        ("consume t --from-beginning", "; --from-beginning is -o beginning here ("),
        ("consume -t t", "; -t is a name without an option here ("),
        ("produce t --producer-property acks=1", "; --producer-property is --setting (-X) here ("),
        ("topics create t --partition 3", "; did you mean --partitions? ("),
        ("consume t --exi", "; did you mean --exit? ("),
        ("topics creat t", "; did you mean create? ("),
        ("cluster --json stauts", "; did you mean status? ("),
        ("cluster nothing-like-it", "'remove') ("),
        ("consume t --zzzzzz", "unrecognized arguments: --zzzzzz ("),
    ],
)
def test_an_option_of_another_tool_is_answered_with_ours(words: str, hint: str) -> None:
    code, _, wrong = call(*words.split())
    assert (code, wrong.count(hint), wrong.count("\n")) == (2, 1, 1)


def test_a_hint_is_of_its_own_call_alone() -> None:
    parser = import_module("barnabas.cli.consume").parser()
    assert parser.read(["t", "-f", "--topic", "--", "--from-beginning"]).topics == ["t", "--from-beginning"]
    assert parser.hint == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), 1),
        (BarnabasError("there is no group"), 1),
        (ConfigError("linger.ms"), 2),
        (RecordTooLarge("x"), 2),
        (ClientTimeout("x"), 3),
        (Disconnected("x"), 3),
        (NoBroker("x"), 3),
        (FileNotFoundError(2, "x"), 4),
        (OSError(28, "no space"), 4),
    ],
)
def test_one_exit_code_for_one_kind_of_fault(error: BaseException, code: int) -> None:
    assert code_of(error) == code
    assert code in TABLE


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "list"],
        ["produce", "t"],
        ["consume", "t"],
        ["groups", "list"],
        ["configs", "get", "topic", "t"],
        ["cluster"],
        ["top"],
    ],
)
def test_without_a_broker_every_command_ends_alike(words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        at = f"127.0.0.1:{nobody.getsockname()[1]}"
    fast = [] if words == ["top"] else ["-X", "default.api.timeout.ms=50", "-X", "request.timeout.ms=50"]
    code, told, wrong = call(*words, "-b", at, *fast, given=b"x\n")
    assert (code, told) == (3, b"")
    assert at in wrong


@pytest.mark.parametrize("command", OWN)
def test_help_and_completion_load_no_client(command: str) -> None:
    """What is typed with a tab must come at once."""
    program = (
        "import sys\n"
        "from importlib import import_module\n"
        f"import_module('{COMMANDS[command][0]}').parser().format_help()\n"
        "print([name for name in sys.modules if name.startswith(('barnabas.client', 'barnabas.net', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_every_command_verb_and_option(shell: str, tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    code, told, wrong = call("completion", shell)
    assert (code, wrong) == (0, "")
    script = told.decode()
    for name, command in verbs_of(whole_parser()).items():
        assert name in script
        assert all(verb in script for verb in verbs_of(command))
    if shell == "bash":
        (tmp_path / "script").write_text(script + COMPLETED)
        done = subprocess.run(
            ["bash", str(tmp_path / "script")], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == "topics\n--partitions\ngzip\n"


COMPLETED = """
complete_line() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    local function; function=$(complete -p barnabas | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
    "$function"; printf '%s\\n' "${COMPREPLY[@]}"
}
complete_line barnabas topi
complete_line barnabas topics create --parti
complete_line barnabas produce flights --compression gz
"""


def test_without_shtab_completion_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert call("completion", "bash") == (
        4,
        b"",
        'barnabas: completion needs shtab: pip install "barnabas[completion]"\n',
    )


def test_arguments_that_are_no_text_are_refused() -> None:
    code, _, wrong = call("topics", "create", "\udcff")
    assert (code, wrong) == (2, "barnabas: '\\udcff' is not UTF-8 text\n")


def test_what_keeps_a_client_waiting_begins_as_all_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody has set up `logging`, as in a command's process, it came without saying who says it."""
    last = logging.lastResort
    assert last is not None
    monkeypatch.setattr(last, "formatter", None)
    call("topics", "list", "-b", "127.0.0.1:1", "-X", "default.api.timeout.ms=1")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told = {"msg": "for %d s: %s", "args": (1, "a broker's name\x1b[2J"), "levelno": logging.WARNING}
    last.handle(logging.makeLogRecord(told))
    assert cast("io.StringIO", sys.stderr).getvalue() == "barnabas: for 1 s: a broker's name\\x1b[2J\n"


def test_a_screen_that_cannot_show_a_character_shows_its_number() -> None:
    ended = run("explain", "wheel", "1", environment={"PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", [["--help"], ["topics", "list"], ["explain", "wheel"]])
def test_a_closed_handle_is_no_traceback_and_no_socket_takes_its_place(words: list[str], closed: str) -> None:
    program = "import sys; from barnabas.cli import main; sys.exit(main())"
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        at = f"127.0.0.1:{nobody.getsockname()[1]}"
    more = ["-b", at, "-X", "default.api.timeout.ms=50"] if words[0] == "topics" else []
    command = ["bash", "-c", f'exec "$@" {closed}', "bash", sys.executable, "-c", program, *words, *more]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == (3 if words[0] == "topics" else 0)


@pytest.mark.parametrize(
    ("words", "into", "code", "said"),
    [
        (["--help"], "| true", 0, ""),
        (["topics", "--help"], "| true", 0, ""),
        (["explain", "wheel"], "| true", 0, ""),
        (["--help"], "> /dev/full", 4, "barnabas: No space left on device\n"),
        (["explain", "wheel"], "> /dev/full", 4, "barnabas: No space left on device\n"),
        (["topics", "--help"], "> /dev/full", 4, "barnabas: No space left on device\n"),
    ],
)
def test_an_output_that_takes_nothing(words: list[str], into: str, code: int, said: str) -> None:
    """A reader that has left is none of our business, a full disk is."""
    program = "import sys; from barnabas.cli import main; sys.exit(main())"
    line = f'"$@" {into}; exit ${{PIPESTATUS[0]}}'
    command = ["bash", "-c", line, "bash", sys.executable, "-c", program, *words]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, said)
