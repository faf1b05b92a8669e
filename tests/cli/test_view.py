"""A page on a screen of any size: every line can be reached, nothing is wider, and the keys are told."""

from __future__ import annotations

import pytest

from barnabas.cli.view import View, keys

HEAD = ["broker x: 3 partitions", "memory held for requests: " + "many words " * 12]
SECTIONS = [[f"section {name}", *(f"{name} {number:03d} " + "." * 100 for number in range(40))] for name in "abcd"]
BODY = [line for section in SECTIONS for line in (*section, "")][:-1]
LINES = [*HEAD, "", *BODY]


def shown(view: View, columns: int = 80, rows: int = 24) -> list[str]:
    lines = view.frame(LINES, columns, rows)
    assert len(lines) == rows
    assert all(len(line.text) <= columns for line in lines)
    return [line.text for line in lines]


def body(view: View) -> list[str]:
    page = shown(view)
    return page[page.index("") + 1 : -1]


def test_the_head_is_folded_and_stays_and_the_foot_tells_keys_and_place() -> None:
    view = View()
    page = shown(view)
    assert page[0] == HEAD[0]
    assert " ".join(page[1 : page.index("")]) == HEAD[1].strip()
    assert page[-1] == "q quits  arrows PgUp PgDn Home End move  Tab next section  1-19 of 167"
    view.press("end")
    assert shown(view)[: page.index("")] == page[: page.index("")]
    assert shown(view)[-1].endswith("149-167 of 167")


def test_every_line_is_reached_by_pages_and_by_single_lines() -> None:
    for key, presses in (("page down", 20), ("down", 200)):
        view, seen = View(), []
        for _ in range(presses):
            seen += [line for line in body(view) if line not in seen]
            view.press(key)
        assert [line[:9] for line in seen] == [line[:9] for line in dict.fromkeys(BODY)]
        view.press("home")
        assert view.top == 0


def test_tab_goes_to_each_section_and_around_and_back() -> None:
    view, tops = View(), []
    for _ in range(5):
        tops.append(body(view)[0])
        view.press("next section")
    assert tops == ["section a", "section b", "section c", "section d", "section a"]
    back = []
    for _ in range(3):
        view.press("section before")
        back.append(body(view)[0])
    assert back == ["section a", "d 021 " + "." * 73 + ">", "section d"]


def test_what_is_wider_than_the_screen_says_so_and_can_be_shifted() -> None:
    view = View()
    assert body(view)[1] == "a 000 " + "." * 73 + ">"
    view.press("right")
    assert body(view)[1] == "." * 79 + ">"
    for _ in range(9):
        view.press("right")
        shown(view)
    assert body(view)[1] == "." * 80, "not beyond the end of the longest line"
    view.press("home")
    assert body(view)[1].startswith("a 000")


def test_a_body_that_shrinks_leaves_no_empty_screen() -> None:
    view = View()
    shown(view)
    view.press("end")
    assert [line.text for line in view.frame(["head", "", "one", "two"], 80, 24)][:4] == ["head", "", "one", "two"]


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (20, 5), (3, 3), (1, 1), (300, 500)])
def test_any_screen_is_filled_and_never_overrun(columns: int, rows: int) -> None:
    view = View()
    for key in ("", "end", "right", "next section"):
        view.press(key)
        shown(view, columns, rows)


def test_keys_are_told_apart_however_they_come() -> None:
    assert keys(b"\x1b[A\x1b[Bj\x1bOC\t\x1b[Zx\x1b[5~\x1b[99~\x1b[6~G") == [
        "up",
        "down",
        "down",
        "right",
        "next section",
        "section before",
        "page up",
        "page down",
        "end",
    ]
    assert keys(b"\x1b") == []
    assert keys(b"q\x03") == ["quit", "quit"]
