"""Writes what is made from tables (`./dev pages`): types for editors and checkers, and three pages of docs/.

A setting is a field of a configuration class; everything here follows from it, and a test fails where it does not.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import barnabas
from barnabas.broker.config import BrokerConfig, Kind, keys_of
from barnabas.broker.config.keys import Key, OneOf
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.serializers import SERIALIZERS
from barnabas.net.config import PLAINTEXT, ClientConfig
from barnabas.net.foreign import INSTEAD
from tests.house import commands, compatibility

ROOT = Path(__file__).parents[2]
WORDS = "str | Sequence[str]"
TYPES = {"int": "int", "bool": "bool", "str": "str", "tuple[str, ...]": WORDS, "tuple[Any, ...]": "Any", "Any": "Any"}
NAMED = ", ".join(f'"{name}"' for name in SERIALIZERS)
SPECIAL = {
    "acks": 'Literal["all", "-1", "0", "1", -1, 0, 1]',
    "security_protocol": f'Literal["{PLAINTEXT}"]',
    "stats_cb": "Callable[[dict[str, Any]], Any]",
    "error_cb": "Callable[[BarnabasError], Any]",
    "partition_assignment_strategy": "str | Assigns | Sequence[str | Assigns]",
    "key_serializer": "SerializerSetting",
    "value_serializer": "SerializerSetting",
    "key_deserializer": "DeserializerSetting",
    "value_deserializer": "DeserializerSetting",
}
"""Settings whose type does not follow from the table."""

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
            "\nfrom __future__ import annotations\n\nfrom collections.abc import Callable, Sequence\n",
            "from typing import Any, Literal, Protocol, TypeAlias, TypedDict\n",
            "\nfrom barnabas.protocol.errors import BarnabasError\n",
            SERIALIZER_TYPES.replace("NAMED", NAMED),
            *(line for name, config, says in CLIENTS for line in client_class(name, config, says)),
        ]
    )


SERIALIZER_TYPES = '''

class Serializes(Protocol):
    """An object that makes bytes of values."""

    def serialize(self, value: Any, /) -> bytes | None:
        """The bytes."""


class Deserializes(Protocol):
    """An object that makes values of bytes."""

    def deserialize(self, data: Any, /) -> Any:
        """The value."""


class Assigns(Protocol):
    """A way to share of a program's own: `PartitionAssignor` says what it does."""

    name: str

    def share(self, partitions: Any, members: Any) -> Any:
        """Who gets what."""


