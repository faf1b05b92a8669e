"""Text of strangers, for terminals and logs: names of topics, groups and clients, and errors about them."""

from __future__ import annotations

import re
from typing import Final

UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Control characters (C0, DEL, C1), zero width and bidirectional marks, separators of lines, lone surrogates."""


def plain(text: str, but: str = "") -> str:
    """The text with what moves a cursor, begins a line or turns the direction of reading as numbers, `but` for some."""
    return UNSAFE.sub(lambda found: found[0] if found[0] in but else _number(ord(found[0])), text)


def _number(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
