"""Zombies: a commit counts only if whoever makes it was a member when it was read, in the generation that it names.

An epoch of the consumer protocol may be an earlier one for what the member has still (KIP-1251). Who names no
generation is nobody's member.
"""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Committing, CommitTold, Grouped
from barnabas.simulator.world import Broken


class Zombies(Check):
    """Against the last state of the group at that coordinator, in the leader epoch of the answer."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], Grouped] = {}
        self._asked: dict[str, tuple[Committing, Grouped]] = {}
        self.rules = {Grouped: self._grouped, Committing: self._committing, CommitTold: self._told}

    def _grouped(self, event: Grouped) -> None:
        self._groups[event.broker, event.group] = event

    def _committing(self, event: Committing) -> None:
        group = self._groups.get((event.broker, event.group))
        if group is not None and event.generation >= 0:
            self._asked[event.request] = event, group

    def _told(self, event: CommitTold) -> None:
        commit, group = self._asked.pop(event.request, (None, None))
        if commit is None or group is None or group.epoch != event.epoch or any(code for _, code in event.codes):
            return
        known = {member: (generation, partitions) for member, generation, partitions in group.members}
        generation, partitions = known.get(commit.member, (-1, ()))
        earlier = commit.generation < generation
        if generation < 0:
            why = "is no member"
        elif earlier and group.is_classic:
            why = f"is in generation {generation}"
        elif earlier and not {partition for partition, _ in commit.offsets} <= set(partitions):
            why = f"is in epoch {generation}, and does not have all of it"
        else:
            return
        raise Broken(
            f"zombies: {commit.broker} takes a commit of {commit.offsets} from {commit.member} in generation "
            f"{commit.generation} of group {commit.group}, who {why}"
        )
