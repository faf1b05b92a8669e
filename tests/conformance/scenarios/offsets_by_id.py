"""G30 to G33: committed offsets by topic ids (v10), and requests for them that hold nothing or what is not there."""

import re
from typing import Any
from uuid import UUID

from tests.conformance.recordings import recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.joining import fresh
from tests.conformance.scenarios.offsets import BY_NOBODY, commit, part
from tests.conformance.scenarios.topics import in_any_order
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.whole import answers
from tests.conformance.world import World, error

STRANGE, NOBODY = UUID(int=4711), UUID(int=0)


def sorted_topics(text: str) -> str:
    """An answer with its topics sorted, which Apache Kafka gives in no order."""
    pattern = r"\{topic_id \w+, partitions \[.*?\]\}"
    topics = sorted(re.findall(pattern, text))
    return re.sub(pattern, lambda _: topics.pop(0), text)


def committing(
    group: str, *topics: tuple[Any, list[dict[str, Any]]], key: str = "topic_id", **by: Any
) -> dict[str, Any]:
    """An OffsetCommit request; by names with `key="name"`."""
    asked = [{key: name, "partitions": parts} for name, parts in topics]
    return {"group_id": group, **BY_NOBODY, **by, "topics": asked}


def fetching(group: str, topics: list[tuple[Any, tuple[int, ...]]] | None, key: str = "topic_id") -> dict[str, Any]:
    """An OffsetFetch request of one group."""
    asked = None if topics is None else [{key: name, "partition_indexes": parts} for name, parts in topics]
    return {"groups": [{"group_id": group, "member_epoch": -1, "topics": asked}], "require_stable": False}


def gone(world: World) -> UUID:
    """The id of a topic that was deleted."""
    name = world.topic()
    known: UUID = world.metadata(name).topic_id
    world.delete(name)
    world.wait(lambda: error(world.metadata(name).error_code) != "NONE", "the end of the topic")
    return known


@scenario(
    "G30",
    "OffsetCommit v10 by topic ids: right, strange, zero, deleted, mixed, twice; then told by name",
    recorded("G30"),
)
def g30(world: World) -> Facts:
    group, _ = fresh(world)
    coordinator(world, group)
    topic = world.topic(2)
    known, old = world.metadata(topic).topic_id, gone(world)
    bodies = {
        "right": committing(group, (known, [part(0, 5)])),
        "unknown partition": committing(group, (known, [part(9, 5)])),
        "strange": committing(group, (STRANGE, [part()])),
        "zero": committing(group, (NOBODY, [part()])),
        "deleted": committing(group, (old, [part()])),
        "strange and right": committing(group, (STRANGE, [part()]), (known, [part(1, 6)])),
        "right and strange": committing(group, (known, [part(1, 7)]), (STRANGE, [part(0), part(1)])),
        "id twice": committing(group, (known, [part(0, 8)]), (known, [part(0, 9)])),
        "partition twice": committing(group, (known, [part(1, 8), part(1, 9)])),
        "no partitions": committing(group, (known, [])),
        "no topics": committing(group),
        "of a generation": committing(group, (known, [part()]), generation_id_or_member_epoch=1, member_id="x"),
    }
    facts = {name: sorted_topics(text) for name, text in answers(world, "offset_commit", (10,), bodies, {}).items()}
    told = fetching(group, [(topic, (0, 1))], key="name")
    return facts | answers(world, "offset_fetch", (9,), {"then": told}, {topic: "T", group: "G"})


