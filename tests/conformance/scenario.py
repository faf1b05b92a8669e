"""What a scenario is, and the one list of them.

To add a scenario, write a function in the module of its room under `scenarios/` and name it in one line:

    @scenario("F02", "empty partition; wait 0, and least bytes 0", {"wait 0": "NONE, empty, HW 0", ...})
    def f02(world: World) -> Facts:
        topic = world.topic()                      # fresh: scenarios run side by side on one broker
        got, ms = world.fetch(topic, 0)
        return {"wait 0": world.tell(topic, got), ...}

The facts it returns (short strings, see `world.py`) are compared with the recorded ones, which are what Apache Kafka
4.3.0 answered: run `./dev oracle F02` to see both brokers, and record what Kafka says. Rules:
- Fresh topics only, sockets closed, and nothing that another scenario could notice.
- A scenario that needs the broker down is a generator: `yield STOP` (clean) or `yield KILL` (SIGKILL) returns while the
  broker is down, and so files can be looked at or cut; `yield START` returns when it serves again. All such scenarios
  go through these points together, so one restart serves them all.
- `alone=True` keeps a heavy one (hundreds of sockets, megabytes) away from the others' clocks.
- `settings` are of the broker, beside those that all have: such a scenario has a broker of its own.
- `ours=True` is for what needs our HTTP side (metrics): Apache Kafka is not asked.
- `differs` holds the facts in which ours is meant to differ, and `note` says why; any other difference is a failure.
"""

import dataclasses
import enum
from collections.abc import Callable, Generator
from typing import Any

Facts = dict[str, str]

ABSENT = "not there"
"""Stands in `differs` for a fact that Apache Kafka has and ours lacks."""


class Step(enum.Enum):
    """What a scenario asks of the player."""

    STOP = "stop"
    KILL = "kill"
    START = "start"


STOP, KILL, START = Step.STOP, Step.KILL, Step.START

Steps = Generator[Step, None, Facts]
Body = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: what it asks, how to play it, and what Apache Kafka answered."""

    id: str
    asks: str
    expected: Facts
    body: Body
    alone: bool = False
    ours: bool = False
    restart: Step | None = None
    settings: Facts = dataclasses.field(default_factory=dict)
    differs: Facts = dataclasses.field(default_factory=dict)
    note: str = ""

    @property
    def ours_expected(self) -> Facts:
        """What our broker is to answer."""
        both = {**self.expected, **self.differs}
        return {name: value for name, value in both.items() if value != ABSENT}


ALL: dict[str, Scenario] = {}


def scenario(id_: str, asks: str, expected: Facts, **options: Any) -> Callable[[Body], Body]:
    """Put a function on the list of scenarios."""

    def add(body: Body) -> Body:
        assert id_ not in ALL, f"{id_} twice"
        made = Scenario(id_, asks, expected, body, **options)
        unheard = not made.expected  # still to be recorded
        assert unheard or bool(made.differs) == bool(made.note), f"{id_}: a difference and its reason go together"
        ALL[id_] = made
        return body

    return add
