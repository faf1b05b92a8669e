"""Writes what is made from the tables of settings: the types that editors and type checkers read (`./dev pages`).

A setting is a field of a configuration class; everything here follows from it, and a test fails where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from barnabas.broker.config import BrokerConfig, Kind, keys_of
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.produce.config import ProducerConfig
from barnabas.net.config import ClientConfig

ROOT = Path(__file__).parents[2]
WORDS = "str | Sequence[str]"
TYPES = {"int": "int", "bool": "bool", "str": "str", "tuple[str, ...]": WORDS, "Any": "Any"}
KINDS = {Kind.BOOLEAN: "bool", Kind.STRING: "str", Kind.DOUBLE: "float", Kind.LIST: WORDS}
CLIENTS: tuple[tuple[str, type[ClientConfig], str], ...] = (
    ("ClientSettings", ClientConfig, "What every client takes; all that `Admin` takes."),
    ("ProducerSettings", ProducerConfig, "What `Producer` takes."),
    ("ConsumerSettings", ConsumerConfig, "What `Consumer` takes."),
)


def own_fields(config: type[ClientConfig]) -> list[str]:
    """Settings that a class adds to those of every client."""
    inherited = set() if config is ClientConfig else {each.name for each in fields(ClientConfig)}
    return [each.name for each in fields(config) if each.name not in inherited]


def client_types() -> str:
    """The text of `barnabas/client/settings.py`."""
    return "".join(
        [
            '"""Settings of the clients, for editors and type checkers. Written by `./dev pages` from the tables."""\n',
            "\nfrom __future__ import annotations\n\nfrom collections.abc import Sequence\n",
            "from typing import Any, TypedDict\n",
            *(line for name, config, says in CLIENTS for line in client_class(name, config, says)),
        ]
    )


def client_class(name: str, config: type[ClientConfig], says: str) -> Iterator[str]:
    """One class of settings."""
    base = "TypedDict" if config is ClientConfig else "ClientSettings"
    yield f'\n\nclass {name}({base}, total=False):\n    """{says}"""\n\n'
    kinds = {each.name: str(each.type) for each in fields(config)}
    for each in own_fields(config):
        kind = "int | str" if each == "acks" else TYPES[kinds[each]]
        yield f"    {each}: {kind}{'' if kind == 'Any' else ' | None'}\n"


def broker_types() -> str:
    """The text of `barnabas/broker/config/settings.py`."""
    lines = [
        '"""Settings of the broker, for editors and type checkers. Written by `./dev pages` from the table."""\n',
        "\nfrom __future__ import annotations\n\nfrom collections.abc import Sequence\nfrom typing import TypedDict\n",
        "\n\nclass BrokerSettings(TypedDict, total=False):\n",
        '    """What `Broker` takes besides its own arguments."""\n\n',
    ]
    lines += [f"    {key.attribute}: {KINDS.get(key.kind, 'int')} | None\n" for key in keys_of(BrokerConfig).values()]
    return "".join(lines)


def pages() -> dict[Path, str]:
    """Every file that is made from the tables, with its text."""
    return {
        ROOT / "barnabas" / "client" / "settings.py": client_types(),
        ROOT / "barnabas" / "broker" / "config" / "settings.py": broker_types(),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
