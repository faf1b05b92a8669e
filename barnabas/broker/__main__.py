"""`barnabas broker`, also `python -m barnabas.broker`: options in, one broker until a signal ends it."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig, Loaded

DEFAULT_PORT = 9092

_EPILOG = """\
Settings carry Kafka's names. --set wins over the environment (BARNABAS_LOG_RETENTION_MS, then KAFKA_LOG_RETENTION_MS),
that over the file, that over the default. What clients set while the broker ran is stored, and wins over all of these.

examples:
  barnabas broker                                          # localhost:9092, data in $XDG_DATA_HOME/barnabas
  barnabas broker --memory --port 0 --topic flights:4      # a free port, which is printed
  barnabas broker --config server.properties --set log.retention.ms=60000

exit codes: 0 it was stopped, 1 its data directory has failed, 2 it could not start, and changed nothing
"""


class Options(argparse.ArgumentParser):
    """Options whose errors are one sentence; `prog` names the command."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with 2."""
        self.exit(2, f"barnabas: {message} ({self.prog} --help says more)\n")


class Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal.

    Made for every option that is added. Left to itself it asks `shutil`, whose import costs 2 ms and 600 KB.
    """

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(1).columns
        except (ValueError, OSError):
            columns = 80
        super().__init__(prog, width=columns - 2)


def parser() -> argparse.ArgumentParser:
    """The options of `barnabas broker`."""
    options = Options(
        prog="barnabas broker",
        description="Serve Kafka's protocol until SIGTERM or Ctrl-C.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    options.add_argument("--port", type=int, help="port to listen on (9092); 0 takes a free one")
    options.add_argument("--host", help="address to listen on (127.0.0.1, and ::1 where it exists)")
    where = options.add_mutually_exclusive_group()
    where.add_argument("--data-dir", help="where the data lies ($XDG_DATA_HOME/barnabas)")
    where.add_argument("--memory", action="store_true", help="keep everything in memory")
    options.add_argument("--config", metavar="FILE", help="settings in Kafka's .properties format")
    options.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting (repeatable)")
    options.add_argument(
        "--topic", metavar="NAME:PARTITIONS", action="append", default=[], help="create a topic at start (repeatable)"
    )
    options.add_argument(
        "--ignore-stored-settings", action="store_true", help="pass over what clients set while the broker ran"
    )
    options.add_argument("--log-format", choices=("text", "json"), help="text on a terminal, else json")
    options.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info", help="(info)")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker; the exit code (1: its data directory failed, 2: it could not start, and changed nothing)."""
    given = parser().parse_args(arguments)
    gc.disable()  # until it serves: all that is made now stays, and so do the modules that are loaded next
    from barnabas.broker.host.directory import DirectoryFailed
    from barnabas.broker.host.process import fail, run
    from barnabas.protocol.errors import BarnabasError

    try:
        loaded = settings(given)
        data_dir = None if given.memory else _data_dir(given, loaded.config)
        _log(given)
        for warning in loaded.warnings:
            logging.getLogger("barnabas").warning("%s", warning)
        if given.ignore_stored_settings:
            logging.getLogger("barnabas").warning("settings that are stored are ignored until the next start")
        run(loaded.config, data_dir, stored_settings=not given.ignore_stored_settings)
    except DirectoryFailed as error:
        fail(str(error))
        return 1
    except BarnabasError as error:
        return fail(str(error))
    except OSError as error:  # the disk under the data directory
        return fail(f"cannot start: {error.strerror or error}{f' ({error.filename})' if error.filename else ''}")
    return 0


def settings(given: argparse.Namespace) -> Loaded:
    """All settings, from the options, the environment and the file.

    Raises:
        BarnabasError: one that cannot be used, or a file that cannot be read.
    """
    from barnabas.broker.config import load
    from barnabas.protocol.errors import BarnabasError

    overrides: dict[str, str] = {}
    for entry in given.set:
        name, equals, value = entry.partition("=")
        if not equals:
            raise BarnabasError(f"--set {entry}: write it as KEY=VALUE")
        overrides[name.strip()] = value
    if given.topic:
        overrides["barnabas.topics"] = ", ".join(filter(None, [overrides.get("barnabas.topics"), *given.topic]))
    if given.port is not None and not 0 <= given.port <= 65535:
        raise BarnabasError(f"--port {given.port}: write a port between 0 and 65535")
    text = ""
    if given.config is not None:
        try:
            with open(given.config, encoding="utf-8-sig") as file:  # some editors begin with a mark
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise BarnabasError(f"--config {given.config} cannot be read: {reason}") from error
    if given.port is not None or given.host is not None:
        if "listeners" in overrides:
            raise BarnabasError("--set listeners says where to listen, so leave --host and --port out")
        host = given.host or "127.0.0.1"
        port = DEFAULT_PORT if given.port is None else given.port
        overrides["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    return load(overrides=overrides, environment=os.environ, properties=text)


def _data_dir(given: argparse.Namespace, config: BrokerConfig) -> str:
    from barnabas.broker.host.data_dir import default_data_dir

    if given.data_dir is not None:
        return str(given.data_dir)
    return config.data_dirs[0] if config.data_dirs else default_data_dir(os.environ)


def _log(given: argparse.Namespace) -> None:
    from barnabas.broker.host.logs import set_up

    set_up(given.log_format, level=getattr(logging, given.log_level.upper()))


if __name__ == "__main__":
    sys.exit(main())
