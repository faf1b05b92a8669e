r"""`subscribePattern`: Java's regular expressions on whole topic names, as far as the package `regex` takes them.

It knows what Python's `re` does not: possessive and atomic groups, `\p{Alpha}`, `[a-z&&[^b]]`, a flag in the middle.
What it spells otherwise is rewritten here: `\Q...\E`, `\z`, `\h`, `\k<name>`, `\p{javaLowerCase}`. Not taken:
`\G`, `\b{g}`, `\N{...}`; in a set, `--`, `||`, `~~` and `[:name:]` mean something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from barnabas.spark_bridge.errors import OptionError

SECONDS_MAX: Final = 5.0
"""A pattern that needs longer for one name goes through exponentially many ways."""
_NEEDED: Final = "subscribePattern needs the package regex: run pip install regex, or use subscribe"
_SPELLED: Final = {"z": r"\Z", "Z": r"\Z", "h": r"[ \t]", "H": r"[^ \t]", "R": r"(?:\r\n|[\n-\r])"}


class TopicPattern:
    """A pattern, compiled."""

    def __init__(self, text: str) -> None:
        """Compile it.

        Raises:
            OptionError: it is empty or no regular expression, or the package `regex` is absent.
        """
        if not text.strip():
            raise OptionError("subscribePattern is empty")
        try:
            import regex
        except ImportError as error:
            raise OptionError(_NEEDED) from error
        self.text = text
        self._known: dict[str, bool] = {}
        try:
            self._compiled: Any = regex.compile(as_regex(text), regex.VERSION1)
        except regex.error as error:
            raise OptionError(f"subscribePattern: {text!r} is no regular expression (Java's): {error}") from error

    def among(self, topics: Iterable[str]) -> list[str]:
        """Those whose whole name matches, in order; asked again, only names that are new cost anything.

        Raises:
            OptionError: finding out takes too long.
        """
        known = self._known
        self._known = {topic: known[topic] if topic in known else self.matches(topic) for topic in topics}
        return sorted(topic for topic, matches in self._known.items() if matches)

    def matches(self, topic: str) -> bool:
        """Whether all of the name matches.

        Raises:
            OptionError: finding out takes too long.
        """
        try:
            return self._compiled.fullmatch(topic, timeout=SECONDS_MAX) is not None
        except TimeoutError as error:
            raise OptionError(
                f"subscribePattern: {self.text!r} takes more than {SECONDS_MAX:.0f} s for the topic {topic}: "
                "it repeats something that repeats; write it with fewer ways to match"
            ) from error


def as_regex(text: str) -> str:
    """A pattern of Java's as the package `regex` spells it."""
    import regex

    found = []
    place = 0
    while place < len(text):
        if text[place] != "\\":
            found.append(text[place])
            place += 1
        elif text.startswith("\\Q", place):
            end = text.find("\\E", place + 2)
            found.append(regex.escape(text[place + 2 : end if end >= 0 else len(text)]))
            place = end + 2 if end >= 0 else len(text)
        elif text.startswith("\\k<", place):
            found.append("\\g<")
            place += 3
        elif text.startswith("\\p{java", place):
            found.append("\\p{")
            place += 7
            if text.startswith(("LowerCase}", "UpperCase}"), place):
                found.append(text[place : place + 5])
                place += 9
        else:
            found.append(_SPELLED.get(text[place + 1 : place + 2], text[place : place + 2]))
            place += 2
    return "".join(found)
