"""The one console command, `barnabas`. Each command is a module that is loaded when it is called.

A command's module has `parser()`, which loads no client (so help and completion come at once), and `main(arguments)`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

COMMANDS: Final = {
    "broker": ("barnabas.broker.__main__", "serve Kafka's protocol on this machine"),
    "topics": ("barnabas.cli.topics", "list, create, describe, alter and delete topics"),
    "produce": ("barnabas.cli.produce", "send lines of standard input as records"),
    "consume": ("barnabas.cli.consume", "print records"),
    "groups": ("barnabas.cli.groups", "who reads in a group, how far behind it is, where it goes on"),
    "configs": ("barnabas.cli.configs", "show and change settings of topics, brokers and groups"),
    "cluster": ("barnabas.cli.cluster", "its id, brokers, controller, quorum and features"),
    "mqtt": ("barnabas.cli.mqtt", "carry messages from MQTT to Kafka, and records back"),
    "log": ("barnabas.cli.log", "check, show and repair the logs of a data directory"),
    "top": ("barnabas.cli.top", "watch the inside of a broker"),
    "explain": ("barnabas.cli.explain", "show how the inside works, step by step"),
    "simulate": ("barnabas.cli.simulate", "search for faults that would break a promise, under virtual time"),
    "health": ("barnabas.cli.health", "exit 0 if a broker serves, else 1"),
    "completion": ("barnabas.cli.completion", "what makes a shell complete all of this"),
}
_WITH_VALUE: Final = ("-b", "--server", "-X", "--setting")
_ALONE: Final = ("--json",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code (`codes`)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not of UTF-8
    try:
        try:
            return _run(given)
        finally:
            sys.stdout.flush()  # what it meets is met here, and not at the interpreter's end
    except BrokenPipeError:  # whoever read our output has left (`barnabas consume | head`)
        _leave_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        _leave_output()
        where = f"{error.filename}: " if error.filename else ""
        return _failed(error, f"{where}{error.strerror or error}")


def _open_what_is_closed() -> None:
    """Nothing in the place of each standard handle that was closed (`2>&-`).

    Else a socket would have its number: a broker would get what is written there, and libuv aborts when it closes one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _run(given: list[str]) -> int:
    before = _options(given)
    name, given = (given[len(before)], given[len(before) + 1 :]) if len(before) < len(given) else ("", [])
    odd = [word for word in given if not _is_text(word)]
    if odd and name != "broker":  # whose paths may be any bytes
        return _wrong(f"{odd[0]!r} is not UTF-8 text")
    if name in COMMANDS:
        return _command(COMMANDS[name][0], [*before, *given])
    if name in ("--version", "-V"):
        import barnabas

        print(f"barnabas {barnabas.__version__}")
        return 0
    if name in ("", "--help", "-h", "help"):
        print(_help())
        return 0 if name else 2
    if name in _WITH_VALUE:
        return _wrong(f"{name} wants a value, and then a command; barnabas --help says more")
    if name.startswith("-"):
        return _wrong(f"there is no option {name} before a command; barnabas --help says more")
    from barnabas.cli.near import did_you_mean

    hint = did_you_mean(name, COMMANDS) or f"there are {', '.join(COMMANDS)}"
    return _wrong(f"there is no command {name}; {hint}")


def _command(module: str, arguments: list[str]) -> int:
    from barnabas.protocol.errors import BarnabasError

    try:
        code: int = import_module(module).main(arguments)
    except BarnabasError as error:
        from barnabas.cli.codes import told

        return _failed(error, told(error))
    return code


def _failed(error: Exception, message: str) -> int:
    from barnabas.cli.codes import code_of
    from barnabas.cli.speak import fail

    return fail(message, code_of(error))


def _leave_output() -> None:
    """Nobody can be told anything any more; the interpreter would try it once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _options(given: Sequence[str]) -> list[str]:
    """What stands before the command: options that commands share."""
    at = 0
    while at < len(given):
        word = given[at]
        if word in _WITH_VALUE and at + 1 < len(given):
            at += 2
        elif word in _ALONE or (word.startswith(_WITH_VALUE) and word not in _WITH_VALUE):
            at += 1
        else:
            break
    return list(given[:at])


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # bytes that are none came as lone surrogates
        return False
    return True


def _wrong(message: str) -> int:
    print(f"barnabas: {message}", file=sys.stderr)
    return 2


def _help() -> str:
    from barnabas.cli.codes import TABLE

    commands = [f"  {name:10s} {what}" for name, (_, what) in COMMANDS.items()]
    codes = [f"  {code:<10d} {what}" for code, what in TABLE.items()]
    return "\n".join(
        [
            "usage: barnabas COMMAND ...",
            "",
            "A small, instant, transparent Kafka broker, and what to use it, or any Kafka, with.",
            "",
            *commands,
            "",
            "examples:",
            "  barnabas broker                                    a broker on localhost:9092",
            "  barnabas topics create flights --partitions 4",
            "  barnabas produce flights -K : < flights.txt        a record of each line, its key before the colon",
            "  barnabas consume flights -o beginning -f '%T %k %s\\n' --exit",
            "  barnabas -b kafka.example:9092 groups list         options may stand anywhere",
            "",
            "exit codes:",
            *codes,
            "",
            "barnabas COMMAND --help says more; barnabas --version says which release this is.",
        ]
    )
