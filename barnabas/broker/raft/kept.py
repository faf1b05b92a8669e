"""What a voter must never forget: its epoch, whom it voted for in it, and who the voters are (`quorum-state`).

The file is Kafka's (`FileQuorumStateStore`, version 0, for voters that are configured), with a sum of ours at its end:
a wrong digit of an epoch would be a second vote. One whose sum does not fit is refused, never guessed at.

    {"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,
     "currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0,"sum":"1a2b3c4d"}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from barnabas.broker.ports import Disk
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.primitives import crc32c

FILE: Final = "__cluster_metadata-0/quorum-state"
NOBODY: Final = -1


class Kept(NamedTuple):
    """The newest epoch that was heard of, whom this voter gave its vote in it, and who leads it; -1 for nobody yet."""

    epoch: int = 0
    voted: int = NOBODY
    leader: int = NOBODY


class QuorumStateError(BarnabasError):
    """What this voter promised cannot be told, or is another quorum's: it must not vote. Says what can be done."""


def load(disk: Disk, voters: Sequence[int]) -> Kept:
    """Read it; where there is none this voter has promised nothing yet.

    Raises:
        QuorumStateError: it is damaged, or of other voters.
    """
    try:
        data = disk.load(FILE)
    except FileNotFoundError:
        return Kept()
    except OSError as fault:
        raise QuorumStateError(f"{FILE} cannot be read: {fault.strerror or fault}") from fault
    kept, known = parse(data)
    if known != sorted(voters):
        raise QuorumStateError(
            f"controller.quorum.voters names nodes {_told(sorted(voters))}, and this data directory is of a quorum of "
            f"{_told(known)} ({FILE}): two quorums could decide at once; name those, or another data directory"
        )
    return kept


def check_there(kept: Kept, log_end: int) -> None:
    """Compare with the log, which nobody follows or leads before an epoch is kept; Kafka goes on with the log's epoch.

    Raises:
        QuorumStateError: the log has records, and the file of one of several voters is gone.
    """
    if kept == Kept() and log_end:
        raise QuorumStateError(
            f"{FILE} is gone, and the metadata log has {log_end} records: whom this voter promised its vote cannot be "
            "told; put it back, or name an empty data directory while all other controllers are there; a broker that "
            "decided alone until now never had it: start it with itself alone in controller.quorum.voters, then "
            "`barnabas log voters` makes it one of several"
        )


def _told(voters: Sequence[int]) -> str:
    return ", ".join(map(str, voters))


def dump(kept: Kept, voters: Sequence[int]) -> bytes:
    """The file."""
    fields: dict[str, Any] = {
        "clusterId": "",
        "leaderId": kept.leader,
        "leaderEpoch": kept.epoch,
        "votedId": kept.voted,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": one} for one in sorted(voters)],
        "data_version": 0,
    }
    fields["sum"] = _sum(fields)
    return json.dumps(fields, separators=(",", ":")).encode()


def _sum(fields: dict[str, Any]) -> str:
    return f"{crc32c(json.dumps(fields, separators=(',', ':')).encode()):08x}"


def parse(data: bytes) -> tuple[Kept, list[int]]:
    """What it says, and the voters, rising.

    Raises:
        QuorumStateError: it is damaged, or a newer release wrote it.
    """
    try:
        fields = json.loads(data)
        told = fields.pop("sum")
        if fields["data_version"] != 0:
            raise QuorumStateError(f"{FILE} is of version {fields['data_version']}, which this release cannot read")
        if told != _sum(fields):
            raise ValueError("its sum is wrong")
        voters = sorted(int(one["voterId"]) for one in fields["currentVoters"])
        return Kept(int(fields["leaderEpoch"]), int(fields["votedId"]), int(fields["leaderId"])), voters
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise QuorumStateError(
            f"{FILE} is damaged ({fault}): whom this voter promised its vote cannot be told; name an empty "
            "data directory while all other controllers are there: an older copy has forgotten its votes, too"
        ) from fault
