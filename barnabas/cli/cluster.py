"""`barnabas cluster`: its id, brokers, controller, quorum and features; `up` runs one, and further verbs steer it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.codes import WRONG
from barnabas.cli.options import Options, Verbs, client_options, json_option, settings_of
from barnabas.cli.speak import fail, say, say_json, table

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.client.admin import Admin
    from barnabas.client.cluster_views import QuorumDescription


BROKERS_MAX: Final = 16
_PORT_MAX: Final = 65_535 - (BROKERS_MAX - 1)
"""The first broker's; the others have those above it."""


def parser() -> Options:
    """The options of `barnabas cluster`."""
    options = Options(
        prog="barnabas cluster",
        description="Show a cluster: its id, brokers, controller, quorum and features; or run one on this machine.",
        examples=(
            "barnabas cluster",
            "barnabas cluster -b kafka.example:9092 --json",
            "barnabas cluster up --brokers 3",
        ),
    )
    client_options(options)
    json_option(options)
    verbs = Verbs(options, required=False)
    up = verbs.add(
        "up",
        "run a cluster on this machine until Ctrl-C, each broker a process; of three or more three are controllers",
        "barnabas cluster up --brokers 3",
        "barnabas cluster up --dir ./trio --port 0  # free ports, which are printed, and kept in ./trio",
    )
    up.add_argument(
        "--brokers", type=_brokers, metavar="COUNT", help=f"how many, 1 to {BROKERS_MAX} (3, or what it has)"
    )
    _dir_option(up)
    up.add_argument("--port", type=_port, help="the first broker's, the others have the next (9092); 0 takes free ones")
    up.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting of all (repeatable)")
    status = verbs.add(
        "status",
        "leaders, who is in sync, how far the others are behind; 1 if a leader, replica or controller is missing",
        "barnabas cluster status",
        "until barnabas cluster status -b localhost:9093; do sleep 1; done",
    )
    client_options(status)
    json_option(status)
    drained = verbs.add(
        "drain",
        "move all partitions of a broker to the others, a few at a time; ended by Ctrl-C it goes on where it was",
        "barnabas cluster drain 4",
        "until barnabas cluster drain 4 -b localhost:9093; do sleep 1; done  # cluster remove 4 takes it out then",
    )
    drained.add_argument("node_id", type=_node, metavar="N", help="its node id")
    client_options(drained)
    json_option(drained)
    moved = verbs.add(
        "reassign",
        "move partitions to the brokers that a file names, as kafka-reassign-partitions.sh takes it",
        "barnabas cluster reassign plan.json > back.json",
        "until barnabas cluster reassign plan.json --verify; do sleep 1; done",
        "barnabas cluster reassign plan.json --cancel",
    )
    moved.add_argument("file", metavar="FILE", help='{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}')
    how = moved.add_mutually_exclusive_group()
    how.add_argument("--verify", action="store_true", help="only say how far they are; 1 if not all are there")
    how.add_argument("--cancel", action="store_true", help="leave those that are under way where they were")
    client_options(moved)
    json_option(moved)
    _elect_verb(verbs)
    _features_verb(verbs)
    for name, (what, *examples) in _STEERING.items():
        verb = verbs.add(name, what, *examples)
        if name not in _OF_ALL:
            which = "its node id; all without one" if name == "stop" else "its node id"
            verb.add_argument("node_id", type=_node, metavar="N", nargs="?" if name == "stop" else None, help=which)
        _dir_option(verb)
    return options


def _elect_verb(verbs: Verbs) -> None:
    from barnabas.cli.group_reset import chosen

    elected = verbs.add(
        "elect",
        "let the preferred replica of each partition lead, the first of those it has; 1 where one cannot",
        "barnabas cluster elect  # after a restart, all of them",
        "barnabas cluster elect orders:0,2",
        "barnabas cluster elect orders:1 --unclean  # for good: who was in sync does not come back",
    )
    elected.add_argument(
        "topics", metavar="TOPIC[:P,P]", nargs="*", type=chosen, help="only these (all partitions of all topics)"
    )
    elected.add_argument(
        "--unclean",
        action="store_true",
        help="where nobody leads, any replica that lives: what it lacks of what was acknowledged is lost",
    )
    client_options(elected)
    json_option(elected)


