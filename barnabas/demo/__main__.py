"""`python -m barnabas.demo`: see `barnabas.demo`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.demo.machine_run import MachineDemo
    from barnabas.demo.place import Place
    from barnabas.demo.run import Demo
    from barnabas.demo.screen import Screen

_SECONDS_DEFAULT = 20.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Runs the demo; 0 when it ended by itself, 130 on Ctrl-C, 2 when something is missing, 1 on a failure."""
    try:
        for number in _SIGNALS:  # first of all; and a script's background job starts with Ctrl-C ignored
            signal.signal(number, _as_interrupt)
        return _run(_arguments())
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who read the output went away (`| head`): there is nobody to tell, and Python's own last flush must not try.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="barnabas.demo", description="A year of flights through Barnabas and PySpark."
    )
    parser.add_argument("--mqtt", action="store_true", help="instead, this machine's own figures by way of MQTT")
    parser.add_argument("--watch", action="store_true", help="keep broker and job up until Ctrl-C")
    parser.add_argument("--seconds", type=float, default=_SECONDS_DEFAULT, help="how long the year takes (default 20)")
    parser.add_argument("--dir", type=Path, help="where picture and log go (default: a new temporary directory)")
    return parser.parse_args()


def _run(arguments: argparse.Namespace) -> int:
    # Only now: what is imported here takes a second, in which Ctrl-C must already be understood.
    from barnabas.demo.place import Place
    from barnabas.demo.screen import Screen

    try:
        place = Place(arguments.dir)
    except OSError as error:
        print(f"demo: {arguments.dir or 'the temporary directory'} cannot be used: {error}", file=sys.stderr)
        return 2
    try:
        return _run_at(place, arguments, Screen())
    finally:
        _ignore_signals()
        place.close()


def _run_at(place: Place, arguments: argparse.Namespace, screen: Screen) -> int:
    from barnabas.protocol.errors import BarnabasError

    demo = _demo(arguments, place, screen)
    try:
        demo.run(watch=arguments.watch)
    except KeyboardInterrupt:
        print("\nstopping" + (", as soon as Spark is up and can be told" if demo.spark_is_starting else ""), flush=True)
        return 130
    except BrokenPipeError:
        raise
    except (BarnabasError, ImportError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 2
    except Exception:
        # Spark's failures are pages of Java: they belong with its other words.
        place.keep_log()
        logging.exception("the demo failed")
        print(f"\ndemo: it failed on the way; what happened stands at the end of {place.log_file}", file=sys.stderr)
        return 1
    finally:
        _ignore_signals()  # from here on a second Ctrl-C must not leave a JVM behind
        demo.close()
    return 0


def _demo(arguments: argparse.Namespace, place: Place, screen: Screen) -> Demo | MachineDemo:
    seconds = max(arguments.seconds, 0.1)
    if arguments.mqtt:
        from barnabas.demo.machine_run import MachineDemo

        return MachineDemo(place, seconds, screen)
    from barnabas.demo.run import Demo

    return Demo(place, seconds, screen)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    _ignore_signals()  # once is enough
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
