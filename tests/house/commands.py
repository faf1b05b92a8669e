"""Makes docs/COMMANDS.md of the parsers of all commands, so that the page is never behind them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

from barnabas.cli import COMMANDS
from barnabas.cli.codes import TABLE
from barnabas.cli.options import verbs_of

HEAD = """\
# The command line

One command, `barnabas`, for this broker and for any Kafka (`-b host:port`). This page is made of the parsers themselves
(`./dev pages`); `--help` behind a command or a verb tells the same.

- Results go to standard output, what is wrong to standard error: one sentence that begins with `barnabas: `.
- Options stand anywhere: before the command, before its verb, behind both. Their names are not shortened. What begins
  with `-` and is no option stands behind `--`.
- `--json` prints an object in a line for each topic, group, setting or record. Bytes that are no UTF-8 text are
  `{"base64": "..."}` there, and null is `null`; `produce --json` takes what `consume --json` prints.
- Formats (`-f`) and places (`-o`) are kcat's. Two things differ: `-Z` prints NULL for what is null, not for what is
  empty, and a header without a value is its name alone. Without `-o`, `consume` begins at the end, and with `-e` at the
  beginning.
- A person who looks is told how far long work is: on standard error, on a terminal, after the first second.
- Nothing waits for a broker longer than 10 s, unless `-X default.api.timeout.ms=...` says so; `consume`, once it knows
  of its topics, 30 s for where they end: others lead by then what a silent broker led. What keeps it waiting is said
  as soon as it is known, in lines that begin with `barnabas: `, too.
- Tab completion: `barnabas completion bash > ~/.local/share/bash-completion/completions/barnabas`, and so for zsh and
  tcsh (it needs `pip install "barnabas[completion]"`).

"""


def page() -> str:
    """The text of the page."""
    return "".join([HEAD, *_codes(), *(part for name in COMMANDS for part in _command(name))])


def _codes() -> Iterator[str]:
    yield "## Exit codes\n\n| code | |\n|---|---|\n"
    yield from (f"| {code} | {what} |\n" for code, what in TABLE.items())
    yield (
        "\n`barnabas health` has 0 and 1 alone, whatever the reason, for containers know no other;\n"
        "`barnabas broker` ends with 0 when it was stopped, and with 2 when it could not start.\n"
    )


def _command(name: str) -> Iterator[str]:
    parser: argparse.ArgumentParser = import_module(COMMANDS[name][0]).parser()
    yield f"\n## barnabas {name}{_arguments(parser)}\n\n{parser.description}\n"
    verbs = verbs_of(parser)
    if not verbs:
        yield from _options(parser, set())
        return
    shared = {action.dest for action in parser._actions}
    yield from _options(parser, set(), examples=False)
    for verb, one in verbs.items():
        yield f"\n### barnabas {name} {verb}{_arguments(one)}\n\n{one.description}\n"
        yield from _options(one, shared)


def _arguments(parser: argparse.ArgumentParser) -> str:
    told = []
    for action in parser._actions:
        if not action.option_strings:
            name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
            told.append({"*": f"[{name} ...]", "?": f"[{name}]", "+": f"{name} ..."}.get(str(action.nargs), name))
    return "".join(f" {each}" for each in told)


def _options(parser: argparse.ArgumentParser, shared: set[str], *, examples: bool = True) -> Iterator[str]:
    rows = [
        action
        for action in parser._actions
        if action.dest not in {"help", "verb", *shared} and (action.option_strings or action.help)
    ]
    if rows:
        yield "\n| | |\n|---|---|\n"
    for action in rows:
        yield f"| {_names(action)} | {_cell((action.help or '').replace('%%', '%'))} |\n"
    told = getattr(parser, "examples", ())
    if told and examples:
        yield "\n```sh\n" + "".join(f"{line}\n" for line in told) + "```\n"


def _names(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return f"`{value}`"
    names = ", ".join(f"`{each}`" for each in action.option_strings)
    return names if action.nargs == 0 else f"{names} `{_cell(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
