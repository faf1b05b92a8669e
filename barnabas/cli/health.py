"""`barnabas health`: whether a broker serves, for scripts and containers."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.speak import Options, fail, say, server_argument, server_of


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when it serves, 1 when it does not."""
    options = Options(prog="barnabas health", description="Exit 0 if a broker serves, else 1.")
    server_argument(options)
    given = options.parse_args(arguments)
    server = server_of(options, given)
    from barnabas.cli.look import get
    from barnabas.protocol.errors import BarnabasError

    try:
        status, body = get(server, "/health", timeout_s=3.0)
    except BarnabasError as error:
        return fail(str(error), 1)
    if status not in (200, 503):
        return fail(f"{server} answers with status {status}: {body.strip()}", 1)
    if status != 200:
        return fail(f"{server} is starting or stopping", 1)
    say(f"{server} serves")
    return 0
