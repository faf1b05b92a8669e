"""`barnabas mqtt`: the bridge between an MQTT broker and Kafka, and what it would make of a message."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from barnabas.cli.codes import HERE, WRONG
from barnabas.cli.options import Options, address
from barnabas.cli.speak import fail, say, some


def parser() -> Options:
    """The options of `barnabas mqtt`."""
    options = Options(
        prog="barnabas mqtt",
        description="Carry messages from an MQTT broker to Kafka, and records back (docs/MQTT.md).",
        examples=(
            "barnabas mqtt --config configs/mqtt.toml",
            "barnabas mqtt --config configs/mqtt.toml --explain sensors/attic/temperature --payload 21.5",
        ),
    )
    options.add_argument("--config", metavar="FILE", required=True, help="the bridge's settings (TOML)")
    options.add_argument("--server", "-b", metavar="HOST:PORT", type=address, help="Kafka, instead of the file's")
    options.add_argument("--mqtt", metavar="HOST:PORT", type=_mqtt, help="the MQTT broker, instead of the file's")
    looking = "of /health, /metrics and /state, instead of the file's"
    options.add_argument("--listen", metavar="HOST:PORT", type=_listen, help=looking)
    options.add_argument(
        "--fresh-session",
        action="store_true",
        help="forget subscriptions of an earlier configuration, and what the MQTT broker kept for the bridge",
    )
    options.add_argument("--explain", metavar="TOPIC", help="only say which rule takes this topic, and what comes out")
    options.add_argument("--payload", metavar="TEXT", default="{}", help="the payload to explain with ({})")
    options.add_argument("--check", action="store_true", help="only check the settings")
    return options


def _mqtt(text: str) -> tuple[str, int]:
    from barnabas.cli.look import split
    from barnabas.protocol.errors import ConfigError

    try:
        return split(text)
    except ConfigError:
        raise argparse.ArgumentTypeError(f"{text}: write HOST:PORT, such as localhost:1883") from None


def _listen(text: str) -> str:
    from barnabas.mqtt.settings import address
    from barnabas.protocol.errors import ConfigError

    try:
        address(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def main(arguments: Sequence[str]) -> int:
    """Run the bridge until a signal, or explain; the exit code."""
    given = parser().read(arguments)
    from barnabas.mqtt.reading import load

    settings = load(given.config)
    if given.server:
        settings.kafka["bootstrap.servers"] = given.server
    if given.mqtt:
        settings.mqtt.host, settings.mqtt.port = given.mqtt
    if given.listen is not None:
        settings.listen = given.listen
    settings.mqtt.fresh = given.fresh_session
    if given.explain is not None:
        import time

        from barnabas.mqtt.explain import explain, no_topic

        if why := no_topic(given.explain):
            return fail(f"--explain: {why}", WRONG)
        say("\n".join(explain(settings, given.explain, given.payload.encode(), time.time_ns() // 1_000_000)))
        return 0
    if given.check:
        rules, out = len(settings.rules.all_rules), len(settings.out)
        to = f"; subscribes to {', '.join(settings.mqtt.subscribe)}" if rules else ""
        say(f"{given.config} is good: {some(rules, 'rule')} in, {out} out{to}")
        return 0
    try:
        from barnabas.mqtt.process import run
    except ImportError as error:
        needed = f"the bridge needs the package {error.name}: run pip install '.[mqtt]' in a checkout of Barnabas"
        return fail(needed, HERE)
    return run(settings)
