from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.config.properties import parse_properties
from barnabas.protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", {}),
        ("# a comment\n! another\n\n  \n", {}),
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a  =  b  ", {"a": "b  "}),
        ("a\t:\tb", {"a": "b"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=one\\\\\nb=two", {"a": "one\\", "b": "two"}),
        ("a=one\\\n# not a comment", {"a": "one# not a comment"}),
        (r"a\=b\:c\ d=e", {"a=b:c d": "e"}),
        (r"a=\u00e9\t\n\x", {"a": "\u00e9\t\nx"}),
        ("a=b\\", {"a": "b"}),
        ("a = b # no comment here", {"a": "b # no comment here"}),
    ],
)
def test_as_java_reads_it(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "a=\\u"])
def test_a_broken_escape_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(text)


def escape(text: str) -> str:
    return "".join(
        "\\" + char if char in "\\=: #!" else f"\\u{ord(char):04x}" if char in "\t\n\r\f" else char for char in text
    )


words = st.text(st.characters(max_codepoint=0xD7FF), max_size=20)


@given(st.dictionaries(words, words, max_size=5))
def test_what_is_escaped_comes_back(entries: dict[str, str]) -> None:
    text = "\n".join(f"{escape(name)}={escape(value)}" for name, value in entries.items())
    assert parse_properties(text) == entries
