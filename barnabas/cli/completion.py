"""`barnabas completion bash|zsh|tcsh`: what makes a shell complete commands, options and paths (through `shtab`)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from barnabas.cli import COMMANDS
from barnabas.cli.codes import HERE
from barnabas.cli.options import Options, verbs_of
from barnabas.cli.speak import fail, say

_SHELLS: Final = ("bash", "zsh", "tcsh")
_PATHS: Final = {"dir": "DIRECTORY", "data_dir": "DIRECTORY", "path": "FILE", "config": "FILE"}
"""Arguments that are completed as paths."""


def parser() -> Options:
    """The options of `barnabas completion`."""
    options = Options(
        prog="barnabas completion",
        description="Print what makes a shell complete commands, options and paths. It needs the package shtab.",
        examples=(
            "barnabas completion bash > ~/.local/share/bash-completion/completions/barnabas",
            "barnabas completion zsh > ~/.zfunc/_barnabas            # a directory of $fpath",
        ),
    )
    options.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))
    return options


def main(arguments: Sequence[str]) -> int:
    """Print a shell's script."""
    given = parser().read(arguments)
    try:
        import shtab
    except ImportError:
        return fail('completion needs shtab: pip install "barnabas[completion]"', HERE)
    whole = whole_parser()
    for command in verbs_of(whole).values():
        _complete_paths(command, shtab)
        for verb in verbs_of(command).values():
            _complete_paths(verb, shtab)
    say(shtab.complete(whole, given.shell))
    return 0


def whole_parser() -> Options:
    """All commands as verbs of one parser."""
    whole = Options(prog="barnabas", description="A small, instant, transparent Kafka broker.")
    commands = whole.add_subparsers(metavar="COMMAND", parser_class=Options)
    for name, (module, what) in COMMANDS.items():
        own: Any = import_module(module).parser()
        commands.add_parser(name, help=what, description=what, parents=[own], add_help=False)
    return whole


def _complete_paths(options: argparse.ArgumentParser, shtab: Any) -> None:
    for action in options._actions:
        if action.dest in _PATHS:
            action.complete = getattr(shtab, _PATHS[action.dest])  # type: ignore[attr-defined]
