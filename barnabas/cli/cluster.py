"""`barnabas cluster`: its id, brokers, controller, quorum and features."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.options import Options, client_options, json_option, settings_of
from barnabas.cli.speak import say, say_json, table

if TYPE_CHECKING:
    from barnabas.client.admin import Admin


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
    cluster = admin.describe_cluster()
    if given.json:
        brokers = [{"id": node, "host": host, "port": port} for node, host, port in cluster.brokers]
        say_json(cluster_id=cluster.cluster_id, controller=cluster.controller_id, brokers=brokers)
        return
    say(f"cluster {cluster.cluster_id}")
    rows = [
        (node, f"{host}:{port}", "controller" if node == cluster.controller_id else "")
        for node, host, port in cluster.brokers
    ]
    say(table(("broker", "address", ""), rows))
