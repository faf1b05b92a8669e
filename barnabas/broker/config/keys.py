"""What a setting is: its type, its default, its check, and who may change it while the broker runs.

A configuration class is its own table: every field is made by one of the functions below, the field's name is Kafka's
with `.` turned to `_`, and `keys_of(cls)` reads the table back. Types, ranges and update modes are those of Apache
Kafka 4.3 (`AbstractKafkaConfig.CONFIG_DEF`, `LogConfig`, `DynamicBrokerConfig`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum, IntEnum
from functools import cache
from typing import Any, Final, NamedTuple, cast

from barnabas.protocol.errors import ConfigError

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class Kind(IntEnum):
    """A setting's type, with the number DescribeConfigs gives it (`ConfigEntry.ConfigType`)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Update(Enum):
    """Who may change a broker setting without a restart (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


Check = Callable[[Any], str | None]
"""Returns what a good value looks like when this one is not, else None."""

_META: Final = "barnabas.key"
_DIGITS_MAX: Final = 19
"""Of a field of 64 bits."""


class Key(NamedTuple):
    """One setting. `name` is Kafka's, `attribute` the field, `default` the value it has when nobody says otherwise.

    What is `sensitive` is told nobody (DescribeConfigs).
    """

    name: str
    attribute: str
    kind: Kind
    default: Any
    nullable: bool
    check: Check | None
    update: Update
    sensitive: bool = False

    def parse(self, text: str) -> Any:
        """The value that `text` stands for.

        Raises:
            ConfigError: the text is not of this type, or out of range.
        """
        value = self._typed(text.strip())
        problem = self.check(value) if self.check is not None and value is not None else None
        if problem is not None:
            raise ConfigError(f"{self.name}={text.strip()}: {problem}")
        return self._each_once(value)

    def _typed(self, text: str) -> Any:
        if text == "" and self.nullable and self.kind is not Kind.LIST:
            return None
        if self.kind is Kind.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise ConfigError(f"{self.name}={text}: not a boolean; write true or false")
            return lowered == "true"
        if self.kind is Kind.STRING:
            return text
        if self.kind is Kind.LIST:
            words = tuple(word.strip() for word in text.split(",")) if text else ()
            # An empty word is for the check to refuse, where there is one.
            return words if self.check is not None else tuple(word for word in words if word)
        if self.kind is Kind.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise ConfigError(f"{self.name}={text}: not a number; write one such as 0.5") from None
        return self._whole(text)

    def _whole(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit()):
            raise ConfigError(f"{self.name}={text}: not a whole number; write digits only, without a unit")
        bound = LONG_MAX if self.kind is Kind.LONG else INT_MAX if self.kind is Kind.INT else 2**15 - 1
        significant = digits.lstrip("0")  # Python reads 4,300 digits at most, and raises
        value = int(significant or "0") if len(significant) <= _DIGITS_MAX else LONG_MAX + 2
        value = -value if text[:1] == "-" else value
        if not -bound - 1 <= value <= bound:
            raise ConfigError(f"{self.name}={text}: too large; write a value between {-bound - 1} and {bound}")
        return value

    def shown(self, text: str) -> str | None:
        """A value that was written, in Kafka's text form: without blanks, signs and capitals.

        Raises:
            ConfigError: the text is not of this type.
        """
        return self.text(self._each_once(self._typed(text.strip())))

    def _each_once(self, value: Any) -> Any:
        return tuple(dict.fromkeys(value)) if isinstance(self.check, AllOf) else value

    def text(self, value: Any) -> str | None:
        """A value in Kafka's text form (None stays None)."""
        if value is None:
            return None
        if self.kind is Kind.BOOLEAN:
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            return ",".join(value)
        return str(value)


def setting(
    kind: Kind,
    default: Any,
    *,
    check: Check | None = None,
    update: Update = Update.READ_ONLY,
    nullable: bool = False,
    sensitive: bool = False,
) -> Any:
    """A dataclass field that is a setting."""
    meta = {_META: (kind, check, update, nullable or default is None, sensitive)}
    return dataclasses.field(default=default, metadata=meta)


def boolean(default: bool, update: Update = Update.READ_ONLY) -> bool:
    """A field that is true or false."""
    return cast("bool", setting(Kind.BOOLEAN, default, update=update))


