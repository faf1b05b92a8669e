"""What the commands print: results to standard output, what is wrong to standard error in one sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from barnabas.plain import UNSAFE, plain

_KEPT: Final = "\n\t"
"""What commands print themselves; not within a cell of a table."""


def say(text: str = "") -> None:
    """One result, whatever names are in it. It leaves at once on a terminal, and with what follows in a pipe."""
    print(plain(text, _KEPT))


def say_json(**told: Any) -> None:
    """One result for programs."""
    print(UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(told, ensure_ascii=False)))


def wrapped(text: str) -> str:
    """One sentence, in lines of 100 columns."""
    import textwrap

    indent = " " * (len(text) - len(text.lstrip()) + 4)
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def fail(message: str, code: int) -> int:
    """What is wrong; the exit code for it (`codes`)."""
    sys.stdout.flush()  # what was told before stands before it
    print(f"barnabas: {plain(message, _KEPT)}", file=sys.stderr)
    return code


def cell(number: int | None) -> int | str:
    """A number in a table, which may not be known."""
    return "-" if number is None else number


def some(number: int, what: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell, each in a line; numbers to the right (`-`: one that is not known)."""
    cells = [[plain(str(cell)) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(head)]
    right = [
        any(isinstance(row[index], (int, float)) for row in rows)
        and all(row[index] == "-" or isinstance(row[index], (int, float)) for row in rows)
        for index in range(len(head))
    ]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *(line(row) for row in cells)])
