"""The lives of one broker: deeds while it serves, an end of some kind, a start, and everything read back."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from tests.durability.faults import Faults
from tests.durability.memory_target import MemoryTarget
from tests.durability.model import Broken
from tests.durability.target import Gone, Target
from tests.durability.workload import NAMES, RECORDS_MAX, Workload

WHILE_SERVING = frozenset({"flip_in_a_sealed_segment", "fill_the_disk"})
WIDE = "wide"
WIDE_PARTITIONS = 120
"""The first hundred logs of a clean stop get their own files, see `barnabas.broker.log.closing`."""


class Run:
    """One story from a seed.

    Attributes:
        lives: how often the broker was started.
        deeds: how much was done.
    """

    def __init__(self, seed: str, target: Target, faults: Mapping[str, int] = MappingProxyType({})) -> None:
        """`faults` names methods of `Faults`, and `power_loss`, with their weights."""
        self.seed = seed
        self.target = target
        self.work = Workload(seed, target)
        self.random = self.work.random
        self.lives = 0
        self.deeds = 0
        self.done: Counter[str] = Counter()
        """What happened, by name, as far as it was begun; `kill_in_start` and `kill_in_stop` only where in time."""
        self.weights = {
            "burst": 40,
            "create": 8,
            "delete": 2,
            "anew": 4,
            "grow": 2,
            "alter": 3,
            "delete_records": 6,
            "retry": 4,
            "rest": 8,
            "check": 2,
            "stop": 5,
            "kill": 4,
            "kill_in_burst": 6,
            "kill_in_change": 6,
            "kill_in_stop": 2,
        } | dict(faults)
        self.faults = Faults(self.work)
        self.fresh_names = "power_loss" in faults
        """A power failure may show records of a topic that was deleted a moment before under the same name."""
        self.serving = False
        self.clean = False

    def go(self, deeds: int) -> None:
        """Do so much.

        Raises:
            Broken: a promise was broken; the message holds the story.
        """
        end = self.deeds + deeds
        try:
            while self.deeds < end:
                self.step()
            if self.serving:
                self.stop()
            self.start()
            self.stop()
        except Broken as error:
            told = "\n  ".join(self.work.story[-30:])
            said = "  ".join(self.target.said[-8:])
            raise Broken(
                f"{error}\nseed {self.seed}, deed {self.deeds}:\n  {told}\nthe broker said:\n  {said}"
            ) from error
        finally:
            self.target.kill()

    def step(self) -> None:
        """One deed."""
        if not self.serving:
            self.start()
        self.deeds += 1
        name = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        if name != "kill_in_stop":
            self.done[name] += 1
        try:
            self._do(name)
        except Gone:
            self.target.kill()
            self.serving = self.clean = False
        self.work.fuse = None

    def _do(self, name: str) -> None:
        deed = getattr(self.faults, name, None)
        if deed is None:
            getattr(self, name)()
        elif name in WHILE_SERVING:
            deed()
        else:
            (self.stop if self.random.random() < 0.5 else self.kill)()
            self.faults.all_is_noted = self.clean
            deed()
            if name != "change_the_closing_files":
                self.clean = False

    # Ends and starts

    def start(self) -> None:
        """Start it, at times after it was killed while it started; then compare."""
        self.target.hasty = self.random.random() < 0.6
        while self.random.random() < 0.12:
            patience = self.random.randrange(self.hurry)
            if self.target.start(patience):
                self.target.kill()
            else:
                self.done["kill_in_start"] += 1
            self.work.heard += self.target.said
            self.work.tell(f"killed in a start after {patience}")
            self.clean = False
        self.target.start()
        self.lives += 1
        self.serving = True
        self.work.tell("started")
        self.work.check(clean=self.clean)
        for part in self.work.parts():
            part.begin_anew()
        if self.random.random() < 0.5:
            self.work.retry_last()

    @property
    def hurry(self) -> int:
        """How long a start, a stop or a change takes at most, in units of patience."""
        return 400

    def stop(self) -> None:
        """A clean end."""
        self.clean = self.target.stop()
        self.serving = False
        self.work.tell("stopped")
        if not self.clean:
            raise Broken("a clean stop ended with an error")

    def kill(self) -> None:
        """A sudden end."""
        self.target.kill()
        self.serving = self.clean = False
        self.work.tell("killed")

    def kill_in_stop(self) -> None:
        patience = self.random.randrange(self.hurry // 2)
        self.clean = self.target.stop(patience)
        self.done["kill_in_stop"] += not self.clean
        self.serving = False
        self.work.tell(f"killed in a stop after {patience}, {'too late' if self.clean else 'in time'}")

    def power_loss(self) -> None:
        """The machine goes, in the midst of what it does."""
        assert isinstance(self.target, MemoryTarget)
        for part in self.work.parts():
            part.power_failed()
        self.target.lose_power()
        self.serving = self.clean = False
        self.work.tell("the power fails")

    def power_loss_in_burst(self) -> None:
        """The machine goes under load."""
        with contextlib.suppress(Gone):
            self.work.burst(kill_after=self.random.randrange(25))
        self.power_loss()

    def kill_in_burst(self) -> None:
        self.work.burst(kill_after=self.random.randrange(25))
        raise Gone

    def kill_in_change(self) -> None:
        """A change of the metadata, and the end while it is made or right after its answer."""
        self.work.fuse = self.random.randrange(12)
        name = self.random.choice(["create", "delete", "anew", "grow", "alter", "delete_records"])
        self.work.tell(f"killed in the next after {self.work.fuse}")
        getattr(self, name)()
        raise Gone

    # Deeds

    def burst(self) -> None:
        self.work.burst()

    def create(self) -> None:
        names = [f"{name}.{self.lives}" for name in NAMES[:3]] if self.fresh_names else NAMES
        free = [name for name in names if name not in self.work.topics][: 5 - len(self.work.topics)]
        if free:
            self.work.create(self.random.choice(free), self.random.choice([1, 1, 2, 3, 30]), self.work.draw_settings())

    def widen(self) -> None:
        """A topic of more logs than get their own files at a clean stop."""
        if WIDE not in self.work.topics:
            self.work.create(WIDE, WIDE_PARTITIONS, self.work.draw_settings())

    def plain(self) -> None:
        """A topic that is not compacted."""
        name = f"plain.{self.lives}"
        if name not in self.work.topics and len(self.work.topics) < 5:
            settings = self.work.draw_settings() | {"cleanup.policy": "delete"}
            self.work.create(name, self.random.choice([1, 2, 3]), settings)

    def compacted(self) -> None:
        """A topic that is compacted, and nothing else."""
        name = f"compacted.{self.lives}"
        if name not in self.work.topics and len(self.work.topics) < 5:
            settings = self.work.draw_settings() | {"cleanup.policy": "compact", "segment.ms": "1000"}
            self.work.create(name, 6, settings | {"retention.ms": "-1", "retention.bytes": "-1"})

    def flips_and_cleaning(self) -> None:
        """Bits flip in many logs, newer records of their keys come, and the cleaner has its turns."""
        for _ in range(10):
            self.faults.flip_in_a_sealed_segment()
        for _ in range(3):
            self.work.burst()
        self.target.rest(600)
        self.work.check()

    def another_life(self) -> None:
        """What is noted of a topic reaches the disk; one of the same name takes its place, and the process dies."""
        if self.fresh_names:
            return
        if not self.work.topics:
            self.create()
        for _ in range(3):
            self.work.burst()
        for part in self.work.parts():
            self.work.delete_records(part, part.end)
        self.stop()
        self.start()
        self.anew()
        self.work.write_everywhere()
        self.kill()

    def write_everywhere(self) -> None:
        """All logs have something to write down at a stop."""
        self.work.tell("a batch to every partition")
        self.work.write_everywhere(idempotent=True)

    def delete(self) -> None:
        if self.work.topics:
            self.work.delete(self._some_topic())

    def anew(self) -> None:
        if self.work.topics and not self.fresh_names:
            name = self._some_topic()
            partitions = min(len(self.work.topics[name].partitions), 3)
            self.work.delete(name)
            self.work.create(name, partitions, self.work.draw_settings())

    def _some_topic(self) -> str:
        names = list(self.work.topics)
        large = [name for name in names if self._records(name) > RECORDS_MAX]
        return self.random.choice(large or names)

    def _records(self, name: str) -> int:
        return sum(part.end for part in self.work.topics[name].partitions)

    def grow(self) -> None:
        names = [name for name, topic in self.work.topics.items() if len(topic.partitions) < 6]
        if names:
            self.work.grow(self.work.topics[self.random.choice(names)])

    def alter(self) -> None:
        if self.work.topics:
            self.work.alter(self.work.topics[self.random.choice(list(self.work.topics))])

    def delete_records(self) -> None:
        part = self.work.pick()
        if part is not None:
            self.work.delete_records(part)

    def retry(self) -> None:
        self.work.retry_last()

    def rest(self) -> None:
        self.target.rest(self.random.choice([20, 120, 300]))

    def check(self) -> None:
        self.work.check()
