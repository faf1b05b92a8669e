"""Options as all commands take them: before the verb and behind it, with examples, errors in one sentence.

Nothing here, and nothing that a command imports before it runs, loads the client: help and completion come at once.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from barnabas.cli.codes import WRONG
from barnabas.cli.speak import fail

DEFAULT_SERVER: Final = "localhost:9092"
TIMEOUT_MS: Final = 10_000
"""How long a command waits for an answer, unless `-X default.api.timeout.ms=...` says otherwise."""
_WHICH: Final = "host:port (localhost:9092), or the data directory of a broker on this machine (./DIRECTORY)"
_OPTION: Final = re.compile(r"-(?!$|[0-9])")
"""What begins so is an option: neither `-` nor a number below 0."""
_CODES: Final = "exit codes: 0 done, 1 refused, 2 wrong call, 3 no broker, 4 this machine (barnabas --help)"

_SERVER, _VERB, _TOPIC = "--server (-b)", "a verb without dashes, first", "a name without an option"
_ELSEWHERE: Final = {
    "--bootstrap-server": _SERVER,
    "--bootstrap-servers": _SERVER,
    "--broker-list": _SERVER,
    "--brokers": _SERVER,
    "--topic": _TOPIC,
    "-t": _TOPIC,
    "--from-beginning": "-o beginning",
    "--max-messages": "--count (-c)",
    "--property": "--setting (-X)",
    "--command-property": "--setting (-X)",
    "--consumer-property": "--setting (-X)",
    "--producer-property": "--setting (-X)",
    "--compression-codec": "--compression (-z)",
    "--config": "--set",
    "--to-earliest": "--to earliest",
    "--to-latest": "--to latest",
    "--to-offset": "--to OFFSET",
    "--to-datetime": "--to TIME",
    **dict.fromkeys(("--list", "--create", "--describe", "--alter", "--reset-offsets", "--delete"), _VERB),
}
"""Options of Kafka's own tools, of kcat and of rpk, and what they are here."""


class Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal; asked of the system itself, for the import of `shutil` costs 2 ms."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(1).columns
        except (ValueError, OSError):
            columns = 100
        super().__init__(prog, width=max(columns - 2, 40), max_help_position=28)


class Options(argparse.ArgumentParser):
    """Options with examples, whose errors are one sentence.

    `examples` are whole lines, with a remark behind two spaces and #; `tests/cli` reads every one of them.
    """

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        self.examples = tuple(examples)
        told = "\n".join(["examples:", *(f"  {line}" for line in examples)]) + "\n\n" if examples else ""
        settings = {"formatter_class": Help, "allow_abbrev": False, "epilog": told + _CODES, **settings}
        super().__init__(**settings)
        self.hint = ""  # of an option that there is not

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with 2."""
        self.exit(fail(f"{message}{self.hint} ({self.prog} --help says more)", WRONG))

    def print_help(self, file: Any = None) -> None:
        """Print the help; `argparse` would say nothing of an output that fails."""
        print(self.format_help(), end="", file=file)

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """What was given. Options of a verb may stand before it, and a value may begin with `-`."""
        arranged = self._arranged(arguments)
        for each in (self, *verbs_of(self).values()):
            each.hint = self._hint(arranged)
        return self.parse_args(arranged)

    def _hint(self, arranged: Sequence[str]) -> str:
        """What the first option is here that only other tools have; what comes near it, or the verb, if none has it."""
        verbs = verbs_of(self)
        words = arranged[: arranged.index("--")] if "--" in arranged else arranged
        verb = verbs.get(words[0]) if words else None
        known = {name for each in (self, verb) if each is not None for name in each._option_string_actions}
        of_verbs = {name for each in verbs.values() for name in each._option_string_actions}
        for word in words:
            name = word.partition("=")[0]
            if name in known or not _OPTION.match(name):
                continue
            if name in _ELSEWHERE and name not in of_verbs:
                return f"; {name} is {_ELSEWHERE[name]} here"
            if name.startswith("--"):
                return _near(name, known if verb else known | of_verbs)
        return _near(words[0], verbs) if verbs and verb is None and words else ""

    def _arranged(self, given: Sequence[str]) -> list[str]:
        """The verb, options, and then what is none: `argparse` would take some of the latter apart."""
        verbs = verbs_of(self)
        with_value = {name for each in (self, *verbs.values()) for name in _with_value(each)}
        options: list[str] = []
        plain: list[str] = []
        words = list(given)
        while words and words[0] != "--":
            word = words.pop(0)
            if word in with_value and words:
                options += _joined(word, words.pop(0))
            else:
                (options if _OPTION.match(word) else plain).append(word)
        verb = [plain.pop(0)] if verbs and plain else []
        return [*verb, *options, *plain, *words]


def _near(name: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a sentence."""
    from barnabas.cli.near import did_you_mean

    meant = did_you_mean(name, known)
    return meant and f"; {meant}"


def _with_value(options: argparse.ArgumentParser) -> Iterable[str]:
    """The names of options that take one value."""
    for action in options._actions:
        if action.option_strings and action.nargs is None:
            yield from action.option_strings


def _joined(name: str, value: str) -> list[str]:
    """An option and its value, so that one that begins with `-` is none the less a value."""
    if not value.startswith("-"):
        return [name, value]
    return [f"{name}={value}" if name.startswith("--") else name + value]


def verbs_of(options: argparse.ArgumentParser) -> Mapping[str, Options]:
    """The verbs of a command, by name."""
    for action in options._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


