"""`barnabas health`: whether a broker serves, for scripts and containers."""

from __future__ import annotations

import json
from collections.abc import Sequence

from barnabas.cli.codes import REFUSED, WRONG
from barnabas.cli.options import Options, server_argument, server_of
from barnabas.cli.speak import fail, say


def parser() -> Options:
    """The options of `barnabas health`."""
    options = Options(
        prog="barnabas health",
        description="Exit 0 if a broker serves, else 1, whatever the reason: containers know no other codes.",
        examples=("barnabas health", "until barnabas health; do sleep 1; done"),
    )
    server_argument(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when it serves, 1 when it does not."""
    options = parser()
    given = options.read(arguments)
    server = server_of(options, given)
    from barnabas.cli.look import get
    from barnabas.protocol.errors import BarnabasError, ConfigError

    try:
        status, body = get(server, "/health", timeout_s=3.0)
    except ConfigError as error:
        return fail(str(error), WRONG)
    except BarnabasError as error:
        return fail(str(error), REFUSED)
    if status not in (200, 503):
        return fail(f"{server} answers with status {status}: {body.strip()}", REFUSED)
    if status != 200:
        return fail(f"{server} {_why_not(body)}", REFUSED)
    say(f"{server} serves")
    return 0


def _why_not(body: str) -> str:
    """What a page that answers 503 says: an MQTT bridge gives its reason, a broker has one alone."""
    try:
        return f"carries nothing: {json.loads(body)['why']}"
    except (ValueError, LookupError, TypeError):
        return "is starting or stopping"
