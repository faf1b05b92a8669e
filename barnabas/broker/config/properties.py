"""Kafka's `.properties` format, as `java.util.Properties.load` reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.protocol.errors import ConfigError

_SPACE: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Names and values of a properties file; a later entry wins.

    Comments start with `#` or `!`; a name ends at the first bare `=`, `:` or blank; a line that ends in an odd number
    of backslashes goes on in the next one, whose leading blanks are dropped; `\u` and four hexadecimal digits, `\t`,
    `\n`, `\r` and `\f` are characters, and a backslash before any other character stands for that character.

    Raises:
        ConfigError: a `\u` without four hexadecimal digits.
    """
    entries: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        entries[_unescape(name)] = _unescape(value)
    return entries


def _logical_lines(text: str) -> Iterator[str]:
    pending: str | None = None
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_SPACE)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
        else:
            pending = None
            if line:
                yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _SPACE:
        position += 2 if line[position] == "\\" else 1
    name, rest = line[:position], line[position:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return name, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        char = text[position : position + 1]
        position += 1
        if char == "u":
            digits = text[position : position + 4]
            try:
                out.append(chr(int(digits, 16)) if len(digits) == 4 else "")
            except ValueError:
                digits = ""
            if len(digits) != 4:
                raise ConfigError(f"{text!r}: \\u needs four hexadecimal digits, as in \\u00e9")
            position += 4
        else:
            out.append(_ESCAPES.get(char, char))
    return "".join(out)