class Verbs:
    """The verbs of a command. Options that all of them have are told by its own help, too."""

    def __init__(self, options: Options, *shared: Any, required: bool = True) -> None:
        self._options, self._shared = options, shared
        for add in shared:
            add(options)
        self._verbs = options.add_subparsers(dest="verb", required=required, metavar="VERB", parser_class=Options)

    def add(self, name: str, what: str, *examples: str) -> Options:
        """A verb: its help in a few words, and examples."""
        verb: Options = self._verbs.add_parser(name, help=what, description=sentence(what), examples=examples)
        for add in self._shared:
            add(verb)
        return verb


def sentence(what: str) -> str:
    """Some words as a sentence."""
    return f"{what[0].upper()}{what[1:]}."


# ---- what many commands take -----------------------------------------------------------------------------------------


def server_option(options: argparse.ArgumentParser) -> None:
    """The option that says which broker."""
    which = f"the broker: {_WHICH}; that of cluster up stands for all of its brokers"
    options.add_argument("--server", "-b", metavar="HOST:PORT", type=address, default=DEFAULT_SERVER, help=which)


def client_options(options: argparse.ArgumentParser) -> None:
    """Which broker, and settings of the client."""
    server_option(options)
    options.add_argument(
        "--setting",
        "-X",
        metavar="KEY=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="a setting of the client, such as request.timeout.ms=1000 (repeatable)",
    )


def json_option(options: argparse.ArgumentParser) -> None:
    """The same for programs."""
    options.add_argument("--json", action="store_true", help="one JSON object in a line for each, for programs")


def server_argument(options: argparse.ArgumentParser) -> None:
    """The argument that says which broker, for commands that take no other; the option of all others says it, too."""
    options.add_argument("address", nargs="?", metavar="HOST:PORT", type=_one_address, help=_WHICH)
    options.add_argument("--server", "-b", metavar="HOST:PORT", type=_one_address, help="the same")


def server_of(options: argparse.ArgumentParser, given: argparse.Namespace) -> str:
    """The broker that `server_argument` was given."""
    if given.address and given.server and given.address != given.server:
        options.error(f"{given.address} and --server {given.server} are two brokers; drop one of them")
    return given.address or given.server or DEFAULT_SERVER


def settings_of(given: argparse.Namespace, timeout_ms: int = TIMEOUT_MS) -> dict[str, Any]:
    """The settings of a client, as `client_options` was given them; what it says is told as a command's (`heard`)."""
    from barnabas.cli.heard import hear_clients

    hear_clients()
    return {"bootstrap.servers": given.server, "default.api.timeout.ms": timeout_ms} | dict(given.setting)


def shared_settings_of(given: argparse.Namespace) -> dict[str, Any]:
    """Those of them that every client takes, for an admin client beside a consumer."""
    from dataclasses import fields

    from barnabas.net.config import ClientConfig

    known = {each.name.replace("_", ".") for each in fields(ClientConfig)}
    return {name: value for name, value in settings_of(given).items() if name.replace("_", ".") in known}


def address(text: str) -> str:
    """`host:port` as it is, `PLAINTEXT://` before it or not; a data directory's path as that of the socket in it.

    The directory of a cluster of this machine stands for all of its brokers.
    """
    if "://" in text:
        protocol, _, rest = text.partition("://")
        if protocol.upper() != "PLAINTEXT":
            raise argparse.ArgumentTypeError(f"{text}: write host:port, without {protocol}://")
        text = rest
    if "/" not in text:
        return text
    path = os.path.abspath(text)
    if os.path.isfile(os.path.join(path, "cluster.json")):
        from pathlib import Path

        from barnabas.cli.cluster_files import plan_of

        return plan_of(Path(path)).bootstrap_servers
    return os.path.join(path, "barnabas.socket") if os.path.isdir(path) else path


def _one_address(text: str) -> str:
    """`address` of one broker."""
    told = address(text)
    if "/" in text and "," in told:
        raise argparse.ArgumentTypeError(f"{text} is of several brokers; name one: {text.rstrip('/')}/broker-1")
    return told


def _setting(text: str) -> tuple[str, str]:
    name, value = pair(text)
    plain = name.replace("_", ".")
    if plain == "group.id":
        raise argparse.ArgumentTypeError(f"{text}: consume has --group for it")
    if plain.endswith("serializer"):
        raise argparse.ArgumentTypeError(f"{text}: records are bytes here; leave it out")
    return name, value


def pair(text: str) -> tuple[str, str]:
    """`KEY=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text}: write it as KEY=VALUE")
    return name.strip(), value


def named(what: str) -> Any:
    """A type of arguments that are names and must not be empty."""

    def name(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"{what}'s name cannot be empty")
        return text

    return name


def whole(text: str) -> int:
    """A whole number from 0 on."""
    return _whole(text, 0, 2**63 - 1)


def count(text: str) -> int:
    """A whole number from 1 on."""
    return _whole(text, 1, 2**63 - 1)


def int32(text: str) -> int:
    """A whole number from 1 on that the protocol has four bytes for."""
    return _whole(text, 1, 2**31 - 1)


def int16(text: str) -> int:
    """A whole number from 1 on that the protocol has two bytes for."""
    return _whole(text, 1, 2**15 - 1)


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or not least <= int(text[:20]) <= most:
        raise argparse.ArgumentTypeError(
            f"{text}: write a whole number from {least} {'on' if most == 2**63 - 1 else f'to {most}'}"
        )
    return int(text)
