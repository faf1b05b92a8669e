"""Which characters of a stranger's text are written as numbers, and that their neighbours stay as they are."""

from __future__ import annotations

import json
import unicodedata

import pytest

from barnabas.plain import plain

NUMBERS = "\x00\x1b\x1f\x7f\x80\x9f\u061c\u200b\u200f\u2028\u202e\u2060\u206f\ufeff\ud800\udfff"
STAY = " ~\xa0\u061b\u061d\u200a\u2010\u2027\u202f\u205f\u2070\ufefe\uff00\ud7ff\ue000é漢🌳"


@pytest.mark.parametrize("letter", NUMBERS, ids=ascii)
def test_what_moves_a_cursor_or_turns_the_direction_is_a_number(letter: str) -> None:
    number = ord(letter)
    assert plain(f"a{letter}b") == (f"a\\x{number:02x}b" if number < 256 else f"a\\u{number:04x}b")
    assert plain(f"a{letter}b", but=letter) == f"a{letter}b"


@pytest.mark.parametrize("letter", STAY, ids=ascii)
def test_what_only_stands_there_stays(letter: str) -> None:
    assert plain(letter) == letter


def test_no_control_or_mark_of_direction_is_left_out() -> None:
    """Unicode's own words for them: Cc, Cs, Zl, Zp, and the marks whose names say that they turn or isolate."""
    turning = ("LEFT-TO-RIGHT", "RIGHT-TO-LEFT", "ARABIC LETTER MARK", "DIRECTIONAL", "FIRST STRONG ISOLATE")
    for number in range(0x110000):
        letter = chr(number)
        kind = unicodedata.category(letter)
        turns = kind == "Cf" and any(one in unicodedata.name(letter) for one in turning)
        if turns or kind in ("Cc", "Cs", "Zl", "Zp"):
            assert plain(letter) != letter, json.dumps(letter)
