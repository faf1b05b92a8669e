"""`barnabas cluster status`: who leads each partition, who is in sync, and how far behind every replica is.

What a leader knows is asked of it (`/state`), of every broker once; a broker that does not answer is told of. Which
partitions there are says the metadata: one that nobody leads stands in no broker's state, and its brokers may be down.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.cli.cluster import quorum_json
from barnabas.cli.look import get
from barnabas.cli.speak import say, say_json, some, table
from barnabas.net.errors import FeatureMissing
from barnabas.net.topology import PartitionInfo, place_of
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import NO_LEADER

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.cluster_views import QuorumDescription

_PAGE: Final = 1000
"""Partitions of one answer, the most that `/state` gives."""


class Replicas(NamedTuple):
    """One partition, as its leader has it; lags are records behind the leader's end, by broker (None: not known).

    Where no leader tells of it, it is as the metadata has it, without offsets.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    high_watermark: int | None
    end_offset: int | None
    lags: dict[int, int | None]
    adding: tuple[int, ...] = ()
    """Those of the replicas that it is on its way to."""

    @property
    def under_replicated(self) -> bool:
        """Whether somebody who is to have it is not in sync; who is only coming is not missed."""
        return len(self.isr) < len(self.replicas) - len(self.adding)

    @property
    def trouble(self) -> str:
        """What is wrong with it, "" for nothing."""
        if self.leader == NO_LEADER:
            return "no leader"
        if self.end_offset is None:
            return "its leader does not tell of it"
        return "under-replicated" if self.under_replicated else ""


def show(admin: Admin, as_json: bool) -> int:
    """Print it; 1 where a broker or the controller cannot be asked, or a partition lacks its leader or a replica.

    As JSON each partition is a line, and the last one is of the cluster, which alone has no `topic`.
    """
    told = [one for topic in admin.describe_all_topics(internal=True).values() for one in topic.partitions]
    brokers = admin.describe_cluster().brokers
    states = {node: _partitions(place_of(host, port)) for node, host, port in brokers}
    found = _all_of(told, states)
    silent = [node for node, state in states.items() if state is None]
    under = sum(one.under_replicated for one in found)
    without = sum(one.leader == NO_LEADER for one in found)
    quorum = _quorum(admin)
    if as_json:
        for one in found:
            say_json(**one._asdict() | {"under_replicated": one.under_replicated})
        say_json(
            brokers=[node for node, _, _ in brokers],
            silent=silent,
            partitions=len(found),
            under_replicated=under,
            leaderless=without,
            quorum=None if isinstance(quorum, BarnabasError) else quorum_json(quorum),
        )
    else:
        head = ("topic", "partition", "leader", "epoch", "in sync", "high watermark", "end", "lag", "")
        say(table(head, [_row(one) for one in found]) if found else "no partitions")
        for node in silent:
            say(f"broker {node} cannot be asked: what it leads is not shown")
        say(_metadata(quorum))
        counts = f"{some(len(brokers), 'broker')}, {some(len(found), 'partition')}"
        say(f"{counts}, {under} under-replicated, {without} without a leader")
    undecided = isinstance(quorum, BarnabasError) and not isinstance(quorum, FeatureMissing)  # that is before KRaft
    return 1 if silent or undecided or any(one.trouble for one in found) else 0


def _quorum(admin: Admin) -> QuorumDescription | BarnabasError:
    """The quorum, or why nobody tells of it."""
    try:
        return admin.describe_quorum()
    except BarnabasError as fault:
        return fault


def _metadata(quorum: QuorumDescription | BarnabasError) -> str:
    """Who the controller is, who may be it, how far the metadata is, and how far behind it everybody else."""
    if isinstance(quorum, BarnabasError):
        return f"the controller cannot be asked: {quorum}"
    end, others = quorum.high_watermark, [one for one in quorum.voters if one.replica_id != quorum.leader_id]
    voters = ", ".join(str(one.replica_id) for one in quorum.voters)
    behind = [
        f", {what} {one.replica_id} {max(end - one.log_end_offset, 0)} behind"
        for what, replicas in (("voter", others), ("broker", quorum.observers))
        for one in replicas
    ]
    return f"controller {quorum.leader_id} (voters: {voters}), metadata at {end}{''.join(behind)}"


def _all_of(told: Iterable[PartitionInfo], states: dict[int, list[dict[str, Any]] | None]) -> list[Replicas]:
    """Each partition once, in order: as its leader has it, the latest where two think so; else as it was `told`."""
    found = {
        (one.topic, one.partition): Replicas(*one[:6], high_watermark=None, end_offset=None, lags={}) for one in told
    }
    led = (one for node, partitions in states.items() if partitions is not None for one in led_by(node, partitions))
    for one in sorted(led, key=lambda each: each.leader_epoch):
        found[one.topic, one.partition] = one
    return [found[where] for where in sorted(found)]


def _row(one: Replicas) -> tuple[object, ...]:
    return (
        one.topic,
        one.partition,
        "-" if one.leader == NO_LEADER else one.leader,
        one.leader_epoch,
        ",".join(map(str, one.isr)),
        "-" if one.high_watermark is None else one.high_watermark,
        "-" if one.end_offset is None else one.end_offset,
        " ".join(f"{node}:{'?' if lag is None else lag}" for node, lag in one.lags.items()),
        one.trouble or (f"goes to {','.join(map(str, one.adding))}" if one.adding else ""),
    )


def _partitions(server: str) -> list[dict[str, Any]] | None:
    """All that its `/state` has of partitions, page by page; None where it does not answer, or not yet."""
    found: list[dict[str, Any]] = []
    try:
        while True:
            status, body = get(server, f"/state?after={len(found)}&limit={_PAGE}")
            page: dict[str, Any] = json.loads(body) if status == 200 else {}
            if "counts" not in page:
                return None
            found += page["partitions"]
            if not page["partitions"] or len(found) >= page["counts"]["partitions"]:
                return found
    except (BarnabasError, ValueError):
        return None


def led_by(node: int, partitions: Iterable[dict[str, Any]]) -> Iterator[Replicas]:
    """Those of a broker's partitions that it leads."""
    for one in partitions:
        if one["leader"] == node:
            end = one["log_end_offset"]
            ends = {follower["broker"]: follower["log_end_offset"] for follower in one["followers"]}
            lags = {
                each: end - ends[each] if ends.get(each, -1) >= 0 else None for each in one["replicas"] if each != node
            }
            yield Replicas(
                one["topic"],
                one["partition"],
                node,
                one["leader_epoch"],
                tuple(one["replicas"]),
                tuple(one["isr"]),
                one["high_watermark"],
                end,
                lags,
                tuple(one.get("adding", ())),
            )
