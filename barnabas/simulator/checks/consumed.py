"""Consumed: a group passes over no record; what is committed was handed out, and in the end everything is."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Committing, CommitTold, Handed, Kept, Over
from barnabas.simulator.world import Broken


class Consumed(Check):
    """Of groups whose members are handed anything; a record may be handed out more than once."""

    def __init__(self) -> None:
        self._handed: dict[tuple[str, TopicPartition], set[int]] = {}
        self._asked: dict[str, Committing] = {}
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._missing: list[str] = []
        self.rules = {
            Handed: self._hand,
            Committing: self._committing,
            CommitTold: self._told,
            Kept: self._kept,
            Over: self._over,
        }

    def _hand(self, event: Handed) -> None:
        self._handed.setdefault((event.group, event.partition), set()).add(event.offset)

    def _committing(self, event: Committing) -> None:
        self._asked[event.request] = event

    def _told(self, event: CommitTold) -> None:
        commit = self._asked.pop(event.request, None)
        offsets = {} if commit is None else dict(commit.offsets)
        for partition, code in event.codes:
            if commit is not None and code == 0:
                key = commit.group, partition
                self._committed[key] = max(self._committed.get(key, 0), offsets[partition])

    def _kept(self, event: Kept) -> None:
        for group in {group: None for group, _ in self._handed}:
            key = group, event.partition
            given, committed = self._handed.get(key, set()), self._committed.get(key, 0)
            for offset, value in event.records:
                if offset in given:
                    continue
                if offset < committed:
                    raise Broken(
                        f"consumed: group {group} has committed {event.partition} up to {committed}, and was never "
                        f"given {value!r} at {offset}"
                    )
                self._missing.append(f"group {group} was not given {event.partition} offset {offset}")

    def _over(self, event: Over) -> None:
        if self._missing:
            raise Broken(
                f"consumed: {self._missing[0]}, and {len(self._missing) - 1} more, {event.since_healed_ms} ms after "
                "all was healed"
            )
