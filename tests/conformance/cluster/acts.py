"""What befalls the cluster, and the list of its scenarios.

An act is a row of steps, played once for all scenarios that are on it. A scenario of an act is a generator that
yields once for each step: all are taken up to their next `yield`, then the step is done, and they go on.

    @of_cluster("R02", "a follower stands still", act=PAUSED)
    def r02(cluster: Cluster) -> Steps:
        name = cluster.topic("CAB")
        yield                                # C is paused
        told = cluster.tell(name)
        yield                                # it goes on
        return {"told": told, "then": cluster.tell(name)}

One without an act is a plain function, played beside the others while all brokers are there. What Apache Kafka answers
is kept in `answers.json`: `./dev oracle --brokers 3 --record R02` writes it. A body may end before the last step.
"""

import dataclasses
import enum
from collections.abc import Callable, Generator
from pathlib import Path

from tests.conformance.recordings import kept
from tests.conformance.scenario import Body, Facts, Scenario

Steps = Generator[None, None, Facts]


class Deed(enum.Enum):
    """What is done to a broker."""

    PAUSE = "is paused"
    RESUME = "goes on"
    STOP = "is stopped"
    KILL = "is killed"
    START = "is started"
    RESTART = "and all others end, and start again"


@dataclasses.dataclass(frozen=True, slots=True)
class Act:
    """Steps, each a deed to a broker, after which the brokers named are waited for in every Metadata answer."""

    name: str
    steps: tuple[tuple[Deed, str, str], ...]


PAUSED = Act("C is paused for less than its session", ((Deed.PAUSE, "C", ""), (Deed.RESUME, "C", "ABC")))
STOPPED = Act("C is stopped, and started", ((Deed.STOP, "C", "AB"), (Deed.START, "C", "ABC")))
KILLED = Act(
    "C is killed while B is paused for a moment; C comes back",
    ((Deed.PAUSE, "B", ""), (Deed.KILL, "C", ""), (Deed.RESUME, "B", "AB"), (Deed.START, "C", "ABC")),
)
BOTH = Act(
    "C is stopped, then B is killed; C comes back, then B",
    ((Deed.STOP, "C", "AB"), (Deed.KILL, "B", ""), (Deed.START, "C", "AC"), (Deed.START, "B", "ABC")),
)
RESTARTED = Act("all are stopped, the last one killed, and started", ((Deed.RESTART, "A", "ABC"),))
ACTS = (PAUSED, STOPPED, KILLED, BOTH, RESTARTED)


@dataclasses.dataclass(frozen=True, slots=True)
class OfCluster(Scenario):
    """A scenario of the cluster, and the act it is on."""

    act: Act | None = None


CLUSTER: dict[str, OfCluster] = {}
ANSWERS = Path(__file__).parent / "answers.json"


def of_cluster(
    id_: str, asks: str, *, act: Act | None = None, differs: Facts | None = None, note: str = ""
) -> Callable[[Body], Body]:
    """Put a function on the list of scenarios of the cluster."""
    assert bool(differs) == bool(note), f"{id_}: a difference and its reason go together"

    def add(body: Body) -> Body:
        assert id_ not in CLUSTER, f"{id_} twice"
        expected = dict(kept(ANSWERS).get(id_, {}))
        CLUSTER[id_] = OfCluster(id_, asks, expected, body, differs=differs or {}, note=note, act=act)
        return body

    return add
