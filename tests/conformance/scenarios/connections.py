"""H01 to H03: the order of answers on one connection, and what a broken frame does to it."""

import struct

from tests.conformance.raw import Closed, Connection, encode
from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import FETCH, World, after, fetch_body, produce_body


def fate(peer: Connection) -> str:
    """What becomes of a connection: closed, answered, or left open without a word.

    Answers leave in the order of the requests: one that comes to a later request shows that there was none before it.
    """
    try:
        later = 0
        if peer.silent(1.0):
            later = peer.send("api_versions", 0, {})
        frame = peer.receive_frame()
    except TimeoutError:
        return "open, no answer"
    except (Closed, ConnectionError):
        return "closed"
    answers_it = later and frame[:4] == struct.pack(">i", later)
    return "open, no answer" if answers_it else f"answered with {len(frame)} bytes"


@scenario(
    "H01",
    "one connection, three requests at once: a fetch that waits 600 ms, ApiVersions, a fetch that waits 300 ms",
    {"order": "as asked", "first": "600 ms", "second": "600 ms", "third": "900 ms"},
)
def h01(world: World) -> Facts:
    topic = world.topic()
    with world.connect() as peer:
        asked = [
            peer.send("fetch", FETCH, fetch_body([(topic, 0, 0)], wait=600)),
            peer.send("api_versions", 0, {}),
            # It is read only when the answers before it have left: its wait begins then.
            peer.send("fetch", FETCH, fetch_body([(topic, 0, 0)], wait=300)),
        ]
        answers = [peer.receive() for _ in asked]
    return {
        "order": "as asked" if [number for number, _ in answers] == asked else str([number for number, _ in answers]),
        "first": after(answers[0][1].ms, 600),
        "second": after(answers[1][1].ms, 600),
        "third": after(answers[2][1].ms, 900),
    }


def header(api_key: int, version: int) -> bytes:
    """A request header without client id."""
    return struct.pack(">hhih", api_key, version, 1, -1)


def framed(body: bytes) -> bytes:
    """With its length."""
    return struct.pack(">i", len(body)) + body


@scenario(
    "H02",
    "nonsense, each on a connection of its own: lengths, unknown APIs and versions, a body cut short",
    {
        "length -1": "closed",
        "length 200 MB": "closed",
        "length 0": "closed",
        "length 3": "closed",
        "unknown API 9999": "closed",
        "Fetch v99": "closed",
        "Fetch v3": "closed",
        "Metadata cut short": "closed",
        "an array of 2 billion": "closed",
        "others": "served",
    },
)
def h02(world: World) -> Facts:
    good = encode("metadata", 12, {"topics": [{"name": "x"}]}, 1, None)[4:]
    frames = {
        "length -1": struct.pack(">i", -1) + b"x" * 10,
        "length 200 MB": struct.pack(">i", 200_000_000) + b"x" * 10,
        "length 0": struct.pack(">i", 0) + b"x" * 10,
        "length 3": framed(b"\0\3\0"),
        "unknown API 9999": framed(header(9999, 0)),
        "Fetch v99": framed(header(1, 99) + b"\0" * 40),
        "Fetch v3": framed(header(1, 3) + b"\0" * 40),
        "Metadata cut short": framed(good[:-5]),
        "an array of 2 billion": framed(header(3, 4) + struct.pack(">i", 2_000_000_000) + b"\1"),
    }
    facts: Facts = {}
    for name, frame in frames.items():
        with world.connect() as peer:
            peer.send_bytes(frame)
            facts[name] = fate(peer)
    world.call("api_versions", 0, {})
    return {**facts, "others": "served"}


@scenario(
    "H03",
    "bytes after the end of a request's body; a client id of null; a null topic list and an empty one",
    {"bytes after the body": "answered", "null client id": "answered", "null topics": "all", "no topics": "none"},
)
def h03(world: World) -> Facts:
    topic = world.topic()
    frame = encode("metadata", 12, {"topics": [{"name": topic}]}, 1, None)[4:]
    facts: Facts = {}
    with world.connect() as peer:
        peer.send_bytes(framed(frame + b"\0" * 4))
        facts["bytes after the body"] = fate(peer).split()[0]
    with world.connect(client_id=None) as peer:
        found = peer.call("metadata", 12, {"topics": [{"name": topic}]}).body
        facts["null client id"] = "answered" if len(found.topics) == 1 else "strange"
        names = [each.name for each in peer.call("metadata", 12, {"topics": None}).body.topics]
        facts["null topics"] = "all" if topic in names else str(names)
        nothing = peer.call("metadata", 12, {"topics": []}).body.topics
        facts["no topics"] = "none" if len(nothing) == 0 else f"{len(nothing)}"
    return facts


@scenario(
    "H04",
    "no topics at all in Produce with acks 0 and 1; Fetch without topics and without a session",
    {"no topics, acks 1": "answered", "no topics, acks 0": "open, no answer", "fetch of nothing": "at once"},
)
def h04(world: World) -> Facts:
    facts: Facts = {}
    with world.connect() as peer:
        reply = peer.call("produce", 9, produce_body({}, acks=1))
        facts["no topics, acks 1"] = "answered" if len(reply.body.responses) == 0 else "strange"
        peer.send("produce", 9, produce_body({}, acks=0))
        facts["no topics, acks 0"] = fate(peer)
    with world.connect() as peer:
        facts["fetch of nothing"] = after(peer.call("fetch", FETCH, fetch_body([], wait=2000)).ms, 0)
    return facts