def _features_verb(verbs: Verbs) -> None:
    leveled = verbs.add(
        "features",
        "show the levels of the cluster's features, or raise and lower them: all that are named, or none",
        "barnabas cluster features",
        "barnabas cluster features --latest  # once all brokers are of the new release",
        "barnabas cluster features group.version=0 --downgrade",
    )
    leveled.add_argument("level", metavar="NAME=LEVEL", nargs="*", help="the level a feature is to have; 0 is off")
    leveled.add_argument("--latest", action="store_true", help="all to the highest level that the broker asked knows")
    leveled.add_argument("--downgrade", action="store_true", help="lower them, where nothing is lost by it")
    leveled.add_argument("--dry-run", action="store_true", help="only say whether they could be changed")
    client_options(leveled)
    json_option(leveled)


def _dir_option(verb: Options) -> None:
    verb.add_argument("--dir", metavar="DIRECTORY", help="where all of it lies ($XDG_DATA_HOME/barnabas-cluster)")


_STEERING: Final = {
    "stop": (
        "stop the cluster that `up` runs here, or one broker of it, in good order",
        "barnabas cluster stop",
        "barnabas cluster stop 2  # and `barnabas cluster start 2`, then 3: a rolling restart",
    ),
    "start": (
        "start a broker that was stopped or killed; returns once it serves, at once where most controllers are away",
        "barnabas cluster start 2",
    ),
    "kill": ("kill a broker's process (SIGKILL)", "barnabas cluster kill 2 --dir ./trio"),
    "pause": ("hold a broker's process where it stands (SIGSTOP)", "barnabas cluster pause 2"),
    "resume": ("let a broker that was paused go on (SIGCONT)", "barnabas cluster resume 2"),
    "add": (
        "start one more broker; topics that are there stay where they are",
        "barnabas cluster add",
    ),
    "grow": (
        "make three controllers of one, and three brokers of fewer; those that become one are restarted",
        "barnabas cluster grow",
    ),
    "remove": (
        "stop a broker that was drained, and have the cluster forget it; its data stays",
        "barnabas cluster remove 4",
    ),
}
"""What is done to a cluster on this machine, in words, and examples."""
_OF_ALL: Final = ("add", "grow")
"""What is done to none of its brokers alone."""


def _node(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r}: write the broker's node id, such as 2")
    return int(text)


def _brokers(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= BROKERS_MAX):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number from 1 to {BROKERS_MAX}")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r}: write a port from 0 to {_PORT_MAX}")
    return int(text)


def main(arguments: Sequence[str]) -> int:
    """Show it, or run one."""
    given = parser().read(arguments)
    if given.verb == "elect" and given.unclean and not given.topics:
        return fail("--unclean may lose records: name the partitions, such as orders:1", WRONG)
    if given.verb == "up":
        return _up(given)
    if given.verb in _STEERING:
        from barnabas.cli.cluster_verbs import steer

        return steer(given.verb, _directory(given), getattr(given, "node_id", None))

    from barnabas.client.admin import Admin

    with Admin(settings_of(given)) as admin:
        if given.verb == "status":
            from barnabas.cli.cluster_status import show

            return show(admin, given.json)
        if given.verb == "drain":
            from barnabas.cli.cluster_moves import drain

            return drain(admin, given.node_id, given.json)
        if given.verb == "elect":
            from barnabas.cli.cluster_elect import elect

            return elect(admin, given.topics, unclean=given.unclean, as_json=given.json)
        if given.verb == "reassign":
            from pathlib import Path

            from barnabas.cli.cluster_moves import reassign

            return reassign(admin, Path(given.file), verify=given.verify, cancel=given.cancel, as_json=given.json)
        if given.verb == "features":
            from barnabas.cli.cluster_features import change

            how = {"latest": given.latest, "downgrade": given.downgrade, "dry": given.dry_run, "as_json": given.json}
            return change(admin, given.level, **how)
        return _show(admin, given)


