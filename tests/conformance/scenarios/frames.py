"""H10 to H14: what a body may not hold and what it may, byte by byte: nulls, lengths, tagged fields, client ids."""

import struct

from tests.conformance.raw import encode
from tests.conformance.recordings import recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.connections import fate, framed
from tests.conformance.world import World


def head(api_key: int, version: int, *, flexible: bool = False, tags: bytes = b"\0") -> bytes:
    """A request header without client id."""
    return struct.pack(">hhih", api_key, version, 1, -1) + (tags if flexible else b"")


def fates(world: World, frames: dict[str, bytes]) -> Facts:
    """What becomes of each, on a connection of its own: closed, answered, or left without a word."""
    facts: Facts = {}
    for name, frame in frames.items():
        with world.connect() as peer:
            peer.send_bytes(framed(frame))
            facts[name] = fate(peer).split(" with ")[0]
    return facts


@scenario(
    "H10",
    "null where there must be something: strings and lists of Metadata, CreateTopics, Produce, ListOffsets",
    recorded("H10"),
)
def h10(world: World) -> Facts:
    minus, none = struct.pack(">i", -1), struct.pack(">h", -1)
    one, timeout = struct.pack(">i", 1), struct.pack(">i", 1000)
    return fates(
        world,
        {
            "Metadata v0, null topics": head(3, 0) + minus,
            "Metadata v1, null topics": head(3, 1) + minus,
            "Metadata v1, null name": head(3, 1) + one + none,
            "Metadata v9, null name": head(3, 9, flexible=True) + b"\2\0\0" + b"\0\0\0\0",
            "CreateTopics v2, null topics": head(19, 2) + minus + timeout + b"\0",
            "CreateTopics v5, null topics": head(19, 5, flexible=True) + b"\0" + timeout + b"\0\0",
            "DeleteTopics v1, null names": head(20, 1) + minus + timeout,
            "Produce v3, null topics": head(0, 3) + none + struct.pack(">h", 1) + timeout + minus,
            "ListOffsets v1, null topics": head(2, 1) + minus + minus,
            "ListOffsets v1, null name": head(2, 1) + minus + one + none + minus,
            "Fetch v4, null topics": head(1, 4) + minus + timeout + one + timeout + b"\0" + minus,
            "DescribeConfigs v1, null resources": head(32, 1) + minus + b"\0",
            "DescribeGroups v0, null groups": head(15, 0) + minus,
            "FindCoordinator v0, null key": head(10, 0) + none,
            "Heartbeat v0, null group": head(12, 0) + none + one + none,
            "ApiVersions v3, null names": head(18, 3, flexible=True) + b"\0\0\0",
        },
    )


@scenario(
    "H11",
    "lengths that are wrong: below -1, beyond the frame, of many bytes; a frame that ends within a field",
    recorded("H11"),
)
def h11(world: World) -> Facts:
    return fates(
        world,
        {
            "array -2": head(3, 1) + struct.pack(">i", -2),
            "array of the frame's end": head(3, 1) + struct.pack(">i", 5),
            "string -2": head(3, 1) + struct.pack(">ih", 1, -2),
            "string beyond": head(3, 1) + struct.pack(">ih", 1, 50) + b"abc",
            "compact array beyond": head(3, 9, flexible=True) + b"\x7f",
            "compact string beyond": head(3, 9, flexible=True) + b"\2\x70abc\0\0\0\0",
            "length of six bytes": head(3, 9, flexible=True) + b"\xff\xff\xff\xff\xff\x01",
            "length of five ones": head(3, 9, flexible=True) + b"\xff\xff\xff\xff\x0f",
            "nothing after the header": head(3, 1),
            "half a header": struct.pack(">hh", 3, 1),
            "client id beyond": struct.pack(">hhih", 3, 1, 1, 50) + b"abc",
            "client id of -2": struct.pack(">hhih", 3, 0, 1, -2) + struct.pack(">i", 0),
        },
    )


@scenario(
    "H12",
    "tagged fields that nobody knows: in the header, in the body, empty ones, twice, longer than the frame",
    recorded("H12"),
)
def h12(world: World) -> Facts:
    def versions(tags: bytes = b"\0", own: bytes = b"\0") -> bytes:
        return head(18, 3, flexible=True, tags=tags) + b"\4raw\2" + b"1" + own

    return fates(
        world,
        {
            "none": versions(),
            "in the header": versions(tags=b"\1\x64\2ab"),
            "in the body": versions(own=b"\1\x64\2ab"),
            "in both": versions(tags=b"\1\x64\2ab", own=b"\1\x64\2ab"),
            "empty": versions(own=b"\1\x64\0"),
            "two": versions(own=b"\2\x64\1a\x65\1b"),
            "the same twice": versions(own=b"\2\x64\1a\x64\1b"),
            "falling": versions(own=b"\2\x65\1a\x64\1b"),
            "beyond the frame": versions(own=b"\1\x64\x70ab"),
            "counted, not there": versions(own=b"\3"),
        },
    )


@scenario("H13", "client ids: null, empty, of 300 letters, with blanks and line breaks, not UTF-8", recorded("H13"))
def h13(world: World) -> Facts:
    def asked(client_id: bytes | None) -> bytes:
        size = struct.pack(">h", -1 if client_id is None else len(client_id))
        return struct.pack(">hhi", 3, 1, 1) + size + (client_id or b"") + struct.pack(">i", 0)

    return fates(
        world,
        {
            "null": asked(None),
            "empty": asked(b""),
            "300 letters": asked(b"x" * 300),
            "line breaks": asked(b"a\nb\r\n\0 c"),
            "not UTF-8": asked(b"\xff\xfe"),
            "32767 letters": asked(b"y" * 32767),
        },
    )


@scenario(
    "H14", "correlation ids: 0, negative, the same twice at once; each answer has that of its request", recorded("H14")
)
def h14(world: World) -> Facts:
    facts: Facts = {}
    for name, numbers in {"zero": (0,), "negative": (-7,), "largest": (2**31 - 1,), "the same twice": (5, 5)}.items():
        with world.connect() as peer:
            for number in numbers:
                peer.send_bytes(encode("metadata", 1, {"topics": []}, number, "raw"))
            got = [struct.unpack_from(">i", peer.receive_frame())[0] for _ in numbers]
        facts[name] = ", ".join(str(number) for number in got)
    return facts
