"""The form of a walk: numbered steps, each a sentence what was looked at after it. Text of 80 columns, or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

COLUMNS: Final = 80
_INDENT: Final = 4
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"

Shown = Mapping[str, Any]


@dataclass(slots=True)
class Step:
    """What was done, and what stood where afterwards: by label, a value or a list of lines."""

    text: str
    shows: Shown


@dataclass(slots=True)
class Walk:
    """A title, what is to be known first, the steps, and what was learnt."""

    title: str
    before: str = ""
    steps: list[Step] = field(default_factory=list)
    after: str = ""

    def step(self, text: str, shows: Shown | None = None) -> None:
        """Add a step."""
        self.steps.append(Step(text, dict(shows or {})))

    def as_json(self) -> dict[str, Any]:
        """Plain values; what a step shows is under its label."""
        steps = [
            {"step": number, "text": step.text, "shows": dict(step.shows)} for number, step in enumerate(self.steps, 1)
        ]
        return {"title": self.title, "before": self.before, "steps": steps, "after": self.after}

    def as_text(self, *, colour: bool = False) -> str:
        """Lines of at most 80 columns; `colour` sets titles off and dims what has completed."""
        lines = [_paint(self.title, _BOLD, colour), ""]
        if self.before:
            lines += [*textwrap.wrap(self.before, COLUMNS), ""]
        for number, step in enumerate(self.steps, 1):
            head = f"{number:>2}  "
            wrapped = textwrap.wrap(step.text, COLUMNS, initial_indent=head, subsequent_indent=" " * _INDENT)
            lines += [_paint(line, _BOLD, colour) for line in wrapped]
            lines += _shown(step.shows, colour=colour)
        if self.after:
            lines += ["", *textwrap.wrap(self.after, COLUMNS)]
        return "\n".join(lines) + "\n"


def _shown(shows: Shown, *, colour: bool) -> Iterator[str]:
    width = max((len(label) for label in shows), default=0)
    for label, value in shows.items():
        for index, line in enumerate(_lines(value)):
            before = f"{'' if index else label:<{width}}"
            room = COLUMNS - _INDENT - width - 2
            for at, part in enumerate(textwrap.wrap(line, room) or [""]):
                yield f"{' ' * _INDENT}{before if not at else ' ' * width}  {_dimmed(part, colour=colour)}".rstrip()


def _lines(value: Any) -> list[str]:
    """A mapping's entries, a list's elements, or the one value."""
    if isinstance(value, Mapping):
        return [f"{name}: {_words(each)}" for name, each in value.items()] or ["-"]
    if isinstance(value, list):
        return [str(each) for each in value] or ["-"]
    return [str(value)]


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _paint(text: str, code: str, colour: bool) -> str:
    return f"{code}{text}{_PLAIN}" if colour else text


def _dimmed(text: str, *, colour: bool) -> str:
    """Entries that are completed and not purged yet end in `*`."""
    if not colour:
        return text
    return " ".join(_paint(word, _DIM, True) if word.endswith("*") else word for word in text.split(" "))
