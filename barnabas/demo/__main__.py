"""`python -m barnabas.demo`: see `barnabas.demo`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from types import FrameType

from barnabas.demo.run import Demo
from barnabas.demo.screen import Screen
from barnabas.protocol.errors import BarnabasError

_SECONDS_DEFAULT = 20.0


def main() -> int:
    """Runs the demo; 0 when it ended by itself, 130 on Ctrl-C, 2 when something is missing."""
    parser = argparse.ArgumentParser(
        prog="barnabas.demo", description="A year of flights through Barnabas and PySpark."
    )
    parser.add_argument("--watch", action="store_true", help="keep broker and job up until Ctrl-C")
    parser.add_argument("--seconds", type=float, default=_SECONDS_DEFAULT, help="how long the year takes (default 20)")
    parser.add_argument("--dir", type=Path, help="where data, log and picture go (default: a new temporary directory)")
    arguments = parser.parse_args()
    directory = arguments.dir or Path(tempfile.mkdtemp(prefix="barnabas-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # a script's background job starts with Ctrl-C ignored
        signal.signal(number, _as_interrupt)
    # PySpark looks at pandas, which neither it nor the demo needs, and complains of versions newer than itself.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    demo = Demo(directory.resolve(), max(arguments.seconds, 0.1), Screen())
    try:
        demo.run(watch=arguments.watch)
    except KeyboardInterrupt:
        print("\nstopping", flush=True)
        return 130
    except (BarnabasError, ImportError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 2
    finally:
        # From here on a second Ctrl-C must not leave a JVM behind.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        demo.close()
    return 0


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
