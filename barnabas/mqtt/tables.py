"""Tables of a TOML file, read key by key: what is wrong is told with file, line, table and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

from barnabas.protocol.errors import ConfigError

_HEAD: Final = re.compile(r"[ \t]*(\[\[?)[ \t]*([\w.\"-]+)[ \t]*\]")


class Table:
    """One table: `place` is where it stands. Whoever has read what there may be calls `end`."""

    def __init__(self, place: str, values: dict[str, Any]) -> None:
        self.place = place
        self.values = dict(values)
        self._known: list[str] = []

    def fault(self, key: str, what: str) -> ConfigError:
        """An error of one key."""
        return ConfigError(f"{self.place}: {key}: {what}")

    def _take(self, key: str, kind: type | tuple[type, ...], what: str, default: Any) -> Any:
        self._known.append(key)
        if key not in self.values:
            return default
        value = self.values.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.fault(key, f"{value!r} is no {what}")
        return value

    def text(self, key: str, default: str = "", *, needed: str = "") -> str:
        """A text; `needed` says what a missing one would be for."""
        found: str = self._take(key, str, "text (write it in quotes)", default)
        if needed and not found:
            raise self.fault(key, f"it is missing; {needed}")
        return found

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of some texts."""
        found = self.text(key, default)
        if found not in choices:
            raise self.fault(key, f"{found!r} is none of {', '.join(choices)}")
        return found

    def number(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        found: int = self._take(key, int, "whole number", default)
        if not least <= found <= most:
            raise self.fault(key, f"{found} is not between {least} and {most}")
        return found

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        found: bool = self._take(key, bool, "true or false", default)
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        found = self._take(key, list, 'list; write ["...", "..."]', [])
        for each in found:
            if not isinstance(each, str):
                raise self.fault(key, f"{each!r} is no text (write it in quotes)")
        return tuple(found)

    def table(self, key: str) -> Table | None:
        """A table within."""
        found = self._take(key, dict, f"table; write [{key}]", None)
        return None if found is None else Table(f"{self.place}.{key}", found)

    def tables(self, key: str) -> list[Table]:
        """All tables of a list of them."""
        found = self._take(key, list, f"list of tables; write [[{key}]]", [])
        if not all(isinstance(each, dict) for each in found):
            raise self.fault(key, f"only tables may stand in it; write [[{key}]]")
        return [Table(f"{self.place}.{key} {number}", each) for number, each in enumerate(found, 1)]

    def plain(self) -> dict[str, Any]:
        """All values as they are, whatever their keys."""
        found, self.values = self.values, {}
        return found

    def end(self) -> None:
        """Refuse what nobody has read."""
        for key in self.values:
            near = get_close_matches(key, self._known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self._known)}"
            raise self.fault(key, f"there is no such key; {hint}")


class File(Table):
    """A whole file; its tables are told with the line they begin in."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        try:
            values = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{name}: it is no TOML: {error}") from None
        self._lines: dict[str, list[int]] = {}  # of tables' heads, by name
        for number, line in enumerate(text.splitlines(), 1):
            if found := _HEAD.match(line):
                self._lines.setdefault(found[2], []).append(number)
        super().__init__(name, values)

    def fault(self, key: str, what: str) -> ConfigError:
        """An error of one table."""
        return ConfigError(f"{self._at(key, 0)}: {key}: {what}")

    def table(self, key: str) -> Table | None:
        """A table of the file."""
        found = super().table(key)
        if found is not None:
            found.place = f"{self._at(key, 0)} [{key}]"
        return found

    def tables(self, key: str) -> list[Table]:
        """All tables of a list of them, numbered from 1."""
        found = super().tables(key)
        for number, each in enumerate(found):
            each.place = f"{self._at(key, number)} [[{key}]] {number + 1}"
        return found

    def _at(self, key: str, index: int) -> str:
        lines = self._lines.get(key, [])
        return f"{self.name}:{lines[index]}" if index < len(lines) else self.name
