"""F18 to F21: incremental fetch sessions (KIP-227)."""

from typing import Any

from tests.conformance.raw import Connection, Reply
from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import FETCH, World, after, error, fetch_body, fetched


def open_session(
    peer: Connection, partitions: list[tuple[Any, int, int]], version: int = FETCH, key: str = "topic"
) -> int:
    """A full fetch that opens a session; its id."""
    reply = peer.call("fetch", version, fetch_body(partitions, session=(0, 0), key=key))
    assert error(reply.body.error_code) == "NONE"
    return int(reply.body.session_id)


def listed(reply: Reply) -> str:
    """The partitions an answer lists, with their errors; or the error of the whole answer."""
    code = error(reply.body.error_code)
    if code != "NONE":
        return code
    parts = fetched(reply)
    return ", ".join(f"p{index} {part.code}" for (_, index), part in parts.items()) or "no partition"


@scenario(
    "F18",
    "open a session on an empty topic; next incremental fetch, wait 100 ms",
    {"id": "given", "first": "p0 NONE, p1 NONE", "second": "no partition", "same id": "yes", "second, after": "100 ms"},
)
def f18(world: World) -> Facts:
    topic = world.topic(2)
    with world.connect() as peer:
        first = peer.call("fetch", FETCH, fetch_body([(topic, 0, 0), (topic, 1, 0)], session=(0, 0)))
        session = first.body.session_id
        second = peer.call("fetch", FETCH, fetch_body([], session=(session, 1), wait=100))
    return {
        "id": "given" if session != 0 else "0",
        "first": listed(first),
        "second": listed(second),
        "same id": "yes" if second.body.session_id == session else "no",
        "second, after": after(second.ms, 100),
    }


@scenario(
    "F19",
    "a session at epoch 1: send epoch 5; then an unknown session; then the right epoch; close it; use it again",
    {
        "epoch 5": "INVALID_FETCH_SESSION_EPOCH(71)",
        "unknown": "FETCH_SESSION_ID_NOT_FOUND(70)",
        "epoch 1": "no partition",
        "closed": "p0 NONE",
        "after closing": "FETCH_SESSION_ID_NOT_FOUND(70)",
    },
)
def f19(world: World) -> Facts:
    topic = world.topic()
    with world.connect() as peer:
        session = open_session(peer, [(topic, 0, 0)])
        steps = {
            "epoch 5": fetch_body([], session=(session, 5)),
            "unknown": fetch_body([], session=(session ^ 0x5A5A5A5, 1)),
            "epoch 1": fetch_body([], session=(session, 1)),
            "closed": fetch_body([(topic, 0, 0)], session=(session, -1)),
            "after closing": fetch_body([], session=(session, 2)),
        }
        return {name: listed(peer.call("fetch", FETCH, body)) for name, body in steps.items()}


@scenario(
    "F20",
    "a session on three partitions; a record to p1; incremental fetches; p1 forgotten; a record to p1 and p2",
    {"after a record to p1": "p1 NONE", "next": "p1 NONE", "position moved": "no partition", "p1 forgotten": "p2 NONE"},
)
def f20(world: World) -> Facts:
    topic = world.topic(3)
    facts: Facts = {}
    with world.connect() as peer:
        session = open_session(peer, [(topic, index, 0) for index in range(3)])
        world.produce(topic, 1, partition=1)
        facts["after a record to p1"] = listed(
            peer.call("fetch", FETCH, fetch_body([], session=(session, 1), wait=1000))
        )
        # The session still stands at offset 0 there: the record comes again until the client moves on.
        facts["next"] = listed(peer.call("fetch", FETCH, fetch_body([], session=(session, 2))))
        moved = fetch_body([(topic, 1, 1)], session=(session, 3))
        facts["position moved"] = listed(peer.call("fetch", FETCH, moved))
        world.produce(topic, 1, partition=1)
        world.produce(topic, 1, partition=2)
        forget = fetch_body([], session=(session, 4), forget=[(topic, 1)])
        facts["p1 forgotten"] = listed(peer.call("fetch", FETCH, forget))
    return facts


@scenario(
    "F21b",
    "a session by id (v13) on a topic that is deleted and made again under its name; a full fetch with the old id",
    {
        "session": "p0 INCONSISTENT_TOPIC_ID(103); p0 INCONSISTENT_TOPIC_ID(103)",
        "full fetch": "p0 UNKNOWN_TOPIC_ID(100)",
    },
)
def f21b(world: World) -> Facts:
    topic = world.topic()
    old = world.metadata(topic).topic_id
    with world.connect() as peer:
        session = open_session(peer, [(old, 0, 0)], 13, "topic_id")
        world.delete(topic)
        world.wait(lambda: error(world.metadata(topic).error_code) != "NONE", "the deletion")
        world.wait(lambda: world.create(topic) == "NONE", "the second creation")
        world.wait(lambda: world.led(topic, 1), "its leader")
        bodies = [fetch_body([], session=(session, epoch), key="topic_id") for epoch in (1, 2)]
        answers = [listed(peer.call("fetch", 13, body)) for body in bodies]
        full = listed(peer.call("fetch", 13, fetch_body([(old, 0, 0)], key="topic_id")))
    return {"session": "; ".join(answers), "full fetch": full}


@scenario(
    "F21",
    "a session on a topic that is deleted: incremental fetches until it is forgotten, by name (v12) and by id (v13)",
    {
        "v12": "p0 UNKNOWN_TOPIC_OR_PARTITION(3); p0 UNKNOWN_TOPIC_OR_PARTITION(3); no partition",
        "v13": "p0 UNKNOWN_TOPIC_OR_PARTITION(3); p0 UNKNOWN_TOPIC_OR_PARTITION(3); no partition",
    },
)
def f21(world: World) -> Facts:
    facts: Facts = {}
    for version, key in ((12, "topic"), (13, "topic_id")):
        topic = world.topic()
        name = topic if version == 12 else world.metadata(topic).topic_id
        with world.connect() as peer:
            session = open_session(peer, [(name, 0, 0)], version, key)
            world.delete(topic)
            world.wait(lambda topic=topic: error(world.metadata(topic).error_code) != "NONE", "the deletion")  # type: ignore[misc]
            answers = []
            for epoch in (1, 2, 3):
                forget = [(name, 0)] if epoch == 3 else None
                body = fetch_body([], session=(session, epoch), forget=forget, key=key)
                answers.append(listed(peer.call("fetch", version, body)))
        facts[f"v{version}"] = "; ".join(answers)
    return facts
