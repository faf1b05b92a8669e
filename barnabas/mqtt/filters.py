"""MQTT topic filters: what is one, what it matches, and which of several need no subscription of their own.

Sources: MQTT 5.0 and 3.1.1, section 4.7 (topic names and filters); 4.7.2 has the rule of `$`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from barnabas.protocol.errors import ConfigError

TOPIC_BYTES_MAX: Final = 65_535


def check(text: str) -> None:
    """Refuse what is no filter.

    Raises:
        ConfigError: it says what is wrong with it.
    """
    if not text:
        raise ConfigError("an MQTT filter cannot be empty; # is every topic")
    if "\0" in text or len(text.encode(errors="surrogatepass")) > TOPIC_BYTES_MAX:
        raise ConfigError(f"an MQTT filter has at most {TOPIC_BYTES_MAX} bytes, and no NUL among them")
    if text.startswith("$share/"):
        raise ConfigError(f"{text}: write the filter alone, and the group as share in [mqtt]")
    levels = text.split("/")
    for number, level in enumerate(levels, 1):
        if "+" in level and level != "+":
            raise ConfigError(f"{text}: + stands for a whole level, and not within {level!r}")
        if "#" in level and (level != "#" or number < len(levels)):
            raise ConfigError(f"{text}: # stands alone in the last level, and nowhere else")


def pattern(text: str) -> re.Pattern[str]:
    """What a filter matches; each wildcard is a group, `$1` for the first. The levels of `#` may be none (empty).

    A wildcard in the first level matches no topic that begins with `$` (the MQTT broker's own).
    """
    check(text)
    levels = text.split("/")
    found = "(?!\\$)" if levels[0] in ("+", "#") else ""
    for number, level in enumerate(levels):
        slash = "/" if number else ""
        if level == "#":
            found += f"(?:{slash}(.*))?" if number else "(.*)"
        else:
            found += slash + ("([^/]*)" if level == "+" else re.escape(level))
    return re.compile(found, re.DOTALL)


def meet(one: str, other: str) -> bool:
    """Whether some topic is matched by both."""
    mine, theirs = one.split("/"), other.split("/")
    for at in range(max(len(mine), len(theirs)) + 1):
        a = mine[at] if at < len(mine) else None
        b = theirs[at] if at < len(theirs) else None
        if "#" in (a, b):
            rest = {a, b} - {"#"}
            return not (at == 0 and any(level is not None and level.startswith("$") for level in rest))
        if a is None or b is None:
            return a is b
        wild = "+" in (a, b)
        if not wild and a != b:
            return False
        if wild and at == 0 and (a.startswith("$") or b.startswith("$")):
            return False
    return True


class Tree:
    """Filters by their levels, each with a number: which of thousands cover one, without a look at all of them."""

    def __init__(self) -> None:
        self._root: _Node = _Node()

    def add(self, text: str, number: int) -> None:
        """One more filter; of two that are the same the first keeps its number."""
        node = self._root
        for level in text.split("/"):
            node = node.below.setdefault(level, _Node())
        if node.number is None:
            node.number = number

    def covering(self, narrow: str) -> list[int]:
        """The numbers of those that match every topic which this filter matches, or this topic, if it is one."""
        found: list[_Node | None] = []
        nodes, first = [self._root], True
        for level in narrow.split("/"):
            wild = not (first and level.startswith("$"))
            if wild:
                found += [node.below.get("#") for node in nodes]
            names = ("+", level) if wild and level not in ("+", "#") else ("+",) if level == "+" else (level,)
            nodes = [] if level == "#" else [node.below[name] for node in nodes for name in names if name in node.below]
            first = False
            if not nodes:
                break  # a topic may have thousands of levels
        found += [*nodes, *(node.below.get("#") for node in nodes)]
        return [node.number for node in found if node is not None and node.number is not None]


class _Node:
    """What there is below some levels, and the number of the filter that ends here."""

    __slots__ = ("below", "number")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.number: int | None = None


def fewest(filters: Iterable[str]) -> tuple[str, ...]:
    """Those that others do not cover, in their order: an MQTT broker may send a copy for each that matches."""
    given, tree = list(dict.fromkeys(filters)), Tree()
    for number, one in enumerate(given):
        tree.add(one, number)
    return tuple(one for number, one in enumerate(given) if tree.covering(one) == [number])
