"""Texts with gaps: `$1`, `$name` and `${name}` are what a filter or an expression caught, `{topic}` is the whole topic.

`$$`, `{{` and `}}` stand for the signs themselves. All gaps are known, and checked, before the first message comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from barnabas.protocol.errors import ConfigError

_GAP: Final = re.compile(r"\$\$|\$(\d+)|\$\{(\w+)\}|\$([A-Za-z_]\w*)|\{\{|\}\}|\{([^{}]*)\}|[$]|[{}]")
_SIGNS: Final = {"$$": "$", "{{": "{", "}}": "}"}

Values = Mapping[str, str]
"""What stands in the gaps, by name: `1`, `2`, names of groups, and what a direction has in braces."""
Template = Callable[[Values], str]


def compiled(text: str, groups: int, names: Collection[str], braces: Sequence[str] = ("topic",)) -> Template:
    """What makes the text for given values. `groups` and `names` are the caught ones, `braces` what `{...}` may name.

    Raises:
        ConfigError: a gap that nothing fills, or a sign that stands for nothing.
    """
    parts: list[tuple[str, bool]] = []
    at = 0
    for found in _GAP.finditer(text):
        parts.append((text[at : found.start()], False))
        at = found.end()
        if found[0] in _SIGNS:
            parts.append((_SIGNS[found[0]], False))
        else:
            parts.append((_name(text, found, groups, names, braces), True))
    parts.append((text[at:], False))
    parts = [part for part in parts if part[0]]
    if not any(gap for _, gap in parts):
        whole = "".join(piece for piece, _ in parts)
        return lambda values: whole
    if len(parts) == 1:
        return lambda values: values[parts[0][0]]
    return lambda values: "".join([values[piece] if gap else piece for piece, gap in parts])


def _name(text: str, found: re.Match[str], groups: int, names: Collection[str], braces: Sequence[str]) -> str:
    number, quoted, plain, brace = found.groups()
    if brace is not None:
        if brace not in braces:
            raise ConfigError(
                f"{text!r}: there is no {{{brace}}}; there is {', '.join(f'{{{one}}}' for one in braces)}"
            )
        return brace
    name = number or quoted or plain
    if name is None:
        raise ConfigError(f"{text!r}: a lone {found[0]} stands for nothing; write {found[0] * 2} for the sign itself")
    if name.isdigit():
        if not 1 <= int(name[:6]) <= groups:
            caught = f"the filter catches {groups}" if groups else "nothing is caught here"
            raise ConfigError(f"{text!r}: there is no ${name}; {caught}")
        return str(int(name))
    if name not in names:
        there = f"; there is {', '.join(f'${one}' for one in names)}" if names else "; no group has a name here"
        raise ConfigError(f"{text!r}: there is no ${name}{there}")
    return name