def _directory(given: argparse.Namespace) -> Path:
    from pathlib import Path

    from barnabas.cli.cluster_files import default_directory

    return Path(given.dir).absolute() if given.dir else default_directory()


def _up(given: argparse.Namespace) -> int:
    from barnabas.broker.host.data_dir import DataDirLock, DataDirUnusable
    from barnabas.cli.cluster_files import OF_EACH, plan_for
    from barnabas.cli.cluster_up import Cluster
    from barnabas.protocol.errors import ConfigError

    names = [one.partition("=")[0].strip() for one in given.set]
    own = next((name for name in names if name in OF_EACH), None)
    if own is not None:
        raise ConfigError(f"--set {own}: cluster up sets it for each broker itself; leave it out")
    directory = _directory(given)
    try:
        lock = DataDirLock(str(directory))
    except DataDirUnusable as fault:
        raise ConfigError(f"--dir {directory} cannot be used, or its cluster is up already ({fault})") from fault
    try:
        return Cluster(directory, plan_for(directory, given.brokers, given.port), given.set).run()
    finally:
        lock.release()


def _show(admin: Admin, given: argparse.Namespace) -> int:
    """Show it: brokers and features also where no controller can be asked, which is a failure."""
    from barnabas.cli.cluster_features import features_json, features_table
    from barnabas.net.errors import FeatureMissing
    from barnabas.net.topology import place_of
    from barnabas.protocol.errors import BarnabasError
    from barnabas.protocol.ids import NO_LEADER

    cluster, features = admin.describe_cluster(), admin.describe_features()
    quorum, fault = None, None
    try:
        quorum = admin.describe_quorum()
    except FeatureMissing:  # before KRaft
        controller = cluster.controller_id
    except BarnabasError as error:
        controller, fault = NO_LEADER, error
    else:
        # With KRaft a broker names any other that is alive, for each passes on what the controller is to do.
        controller = quorum.leader_id
    if given.json:
        say_json(
            cluster_id=cluster.cluster_id,
            controller=controller,
            brokers=[{"id": node, "host": host, "port": port} for node, host, port in cluster.brokers],
            quorum=quorum and quorum_json(quorum),
            features=features_json(features),
        )
        return _without_controller(fault)
    say(f"cluster {cluster.cluster_id}")
    rows = [
        (node, place_of(host, port), "controller" if node == controller else "") for node, host, port in cluster.brokers
    ]
    say(table(("broker", "address", ""), rows))
    if quorum is not None:
        _say_quorum(quorum)
    say()
    say(features_table(features))
    return _without_controller(fault)


def _without_controller(fault: BaseException | None) -> int:
    if fault is None:
        return 0
    from barnabas.cli.codes import code_of

    told = f"no controller can be asked ({fault}): nothing is decided until a majority of the voters is there"
    return fail(told, code_of(fault))


def _say_quorum(quorum: QuorumDescription) -> None:
    say(f"\nquorum: leader {quorum.leader_id}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}")
    rows = [
        (each.replica_id, what, each.log_end_offset, max(quorum.high_watermark - each.log_end_offset, 0))
        for what, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for each in replicas
    ]
    say(table(("replica", "", "end offset", "lag"), rows))


def quorum_json(quorum: QuorumDescription) -> dict[str, Any]:
    """The quorum as JSON has it."""
    told = quorum._asdict()
    return {
        **told,
        "voters": [each._asdict() for each in quorum.voters],
        "observers": [each._asdict() for each in quorum.observers],
    }
