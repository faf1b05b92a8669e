"""`barnabas cluster grow`: a cluster on this machine whose first broker alone decides gets three controllers.

    1  brokers are added until there are three
    2  the first three are stopped, the controller last; it is all that nobody decides for as long as they start again
    3  what was decided so far goes into the directories of the other two (`node/growth`)
    4  all settings name the three
    5  the two are started, then the first: they find its process gone, and do not wait for its session; then the others
       anew, one after the other: these ask one alone until then

Whatever cuts it short, it is to be called again, and goes on: until 3 is through it is begun anew, and the settings of
the first broker, which tell that 4 is, come last.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from barnabas.broker.config.quorum import controllers, replication
from barnabas.broker.node.growth import grow as make_voters
from barnabas.broker.raft import kept
from barnabas.cli.cluster_files import (
    CONTROLLER,
    GROWING,
    VOTERS,
    Plan,
    controllers_of,
    controllers_settings,
    grown,
    plan_of,
    voters_told,
    with_controllers,
)
from barnabas.cli.cluster_processes import end, find, stem
from barnabas.cli.cluster_verbs import Refused, start
from barnabas.cli.offline import Offline
from barnabas.cli.speak import say, some

BROKERS_MIN: Final = 3
_MIN_ISR: Final = "min.insync.replicas"


def grow(directory: Path, plan: Plan) -> None:
    """Make three controllers of one.

    Raises:
        Refused: there are several already, a broker does not start, or brokers are missing and the controller is down.
        DataDirError: the data directories do not go together; nothing was changed.
    """
    known = controllers_of(directory)
    if len(known) > 1:
        told = ", ".join(map(str, known))
        raise Refused(f"brokers {told} are controllers already; barnabas cluster start N starts one that does not run")
    decides = find(directory, CONTROLLER) is not None
    if len(plan.brokers) < BROKERS_MIN and not decides:
        few = some(len(plan.brokers), "broker")
        raise Refused(
            f"{few} of {BROKERS_MIN} are there, and the controller, {CONTROLLER}, does not run; start it first"
        )
    while len(plan.brokers) < BROKERS_MIN:
        start(directory, [grown(directory, plan)])
        plan = plan_of(directory)
    changes = _replication(directory) if decides else {}
    if changes:
        _have_in_sync(plan, changes[_MIN_ISR])
    first = plan.brokers[: controllers(len(plan.brokers))]
    chosen = [one.node_id for one in first]
    running = [one for one in plan.brokers if find(directory, one.node_id) is not None]
    (directory / GROWING).touch()
    try:
        end(directory, [one for one in chosen if one != CONTROLLER])
        end(directory, [CONTROLLER])
        _hand_over(directory, chosen)
        with_controllers(directory, plan, {VOTERS: voters_told(first), **changes})
        if running:
            others = [one for one in first if one.node_id != CONTROLLER]
            start(directory, others, last=[plan.place(CONTROLLER)])
            for one in running:
                if one not in first:
                    end(directory, [one.node_id])
                    start(directory, [one])
    finally:
        with suppress(FileNotFoundError):
            (directory / GROWING).unlink()
    say(f"brokers {', '.join(map(str, chosen))} are the controllers now")
    if changes:
        say(
            f"new topics have {BROKERS_MIN} replicas, of which {changes[_MIN_ISR]} must have what is acknowledged; "
            "barnabas cluster reassign gives more to those that are there"
        )
    if not running:
        say("barnabas cluster up starts the cluster")


def _replication(directory: Path) -> dict[str, str]:
    """What three brokers are given from the start; nothing where somebody has chosen something else than for fewer."""
    given = controllers_settings(directory).items()
    fewer = any(given >= replication(count).items() for count in range(1, BROKERS_MIN))
    return replication(BROKERS_MIN) if fewer else {}


def _hand_over(directory: Path, chosen: list[int]) -> None:
    with ExitStack() as stack:
        disks = [stack.enter_context(Offline(stem(directory, one), alone=True)).disk for one in chosen]
        with suppress(FileNotFoundError):
            _, voters = kept.parse(disks[0].load(kept.FILE))
            if voters == chosen:  # an earlier call came this far
                return
        make_voters(disks)


def _have_in_sync(plan: Plan, count: str) -> None:
    """The cluster's own `min.insync.replicas` stands in the metadata, whatever the settings say."""
    from barnabas.cli.heard import hear_clients
    from barnabas.client.admin import Admin
    from barnabas.client.answers import BROKER

    hear_clients()
    with Admin(bootstrap_servers=plan.bootstrap_servers) as admin:
        admin.alter_configs("", {_MIN_ISR: count}, kind=BROKER)
