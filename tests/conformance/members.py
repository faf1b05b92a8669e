"""Members of classic groups over raw connections, and the answers of the group APIs in words.

Member ids are random: a fact has the letter that the scenario gave to a member instead, `new` or `none`.
"""

import struct
from types import TracebackType
from typing import Any, Self

from tests.conformance.raw import Connection, Reply
from tests.conformance.world import World, error

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
SESSION_MS = REBALANCE_MS = 30000
"""Longer than a scenario waits, so that nothing ends by itself on a slow machine."""

Names = dict[str, str]


def subscription(*topics: str) -> bytes:
    """What a consumer tells of itself: `ConsumerProtocolSubscription` v0."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def join_body(group: str, member_id: str = "", **changed: Any) -> dict[str, Any]:
    """A JoinGroup request; `protocols` are pairs of a name and bytes."""
    protocols = changed.pop("protocols", [("range", subscription("t"))])
    return {
        "group_id": group,
        "session_timeout": SESSION_MS,
        "rebalance_timeout": REBALANCE_MS,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
        **changed,
    }


def joined(reply: Reply, names: Names) -> str:
    """A JoinGroup answer in words."""
    body = reply.body
    if error(body.error_code) != "NONE":
        return f"{error(body.error_code)}, id {names.get(body.member_id, 'new') if body.member_id else 'none'}"
    told = " ".join(sorted(names.get(each.member_id, "new") for each in body.members))  # Kafka's are in no order
    return (
        f"generation {body.generation_id}, {body.protocol_name}, id {names.get(body.member_id, 'new')}, "
        f"leader {names.get(body.leader, 'new')}, members [{told}]"
        + (", skip" * getattr(body, "skip_assignment", False))
    )


def synced(reply: Reply) -> str:
    """A SyncGroup answer in words."""
    code = error(reply.body.error_code)
    return f"{code}, {reply.body.assignment.decode()!r}" if code == "NONE" else code


class Member:
    """One member of a group with a connection of its own; a context manager that closes it."""

    def __init__(self, world: World, group: str, letter: str, names: Names, **asks: Any) -> None:
        self.peer: Connection = world.connect()
        self.group, self.letter, self.names = group, letter, names
        self.asks = asks
        self.instance_id: str | None = asks.get("group_instance_id")
        self.member_id = ""
        self.generation = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.peer.close()

    def name_itself(self, member_id: str) -> None:
        """It has an id."""
        self.member_id = member_id
        self.names[member_id] = self.letter

    def ask_id(self) -> str:
        """Join without an id, and keep the one that is given."""
        reply = self.peer.call("join_group", JOIN, join_body(self.group, **self.asks))
        assert error(reply.body.error_code) == "MEMBER_ID_REQUIRED(79)", error(reply.body.error_code)
        self.name_itself(reply.body.member_id)
        return self.member_id

    def send_join(self, **changed: Any) -> None:
        """Ask to be let in, with an id unless it is static; `heard` brings the answer."""
        if not self.member_id and self.instance_id is None:
            self.ask_id()
        self.asks |= changed
        self.peer.send("join_group", JOIN, join_body(self.group, self.member_id, **self.asks))

    def heard(self) -> str:
        """The answer to `send_join` in words."""
        _, reply = self.peer.receive()
        if error(reply.body.error_code) == "NONE":
            self.name_itself(reply.body.member_id)
            self.generation = reply.body.generation_id
        return joined(reply, self.names)

    def join(self, **changed: Any) -> str:
        """Join, and wait for the answer."""
        self.send_join(**changed)
        return self.heard()

    def sync_body(self, assignments: dict[str, bytes] | None = None, **changed: Any) -> dict[str, Any]:
        """A SyncGroup request."""
        pairs = [{"member_id": each, "assignment": mine} for each, mine in (assignments or {}).items()]
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": pairs,
            **changed,
        }

    def sync(self, assignments: dict[str, bytes] | None = None, **changed: Any) -> str:
        """Say, or ask, who is assigned what."""
        return synced(self.peer.call("sync_group", SYNC, self.sync_body(assignments, **changed)))

    def send_sync(self, generation: int, assignments: dict[str, bytes] | None = None) -> None:
        """Sync, before the answer to the JoinGroup is there: no time passes that a timeout could run out in."""
        self.peer.send("sync_group", SYNC, self.sync_body(assignments, generation_id=generation))

    def heartbeat(self, **changed: Any) -> str:
        """A heartbeat; the error in words."""
        body = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            **changed,
        }
        return error(self.peer.call("heartbeat", HEARTBEAT, body).body.error_code)

    def stable(self, **changed: Any) -> Self:
        """Join as the only member and take the assignment "all".

        Apache Kafka's look for expired offsets takes away a group that knows nothing but ids it gave out
        (`GroupMetadataManager.maybeDeleteGroup`; every half second in G86), and so the id between the two joins: as a
        client does, ask for another.
        """
        said = self.join(**changed)
        for _ in range(4):
            if said.startswith("UNKNOWN_MEMBER_ID"):
                self.member_id = ""
                said = self.join()
        assert said.startswith("generation"), said
        assert self.sync({self.member_id: b"all"}) == "NONE, 'all'"
        return self


def leave(world: World, group: str, *identities: dict[str, Any], names: Names | None = None) -> str:
    """LeaveGroup of these; the error for all, then those of each."""
    body = world.call("leave_group", LEAVE, {"group_id": group, "members": list(identities)}).body
    told = [
        f"{(names or {}).get(one.member_id, one.member_id or one.group_instance_id)} {error(one.error_code)}"
        for one in body.members
    ]
    return f"{error(body.error_code)}: {'; '.join(told)}"


def described(world: World, group: str, version: int = 6) -> str:
    """DescribeGroups of one group in words."""
    one = world.call("describe_groups", version, {"groups": (group,)}).body.groups[0]
    shown = sorted(
        f"{each.member_assignment.decode()!r} of {'static' if each.group_instance_id else 'dynamic'}, "
        f"{'told' if each.member_metadata else 'no'} metadata"
        for each in one.members
    )
    told = f"{error(one.error_code)}, {one.group_state}, {one.protocol_type!r}, {one.protocol_data!r}"
    return told + f", [{'; '.join(shown)}]"


def beats_until(world: World, member: Member, code: str) -> str:
    """Heartbeats until one is answered with this error."""
    world.wait(lambda: member.heartbeat() == code, f"a heartbeat answered {code}")
    return code