Named: TypeAlias = Literal[NAMED]
SerializerSetting: TypeAlias = Named | Callable[[Any], bytes | None] | Serializes
DeserializerSetting: TypeAlias = Named | Callable[[Any], Any] | Deserializes
'''


def literal(words: Iterable[str]) -> str:
    """The type of a setting that is one of a few words."""
    return "Literal[" + ", ".join(f'"{word}"' for word in words) + "]"


def client_class(name: str, config: type[ClientConfig], says: str) -> Iterator[str]:
    """One class of settings."""
    base = "TypedDict" if config is ClientConfig else "ClientSettings"
    yield f'\n\nclass {name}({base}, total=False):\n    """{says}"""\n\n'
    table = {each.name: each for each in fields(config)}
    for each in own_fields(config):
        choices = table[each].metadata.get("choices")
        kind = SPECIAL.get(each) or (literal(choices) if choices else TYPES[str(table[each].type)])
        yield f"    {each}: {kind}{'' if kind == 'Any' else ' | None'}\n"


def broker_types() -> str:
    """The text of `barnabas/broker/config/settings.py`."""
    lines = [
        '"""Settings of the broker, for editors and type checkers. Written by `./dev pages` from the table."""\n',
        "\nfrom __future__ import annotations\n\nfrom collections.abc import Sequence\n",
        "from typing import Literal, TypedDict\n",
        "\n\nclass BrokerSettings(TypedDict, total=False):\n",
        '    """What `Broker` takes besides its own arguments."""\n\n',
    ]
    lines += [f"    {key.attribute}: {broker_type(key)} | None\n" for key in keys_of(BrokerConfig).values()]
    return "".join(lines)


def broker_type(key: Key) -> str:
    """The type of one of the broker's settings."""
    return literal(key.check.allowed) if isinstance(key.check, OneOf) else KINDS.get(key.kind, "int")


# ---- docs/CLIENT.md --------------------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "CLIENT.md"
TABLE = re.compile(r"(<!-- made: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def meanings(config: type) -> dict[str, str]:
    """The docstring under each field of a class."""
    (tree,) = ast.parse(inspect.getsource(config)).body
    assert isinstance(tree, ast.ClassDef)
    said = {}
    for field, text in pairwise(tree.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            said[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return said


def kind_of(field: Field[Any]) -> str:
    """A setting's type and bounds in words."""
    meta = field.metadata
    if field.name == "acks":
        return "all, 1, 0"
    if "choices" in meta:
        return ", ".join(meta["choices"])
    if "between" in meta:
        least, most, *extra = meta["between"]
        return f"{least} to {most}" + "".join(f", or {each}" for each in extra)
    if "min" in meta:
        return f"whole, from {meta['min']}"
    words = {"bool": "true, false", "str": "text", "tuple[str, ...]": "list", "tuple[Any, ...]": "list"}
    return words.get(str(field.type), "object")


def default_of(field: Field[Any]) -> str:
    """A setting's default as one would write it."""
    value = field.default
    if field.name == "acks":
        return "all"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = ",".join(value)
    return str(value) if value not in ("", None) else "unset"


def settings_table(config: type[ClientConfig]) -> str:
    """The settings that a class adds: name, type, default, meaning."""
    said, own = meanings(config), own_fields(config)
    rows = ["| setting | type | default | |\n|---|---|---|---|\n"]
    for field in fields(config):
        if field.name in own or field.name in said:
            assert field.name in said, f"{config.__name__}.{field.name} has no docstring under it: say what it means"
            name = field.name.replace("_", ".")
            rows.append(f"| `{name}` | {kind_of(field)} | {default_of(field)} | {said[field.name]} |\n")
    return "".join(rows)


def errors_table() -> str:
    """The errors that are exported: what they also are, whether to try again, and when they come."""
    rows = ["| error | is also | try again | |\n|---|---|---|---|\n"]
    found = [getattr(barnabas, name) for name in barnabas.__all__]
    for error in [each for each in found if inspect.isclass(each) and issubclass(each, barnabas.BarnabasError)]:
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__ if base.__name__ not in BASES)
        again = (
            "by its code" if error is barnabas.KafkaError else RETRIED[error(*ARGUMENTS.get(error, ("",))).retriable]
        )
        says = " ".join(str(inspect.getdoc(error)).partition("\n\n")[0].split())
        rows.append(f"| `{error.__name__}` | {bases} | {again} | {says} |\n")
    return "".join(rows)


BASES = {"BarnabasError", "Exception"}
RETRIED = {True: "yes", False: "no"}
ARGUMENTS: dict[type, tuple[Any, ...]] = {
    barnabas.KafkaError: (0,),
    barnabas.CommitFailed: (0, ""),
    barnabas.LogTruncated: (barnabas.TopicPartition("t", 0), 0, 0),
}


def names_table() -> str:
    """What other clients call a setting, and Kafka's name."""
    rows = ["| elsewhere | here |\n|---|---|\n"]
    for name, there in INSTEAD.items():
        kafkas, _, remark = there.partition(" ")
        rows.append(f"| `{name}` | `{kafkas}`{' ' if remark else ''}{remark} |\n")
    return "".join(rows)


TABLES = {
    "settings of every client": lambda: settings_table(ClientConfig),
    "settings of the producer": lambda: settings_table(ProducerConfig),
    "settings of the consumer": lambda: settings_table(ConsumerConfig),
    "errors": errors_table,
    "names of others": names_table,
}


def client_page() -> str:
    """The text of `docs/CLIENT.md`, its tables anew."""
    return TABLE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], PAGE.read_text())


def pages() -> dict[Path, str]:
    """Every file that is made from the tables, with its text."""
    return {
        ROOT / "barnabas" / "client" / "settings.py": client_types(),
        ROOT / "barnabas" / "broker" / "config" / "settings.py": broker_types(),
        PAGE: client_page(),
        ROOT / "docs" / "COMPATIBILITY.md": compatibility.page(),
        ROOT / "docs" / "COMMANDS.md": commands.page(),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
