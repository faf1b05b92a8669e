"""`barnabas cluster status`: who leads each partition, who is in sync, and how far behind every replica is.

What a leader knows is asked of it (`/state`), of every broker once; a broker that does not answer is told of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.look import get
from barnabas.cli.speak import say, say_json, table
from barnabas.net.topology import place_of
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin


class Replicas(NamedTuple):
    """One partition, as its leader has it; lags are records behind the leader's end, by broker (None: not known)."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    high_watermark: int
    end_offset: int
    lags: dict[int, int | None]

    @property
    def under_replicated(self) -> bool:
        """Whether somebody who is to have it is not in sync."""
        return len(self.isr) < len(self.replicas)


def show(admin: Admin, as_json: bool) -> int:
    """Print it; 1 where a broker cannot be asked, or a partition has not all its replicas in sync."""
    cluster = admin.describe_cluster()
    states: dict[int, dict[str, Any] | None] = {
        node: _state(place_of(host, port)) for node, host, port in cluster.brokers
    }
    found = sorted(one for node, state in states.items() if state is not None for one in led_by(node, state))
    silent = [node for node, state in states.items() if state is None]
    under = [one for one in found if one.under_replicated]
    if as_json:
        for one in found:
            say_json(**one._asdict() | {"under_replicated": one.under_replicated})
    else:
        rows = [
            (
                one.topic,
                one.partition,
                one.leader,
                one.leader_epoch,
                ",".join(map(str, one.isr)),
                one.high_watermark,
                one.end_offset,
                " ".join(f"{node}:{'?' if lag is None else lag}" for node, lag in one.lags.items()),
                "under-replicated" if one.under_replicated else "",
            )
            for one in found
        ]
        head = ("topic", "partition", "leader", "epoch", "in sync", "high watermark", "end", "lag", "")
        say(table(head, rows) if rows else "no partitions")
        for node in silent:
            say(f"broker {node} cannot be asked: what it leads is not shown")
        say(f"{len(cluster.brokers)} brokers, {len(found)} partitions, {len(under)} under-replicated")
    return 1 if silent or under else 0


def _state(server: str) -> dict[str, Any] | None:
    try:
        status, body = get(server, "/state")
        state: dict[str, Any] = json.loads(body)
    except (BarnabasError, ValueError):
        return None
    return state if status == 200 else None


def led_by(node: int, state: dict[str, Any]) -> Iterator[Replicas]:
    """The partitions that a broker leads, from its `/state`."""
    for one in state["partitions"]:
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
            )
