"""Whose offsets a checkpoint holds: of which cluster, and of which topics by their ids. Pure functions.

Offsets mean something for the topic they were counted in. A topic that was deleted and created again, or the same name
in another cluster, has another id, though its offsets may look as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Origin:
    """A cluster's id ("" where it told none) and the ids of topics by their names, as far as they are known."""

    cluster: str = ""
    topics: Mapping[str, str] = field(default_factory=dict)


class Anew(NamedTuple):
    """Topics that are not those of the checkpoint any more, and why, in words."""

    topics: frozenset[str] = frozenset()
    why: str = ""


def made_anew(was: Origin, now: Origin, known: Iterable[str]) -> Anew:
    """Which of the `known` topics were made anew since `was`. What was not written down then is taken for the same."""
    names = frozenset(known)
    if was.cluster and now.cluster and was.cluster != now.cluster:
        return Anew(
            names,
            f"this is another cluster (id {now.cluster}) than the one of the checkpoint ({was.cluster}); a broker "
            "without a data directory is a new one each time it starts",
        )
    anew = sorted(name for name in names if now.topics.get(name, "") != was.topics.get(name, now.topics.get(name, "")))
    present = [name for name in anew if name in now.topics]
    return Anew(frozenset(present), " and ".join(map(again, present)))


def again(topic: str) -> str:
    """What to say of a topic that was made anew."""
    return f"the topic {topic} was deleted and created again since it was read"
