"""What of many lines stands on a small screen: a head that stays, a body that scrolls, a foot that tells the keys.

Sections of the body have an empty line before each. Nothing here knows of terminals.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

_KEY: Final = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|\x1b|[^\x1b]", re.DOTALL)
_NAMES: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
    b"\x1b[7~": "home",
    b"\x1b[F": "end",
    b"\x1b[4~": "end",
    b"\x1b[8~": "end",
    b"\t": "next section",
    b"\x1b[Z": "section before",
    b"k": "up",
    b"j": "down",
    b"h": "left",
    b"l": "right",
    b"b": "page up",
    b" ": "page down",
    b"g": "home",
    b"G": "end",
    b"q": "quit",
    b"Q": "quit",
    b"\x03": "quit",
}
_SHIFT: Final = 20
_KEYS: Final = "q quits  arrows PgUp PgDn Home End move  Tab next section"


def keys(data: bytes) -> list[str]:
    """What was pressed, by name; what has none is passed over."""
    found = (_NAMES.get(key.replace(b"\x1bO", b"\x1b["), "") for key in _KEY.findall(data))
    return [name for name in found if name]


class Line(NamedTuple):
    """One line of the screen; a strong one is the head's or a section's first."""

    text: str
    strong: bool


class View:
    """Where the reader is: the first line of the body that is shown, and how far it is shifted to the left."""

    def __init__(self) -> None:
        self.top = 0
        self.left = 0
        self._room = 1
        self._count = 0
        self._sections: list[int] = []

    def frame(self, lines: Sequence[str], columns: int, rows: int) -> list[Line]:
        """At most `rows` lines of at most `columns` characters. `lines` are the head, an empty one, and the body."""
        end = lines.index("")
        head = [Line(part, True) for line in lines[:end] for part in textwrap.wrap(line, max(columns, 2))]
        head = [*head[: max(rows - 3, 0)], Line("", False)]
        body = lines[end + 1 :]
        self._room = max(rows - len(head) - 1, 1)
        self._count = len(body)
        self._sections = [at for at in range(len(body)) if at == 0 or not body[at - 1]]
        self._stay_inside()
        self.left = max(0, min(self.left, max(map(len, body), default=0) - columns))
        shown = range(self.top, min(self.top + self._room, len(body)))
        middle = [Line(self._cut(body[at], columns), at in self._sections) for at in shown]
        middle += [Line("", False)] * (self._room - len(middle))
        where = f"{self.top + 1}-{shown.stop} of {len(body)}"
        foot = f"{_KEYS}  {where}" if len(_KEYS) + len(where) + 2 <= columns else f"{where}  {_KEYS}"
        return [*head, *middle, Line(foot[:columns], False)][:rows]

    def _cut(self, line: str, columns: int) -> str:
        """The part of a line that is shown; its last character tells whether there is more to the right."""
        rest = line[self.left :]
        return rest if len(rest) <= columns else f"{rest[: columns - 1]}>"

    def press(self, key: str) -> None:
        """Go where a key leads, by the screen that was shown last."""
        if key == "next section":
            later = [at for at in self._sections if at > self.top]
            self.top = later[0] if later and self.top < self._top_max() else 0
        elif key == "section before":
            earlier = [at for at in self._sections if at < self.top]
            self.top = earlier[-1] if earlier else self._top_max()
        elif key == "home":
            self.top = self.left = 0
        elif key == "end":
            self.top = self._top_max()
        else:
            moves = {"up": -1, "down": 1, "page up": -self._room, "page down": self._room}
            self.top += moves.get(key, 0)
            self.left += {"left": -_SHIFT, "right": _SHIFT}.get(key, 0)
        self._stay_inside()

    def _top_max(self) -> int:
        return max(0, self._count - self._room)

    def _stay_inside(self) -> None:
        self.top = max(0, min(self.top, self._top_max()))