def integer(default: int, check: Check | None = None, update: Update = Update.READ_ONLY) -> int:
    """A field of 32 bits."""
    return cast("int", setting(Kind.INT, default, check=check, update=update))


def long(default: int, check: Check | None = None, update: Update = Update.READ_ONLY) -> int:
    """A field of 64 bits."""
    return cast("int", setting(Kind.LONG, default, check=check, update=update))


def double(default: float, check: Check | None = None, update: Update = Update.READ_ONLY) -> float:
    """A field that is a floating point number."""
    return cast("float", setting(Kind.DOUBLE, default, check=check, update=update))


def string(default: str, check: Check | None = None, update: Update = Update.READ_ONLY) -> str:
    """A field of text."""
    return cast("str", setting(Kind.STRING, default, check=check, update=update))


def words(default: tuple[str, ...], check: Check | None = None, update: Update = Update.READ_ONLY) -> tuple[str, ...]:
    """A field of words separated by commas, in their order."""
    return cast("tuple[str, ...]", setting(Kind.LIST, default, check=check, update=update))


def optional(kind: Kind, check: Check | None = None, update: Update = Update.READ_ONLY) -> Any:
    """A field that is None unless somebody sets it."""
    return setting(kind, None, check=check, update=update, nullable=True)


def at_least(low: float) -> Check:
    """Refuses values below `low`."""
    return lambda value: None if value >= low else f"too small; write {low} or more"


def between(low: float, high: float) -> Check:
    """Refuses values outside [low, high]."""
    return lambda value: None if low <= value <= high else f"out of range; write a value between {low} and {high}"


class OneOf:
    """Refuses words that are not listed; the list is there to be read."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed

    def __call__(self, value: str) -> str | None:
        """What a good value looks like, if this one is none."""
        return None if value in self.allowed else f"no such choice; write one of {', '.join(self.allowed)}"


def one_of(*allowed: str) -> Check:
    """Refuses words that are not listed."""
    return OneOf(allowed)


class AllOf:
    """Refuses lists that hold a word that is not listed; an empty one is fine (KIP-1161: nothing is ever cleaned).

    A word may come more than once, and counts once: 32 KB hold one 4,600 times, and whoever looks whether a log is
    compacted goes through them.
    """

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed

    def __call__(self, value: tuple[str, ...]) -> str | None:
        """What a good value looks like, if this one is none."""
        good = all(word in self.allowed for word in value)
        return None if good else f"no such choice; write one or more of {', '.join(self.allowed)}"


def all_of(*allowed: str) -> Check:
    """Refuses lists that hold a word that is not listed."""
    return AllOf(allowed)


def some_of(*allowed: str) -> Check:
    """Refuses lists that are empty, or hold a word twice or one that is not listed."""

    def check(value: tuple[str, ...]) -> str | None:
        good = value and len(set(value)) == len(value) and all(word in allowed for word in value)
        return None if good else f"write one or more of {', '.join(allowed)}, each once"

    return check


def any_of(*allowed: str) -> Check:
    """Refuses lists that hold a word twice or one that is not listed; an empty one is fine."""
    some = some_of(*allowed)
    return lambda value: some(value) if value else None


def any_case(*allowed: str) -> Check:
    """Refuses words that are not listed, in whichever case."""
    listed = OneOf(allowed)
    return lambda value: listed(value.lower())


def identifier(bytes_max: int) -> Check:
    """Refuses what does not stand on one line of a file of properties as it is, or takes more bytes in UTF-8."""

    def check(value: str) -> str | None:
        good = value.isprintable() and "\\" not in value and len(value.encode()) <= bytes_max
        return None if good else f"write at most {bytes_max} bytes of printable characters, none of them a backslash"

    return check


@cache
def keys_of(config_class: type) -> dict[str, Key]:
    """The table of a configuration class, by Kafka's names, in the order of its fields."""
    table = {}
    for field in dataclasses.fields(config_class):
        kind, check, update, nullable, sensitive = field.metadata[_META]
        name = field.name.replace("_", ".")
        table[name] = Key(name, field.name, kind, field.default, nullable, check, update, sensitive)
    return table
