"""Stories by name: `memory/power/17` is the seed of one, and says where it is played and which faults come in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

from tests.cli.small_disk import SmallDisk
from tests.durability.memory_target import MemoryTarget
from tests.durability.process_target import ProcessTarget
from tests.durability.run import Run

PROFILES = MappingProxyType(
    {
        "kills": {},
        "power": {"power_loss": 4, "power_loss_in_burst": 4},
        "bits": {"flip_in_a_sealed_segment": 6},
        "tails": {"tear_a_tail": 4, "remove_a_segment": 2},
        "metadata": {"damage_the_metadata": 15},
        "full": {"fill_the_disk": 25},
        "staged": {
            **dict.fromkeys(("create", "anew", "alter", "kill_in_change"), 0),
            "plain": 12,
            "power_loss": 4,
            "power_loss_in_burst": 8,
            "kill_in_burst": 20,
            "fill_the_disk": 4,
        },
        "anew": {"another_life": 60, "anew": 10, "delete_records": 15, "stop": 10, "rest": 12, "alter": 0},
        "closing": {
            **dict.fromkeys(("delete", "anew", "grow", "alter", "delete_records", "kill_in_change"), 0),
            "widen": 20,
            "write_everywhere": 30,
            "change_the_closing_files": 30,
            "kill_in_burst": 2,
        },
        "cleaning": {
            **dict.fromkeys(("create", "delete", "anew", "grow", "alter", "delete_records", "kill_in_change"), 0),
            **dict.fromkeys(("kill", "kill_in_burst", "kill_in_stop"), 0),
            "compacted": 20,
            "flips_and_cleaning": 30,
        },
    }
)
"""The faults of each kind of story, or other deeds, and how often they come among some hundred others."""
KINDS = MappingProxyType(
    {
        "memory": ("kills", "power", "bits", "tails", "metadata", "full", "staged", "anew", "closing", "cleaning"),
        "process": ("kills", "bits", "tails", "metadata", "full", "anew", "closing", "cleaning"),
    }
)
SMALL_DISK = "16m", "64k"
STAGED = MappingProxyType(
    {
        **dict.fromkeys(("log.log", "log.validate", "replica.late"), ("LARGE", 300)),
        "log.staging": ("PIECE", 100),
    }
)
"""Where batches of more than 4 MiB are written in steps of a MiB, in stories of such batches: what counts as these."""
DEEDS = MappingProxyType({"memory": 300, "process": 80})


def play(story: str, deeds: int = 0, plants: Sequence[str] = ()) -> Run:
    """Play a story to its end, or for so many deeds; a process may be given plants.

    Raises:
        Broken: a promise was broken; the message tells the story, and how it is repeated.
        ValueError: there is no such story.
    """
    kind, profile, number = ([*story.split("/"), "", ""])[:3]
    if profile not in KINDS.get(kind, ()) or not number:
        raise ValueError(f"{story} is no story: write KIND/PROFILE/NUMBER, for instance memory/power/17")
    deeds = deeds or DEEDS[kind]
    if kind == "memory":
        with _small_steps(profile):
            return _play_in_memory(story, profile, deeds)
    with tempfile.TemporaryDirectory(prefix="barnabas-soak-") as directory, _small_disk(directory, profile) as disk:
        run = Run(story, ProcessTarget(Path(directory), plants, disk), PROFILES[profile])
        run.go(deeds)
    return run


def _play_in_memory(story: str, profile: str, deeds: int) -> Run:
    memory = MemoryTarget(story)
    try:
        run = Run(story, memory, PROFILES[profile])
        run.go(deeds)
    finally:
        memory.close()
    return run


@contextmanager
def _small_steps(profile: str) -> Iterator[None]:
    with ExitStack() as stack:
        for place, (name, size) in STAGED.items() if profile == "staged" else ():
            stack.enter_context(patch(f"barnabas.broker.{place}.{name}", size))
        yield


@contextmanager
def _small_disk(directory: str, profile: str) -> Iterator[SmallDisk | None]:
    """A disk that can be full, for stories of one, where this machine gives it."""
    disk: SmallDisk | None = None
    if profile == "full":
        with suppress(OSError):
            disk = SmallDisk(Path(directory) / "small", *SMALL_DISK)
    try:
        yield disk
    finally:
        if disk is not None:
            disk.end()