@scenario(
    "G31",
    "OffsetFetch v10 by topic ids: right, strange, zero, deleted, mixed, twice, all; of nothing",
    recorded("G31"),
    differs={
        name: re.sub(r"(\{topic_id id, partitions \[.*?\]\}), \1", r"\1", fact)
        for name, fact in recorded("G31").items()
        if name == "id twice"
    },
    note="a partition that is named twice is told once",
)
def g31(world: World) -> Facts:
    group, _ = fresh(world)
    coordinator(world, group)
    topic = world.topic(2)
    assert commit(world, group, [(topic, [part(0, 5)])]) == "NONE"
    known, old = world.metadata(topic).topic_id, gone(world)
    bodies = {
        "right": fetching(group, [(known, (0, 1))]),
        "unknown partition": fetching(group, [(known, (9,))]),
        "strange": fetching(group, [(STRANGE, (0, 1))]),
        "zero": fetching(group, [(NOBODY, (0,))]),
        "deleted": fetching(group, [(old, (0,))]),
        "strange and right": fetching(group, [(STRANGE, (0,)), (known, (0,))]),
        "id twice": fetching(group, [(known, (0,)), (known, (0,))]),
        "no partitions": fetching(group, [(known, ())]),
        "no topics": fetching(group, []),
        "all": fetching(group, None),
        "no groups": {"groups": [], "require_stable": False},
    }
    facts = answers(world, "offset_fetch", (10,), bodies, {group: "G"})
    return {name: sorted_topics(text) for name, text in facts.items()}


@scenario(
    "G32",
    "OffsetFetch v1, v6, v8, v9 of what is not there: groups, topics, partitions, names; of none; all",
    recorded("G32"),
)
def g32(world: World) -> Facts:
    group, _ = fresh(world)
    nobody = world.fresh()
    coordinator(world, group, nobody)
    topic = world.topic(2)
    assert commit(world, group, [(topic, [part(0, 5)])]) == "NONE"

    def body(name: str, topics: list[tuple[str, tuple[int, ...]]] | None) -> dict[str, Any]:
        asked = None if topics is None else [{"name": one, "partition_indexes": parts} for one, parts in topics]
        return {**fetching(name, topics, key="name"), "group_id": name, "topics": asked}

    bodies = {
        "there": body(group, [(topic, (0, 1))]),
        "unknown topic": body(group, [("missing", (0,))]),
        "bad name": body(group, [("x y", (0,))]),
        "negative partition": body(group, [(topic, (-1,))]),
        "no partitions": body(group, [(topic, ())]),
        "no topics": body(group, []),
        "no group": body("", [(topic, (0,))]),
        "unknown group": body(nobody, [(topic, (0,))]),
    }
    facts = answers(world, "offset_fetch", (1, 6, 8, 9), bodies, {topic: "T", group: "G", nobody: "N"})
    everything = {"all": body(group, None), "all of nobody": body(nobody, None)}
    return facts | answers(world, "offset_fetch", (2, 7, 8), everything, {topic: "T", group: "G", nobody: "N"})


@scenario(
    "G33",
    "OffsetCommit v2, v7, v9 of what is not there: topics, partitions, groups, names; of none; too much metadata",
    recorded("G33"),
)
def g33(world: World) -> Facts:
    group, _ = fresh(world)
    coordinator(world, group)
    topic = world.topic()
    bodies = {
        "there": committing(group, (topic, [part()]), key="name"),
        "unknown topic": committing(group, ("missing", [part()]), key="name"),
        "bad name": committing(group, ("x y", [part()]), key="name"),
        "no name": committing(group, ("", [part()]), key="name"),
        "unknown partition": committing(group, (topic, [part(9), part(-1)]), key="name"),
        "no partitions": committing(group, (topic, []), key="name"),
        "no topics": committing(group, key="name"),
        "no metadata": committing(group, (topic, [part(metadata=None)]), key="name"),
        "4097 letters": committing(group, (topic, [part(metadata="x" * 4097)]), key="name"),
        "offset -1": committing(group, (topic, [part(0, -1)]), key="name"),
        "offset -2": committing(group, (topic, [part(0, -2)]), key="name"),
        "one of two": committing(group, (topic, [part(0, 7), part(9, 7)]), key="name"),
    }
    facts = answers(world, "offset_commit", (2, 7, 9), bodies, {topic: "T", group: "G"})
    return {name: in_any_order(text) if name.startswith("one of two") else text for name, text in facts.items()}
