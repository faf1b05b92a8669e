"""The one console command, `barnabas`. Each subcommand is a module that is loaded when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

COMMANDS: Final = {
    "broker": ("barnabas.broker.__main__", "serve Kafka's protocol on this machine"),
    "topics": ("barnabas.cli.topics", "list, create, delete and describe topics"),
    "groups": ("barnabas.cli.groups", "who reads in a group, how far behind it is, where it goes on"),
    "produce": ("barnabas.cli.produce", "send lines of standard input as records"),
    "consume": ("barnabas.cli.consume", "print records"),
    "top": ("barnabas.cli.top", "watch the inside of a broker"),
    "explain": ("barnabas.cli.explain", "show how the inside works, step by step"),
    "log": ("barnabas.cli.log", "check, show and repair the logs of a data directory"),
    "health": ("barnabas.cli.health", "exit 0 if a broker serves, else 1"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the exit code (2: the call was wrong)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else "--help"
    if name in COMMANDS:
        return _run(COMMANDS[name][0], given[1:])
    if name in ("--version", "-V"):
        import barnabas

        print(f"barnabas {barnabas.__version__}")
        return 0
    if name in ("--help", "-h", "help"):
        print(_help())
        return 0 if given else 2
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(COMMANDS)}"
    print(f"barnabas: there is no command {name}{hint}", file=sys.stderr)
    return 2


def _run(module: str, arguments: list[str]) -> int:
    try:
        code: int = import_module(module).main(arguments)
    except BrokenPipeError:  # whoever read our output has left (`barnabas consume | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _help() -> str:
    lines = [f"  {name:9s} {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: barnabas COMMAND ...",
            "",
            "A small, instant, transparent Kafka broker, and what to use it with.",
            "",
            *lines,
            "",
            "barnabas COMMAND --help says more; barnabas --version says which release this is.",
        ]
    )
