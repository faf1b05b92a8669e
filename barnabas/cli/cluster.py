"""`barnabas cluster`: its id, brokers, controller, quorum and features."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.options import Options, client_options, json_option, settings_of
from barnabas.cli.speak import say, say_json, table

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.cluster_views import QuorumDescription


def parser() -> Options:
    """The options of `barnabas cluster`."""
    options = Options(
        prog="barnabas cluster",
        description="Show a cluster: its id, brokers, controller, quorum and features.",
        examples=("barnabas cluster", "barnabas cluster -b kafka.example:9092 --json"),
    )
    client_options(options)
    json_option(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Show it."""
    given = parser().read(arguments)

    from barnabas.client.admin import Admin

    with Admin(settings_of(given)) as admin:
        _show(admin, given)
    return 0


def _show(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.net.errors import FeatureMissing
    from barnabas.net.topology import place_of

    cluster, features = admin.describe_cluster(), admin.describe_features()
    try:
        quorum = admin.describe_quorum()
    except FeatureMissing:  # before KRaft
        quorum = None
    if given.json:
        say_json(
            cluster_id=cluster.cluster_id,
            controller=cluster.controller_id,
            brokers=[{"id": node, "host": host, "port": port} for node, host, port in cluster.brokers],
            quorum=quorum and _quorum_json(quorum),
            features={
                name: {"level": features.finalized.get(name, 0), "supported": list(span)}
                for name, span in features.supported.items()
            },
        )
        return
    say(f"cluster {cluster.cluster_id}")
    rows = [
        (node, place_of(host, port), "controller" if node == cluster.controller_id else "")
        for node, host, port in cluster.brokers
    ]
    say(table(("broker", "address", ""), rows))
    if quorum is not None:
        _say_quorum(quorum)
    levels = [
        (name, features.finalized.get(name, 0), f"{least} to {most}")
        for name, (least, most) in sorted(features.supported.items())
    ]
    say()
    say(table(("feature", "level", "supported"), levels) if levels else "no features")


def _say_quorum(quorum: QuorumDescription) -> None:
    say(f"\nquorum: leader {quorum.leader_id}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}")
    rows = [
        (each.replica_id, what, each.log_end_offset, max(quorum.high_watermark - each.log_end_offset, 0))
        for what, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for each in replicas
    ]
    say(table(("replica", "", "end offset", "lag"), rows))


def _quorum_json(quorum: QuorumDescription) -> dict[str, Any]:
    told = quorum._asdict()
    return {
        **told,
        "voters": [each._asdict() for each in quorum.voters],
        "observers": [each._asdict() for each in quorum.observers],
    }
