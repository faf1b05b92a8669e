"""Logs that were cut below what a query has read, even if they have grown beyond it since: `epochs.py` tells how."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.epochs import Epochs, newer, stored_epochs
from barnabas.spark_bridge.offsets import Offsets, Span
from barnabas.spark_bridge.options import SourceOptions
from barnabas.spark_bridge.planning import report_loss


class Leaders(Protocol):
    """What is asked of the brokers (`Brokers`, or a test's own)."""

    epochs: Epochs

    def partitions(self) -> Collection[TopicPartition]:
        """The partitions the query reads."""

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offset behind the last record of each; its leader's epoch is in `epochs` then."""

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Offsets:
        """Where these epochs ended, of each partition that tells."""


class Cuts:
    """Finds them for one query. A log is asked about once for each of its leaders."""

    def __init__(self) -> None:
        self._sound: Epochs = {}

    def below(self, cluster: Leaders, stored: Mapping[str, Any], read: Offsets) -> Offsets:
        """Where logs were cut that were read farther; `stored` says in which epochs, `cluster.epochs` what is now."""
        now = cluster.epochs
        changed = newer(stored_epochs(stored), now)
        asked = {each: epoch for each, epoch in changed.items() if each in read and self._sound.get(each) != now[each]}
        ends = cluster.epoch_ends(asked) if asked else {}
        cut = {where: end for where, end in ends.items() if end < read[where]}
        self._sound |= {where: now[where] for where in ends if where not in cut}
        return cut

    def check_planned(
        self, cluster: Leaders, stored: Mapping[str, Any], spans: list[Span], options: SourceOptions
    ) -> None:
        """A batch that is run again has the same records, or says that it has not.

        Raises:
            OffsetError: it has not, and failOnDataLoss is set.
        """
        if not stored_epochs(stored):
            return
        present = set(cluster.partitions())
        until = {span.where: span.end for span in spans if span.where in present}
        cluster.latest(until)
        cut = self.below(cluster, stored, until)
        if cut:
            what = "; ".join(f"{where} was cut at {cut[where]}" for where in sorted(cut))
            report_loss(options, f"the last batch was planned up to {_upto(until, cut)}, but {what}")


def _upto(until: Offsets, cut: Offsets) -> str:
    return ", ".join(str(until[where]) for where in sorted(cut))
