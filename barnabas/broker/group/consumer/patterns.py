"""Regular expressions that members subscribe with (KIP-848): RE2's, which no input can make slow.

They come from strangers, and Python's own would stop the loop: `(a+)+b` against one long name takes it years. RE2 takes
time linear in the name, and is bounded in memory. It is the package `google-re2` (3 MB of memory, 9 ms), imported when
the first pattern comes. Apache Kafka takes `re2j`, which has the same syntax; its words for faults are told here.

A compiled pattern may hold `MEMORY_MAX` bytes. It is made to be used and dropped, not kept; what is kept is its text.
How long RE2 reads and compiles is bounded by nothing of its own: a thousand classes of Unicode took 140 ms, eight times
`x{0,1000}` as long. So it is not asked before the text was looked through for what is dear, and asked first with room
for `PROGRAM_MAX` instructions, where it gives up as soon as these are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Any, Final

from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError

LENGTH_MAX: Final = 4096
"""Characters of a pattern: a choice of 16 of the longest names. Apache Kafka has no bound but that of a request."""
MEMORY_MAX: Final = 1 << 20
"""Bytes that a compiled pattern and what it learns of the names may take."""
PROGRAM_MAX: Final = 8192
"""Instructions of a compiled pattern."""
REPEATS_MAX: Final = 1000
"""What all `{n,m}` of a pattern may count to, added up: what `x{0,m}` takes grows with the square of m."""
CLASSES_MAX: Final = 64
"""Classes of Unicode (`pL` behind a backslash), 0.1 ms each to be read. Names of topics are of ASCII."""
_INSTRUCTION_BYTES: Final = 16
_COUNTED: Final = re.compile(r"\{(\d{0,9}),?(\d{0,9})\}")
WORK_PER_STEP: Final = 1_000_000
"""Instructions times characters that one step looks at, in the worst case: a few ms."""
_NAME_LENGTH: Final = 249
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NAMED: Final = re.compile(r"\(\?P?<(\w+)>", re.ASCII)

_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
}
"""What re2j says where RE2 says the other."""


class Pattern:
    """A compiled pattern. A name matches as a whole."""

    __slots__ = ("_compiled", "_names_per_step", "text")

    def __init__(self, text: str, compiled: Any) -> None:
        self.text = text
        self._compiled = compiled
        self._names_per_step = max(WORK_PER_STEP // (compiled.programsize * _NAME_LENGTH), 1)

    def matches(self, name: str) -> bool:
        """Whether a topic's name is meant."""
        return self._compiled.fullmatch(name.encode()) is not None

    def matching(self, names: Iterable[str]) -> Job[list[str]]:
        """Those of the names that are meant, in their order; found in steps, so the names must stay as they are.

        Internal topics are not left out, as in Apache Kafka 4.3.
        """
        found: list[str] = []
        rest = iter(names)
        while some := list(islice(rest, self._names_per_step)):
            found += filter(self.matches, some)
            yield None
        return found


def compile_pattern(text: str) -> Pattern:
    """The pattern that a member has written.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION: it is none, is too large, or this broker has no RE2.
    """
    if len(text) > LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex has {len(text)} characters; write {LENGTH_MAX} at most, or subscribe by names.",
        )
    _check_cost(text)
    re2, narrow, options = _re2()
    try:
        re2.compile(text.encode(), narrow)
        compiled = re2.compile(text.encode(), options)
    except re2.error as fault:
        raise _refusal(text, _said(fault)) from None
    finally:
        re2.purge()  # it would keep the last 128
    _check_dialect(text)
    if compiled.programsize > PROGRAM_MAX:
        raise _refusal(text, f"it compiles to {compiled.programsize} instructions, {PROGRAM_MAX} is the most")
    return Pattern(text, compiled)


def _check_cost(text: str) -> None:
    classes = text.count("\\p") + text.count("\\P")
    if classes > CLASSES_MAX:
        raise _refusal(text, f"it has {classes} classes of Unicode, {CLASSES_MAX} is the most")
    counts = [max(int(low or 0), int(high or 0)) for low, high in _COUNTED.findall(text)]
    repeats = sum(counts)
    if repeats > REPEATS_MAX >= max(counts):  # one that counts further is refused by RE2 at once
        raise _refusal(text, f"what it repeats adds up to {repeats} times, {REPEATS_MAX} is the most")


def _check_dialect(text: str) -> None:
    """Refuse what RE2 takes and re2j does not: a single byte, and two groups of one name."""
    if "C" in _ESCAPED.findall(text):
        raise _refusal(text, "invalid escape sequence")
    named = _NAMED.findall(_ESCAPED.sub("", text))
    if len(set(named)) < len(named):
        raise _refusal(text, "duplicate capture group name")


@cache
def _re2() -> tuple[Any, Any, Any]:
    try:
        import re2
    except ImportError as fault:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "this broker has no regular expressions: the package google-re2 cannot be imported. Install it where the "
            "broker runs (pip install google-re2) and start that anew, or subscribe by names.",
        ) from fault
    both = []
    for memory in (PROGRAM_MAX * _INSTRUCTION_BYTES, MEMORY_MAX):
        options = re2.Options()
        options.max_mem = memory
        options.log_errors = False
        options.never_capture = True
        both.append(options)
    return re2, *both


def _said(fault: Exception) -> str:
    """In re2j's words: without the part of the pattern that RE2 puts behind its own."""
    said = fault.args[0].decode(errors="replace") if isinstance(fault.args[0], bytes) else str(fault.args[0])
    return next((words for start, words in _WORDS.items() if said.startswith(start)), said)


def _refusal(text: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}.",
    )
