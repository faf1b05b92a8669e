"""How the controller's records become metadata: appended, and, once they are committed, in force.

Two images: `pending` has every record that was appended, `committed` every one that is committed. What is small is one
batch, and applied in one step. What concerns many partitions is written by a job, alone (`turns`): as one batch that is
made on the side and put in force in one step, so that nobody ever sees a part of it (`write_alone`); or in slices, each
a batch of its own and in force on its own (`write_in_slices`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.broker.cluster.image import Delta, Image
from barnabas.broker.cluster.record_log import Commit, RecordLog
from barnabas.broker.cluster.records import MetadataRecord, Partition
from barnabas.broker.cluster.turns import OPERATION, SMALL_MAX, answer_defect
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.protocol.errors import ErrorCode, KafkaError

SLICES_MAX: Final = 4
"""Slices that are in flight at a time: what is committed with one sync is put in force in one step."""


class _Seen:
    """A decision over records that are in flight still, `left` of them; `fault` is that of the first that was lost."""

    __slots__ = ("done", "fault", "left")

    def __init__(self, left: int, done: Commit) -> None:
        self.left = left
        self.done = done
        self.fault: KafkaError | None = None


logger = logging.getLogger(__name__)


def aside(image: Image, records: Sequence[MetadataRecord], delta: Delta) -> Job[Image]:
    """What records make of the topics of an image, made on the side in bounded steps; `Image.take` puts it in force."""
    side = Image()
    for start in range(0, len(records), SMALL_MAX):
        part = records[start : start + SMALL_MAX]
        for topic_id in {one.topic_id for one in part if isinstance(one, Partition)}:
            side.borrow(image, topic_id)
        side.apply(part, delta)
        yield None
    return side


class Writing:
    """Appends to the log and keeps both images.

    Args:
        log: where records go.
        image: the committed one.
        publish: hears of every committed change before its answer goes out.
        defer: runs a callback a little later, never from inside the call.
        go_on: is called after each commit.
    """

    def __init__(
        self,
        log: RecordLog,
        image: Image,
        publish: Callable[[Delta], None],
        defer: Callable[[Callable[[], None]], None],
        go_on: Callable[[], None],
    ) -> None:
        self._log = log
        self._publish = publish
        self._defer = defer
        self._go_on = go_on
        self._in_flight: list[Sequence[MetadataRecord]] = []
        self._seen: list[_Seen] = []
        self._refused = ""
        self._committed = image
        self.pending = image.copy()

    @property
    def under_way(self) -> int:
        """The records that were appended and are not committed yet, and for each operation `OPERATION` more.

        Those that wait with it (`settled`) count as operations, too: all of them may be told in one step.
        """
        return sum(map(len, self._in_flight)) + OPERATION * (len(self._in_flight) + len(self._seen))

    def reload(self) -> None:
        """Start over from the committed image: it was just replayed."""
        assert not self._in_flight, "records are appended after the replay, not during it"
        self.pending = self._committed.copy()

    def write_alone(self, records: Sequence[MetadataRecord], done: Commit) -> Job[None]:
        """As `write` in bounded steps, alone. New partitions are made on the side; the pending image comes last."""
        fault: KafkaError | None = None
        appended = Gate()

        def committed(refusal: KafkaError | None) -> None:
            nonlocal fault
            fault = refusal
            appended.open()

        try:
            yield from self._log.append_in_steps(records, committed)
        except KafkaError as refusal:
            self._say_refused(refusal)
            done(refusal)
            return
        delta = Delta()
        if not any(isinstance(one, Partition) for one in records):
            yield from wait(appended)
            if fault is None:
                self._committed.apply(records, delta)
                self._publish(delta)
                for start in range(0, len(records), SMALL_MAX):
                    yield None
                    self.pending.apply(records[start : start + SMALL_MAX])
            done(fault)
            return
        side = yield from aside(self._committed, records, delta)
        yield from wait(appended)
        if fault is None:
            self._committed.take(side)
            self._publish(delta)
            yield None
            self.pending.take(side)
        done(fault)

    def write_in_slices(self, records: Sequence[MetadataRecord], done: Commit) -> Job[None]:
        """Append a slice in each step, alone. After one that is refused none follows."""
        faults: list[KafkaError | None] = []
        slices = [records[start : start + SMALL_MAX] for start in range(0, len(records), SMALL_MAX)]
        over = Gate()
        room = Gate()

        def committed(fault: KafkaError | None) -> None:
            faults.append(fault)
            if not room.is_open:
                room.open()
            if len(faults) == ended_after:
                over.open()

        ended_after = 0
        for number, part in enumerate(slices, 1):
            if not self.write(part, committed) or number == len(slices):
                ended_after = number
                break
            yield None
            while number - len(faults) >= SLICES_MAX:
                room = Gate()
                yield from wait(room)
        yield from wait(over)
        done(next((fault for fault in faults if fault is not None), None))

    def write(self, records: Sequence[MetadataRecord], done: Commit) -> bool:
        """Append, if it is not refused; `done` hears of the commit, or of the refusal, later."""

        def committed(fault: KafkaError | None) -> None:
            self._in_flight.pop(0)
            for one in self._seen:  # before anybody is told: who asks from there has seen what is in flight still
                one.left -= 1
                one.fault = one.fault or fault
            try:
                if fault is None:
                    self._publish(self._committed.apply(records))
                else:
                    self.pending = self._committed.copy()
                    for later in self._in_flight:
                        self.pending.apply(later)
                done(fault)
            except Exception as defect:
                answer_defect(defect, done)
            self._tell_seen()
            self._go_on()

        try:
            self._log.append(records, committed)
        except KafkaError as refusal:
            self._say_refused(refusal)
            fault = refusal
            self._defer(lambda: done(fault))
            return False
        self._refused = ""
        self._in_flight.append(records)
        self.pending.apply(records)
        return True

    def settled(self, done: Commit) -> None:
        """For what changes nothing: `done` hears when all that it saw in the pending image is committed, or lost.

        At once if nothing is in flight. So does Kafka's `QuorumController` with operations that give no records: nobody
        is told of what may never have been.
        """
        if self._in_flight:
            self._seen.append(_Seen(len(self._in_flight), done))
        else:
            done(None)

    def _tell_seen(self) -> None:
        while self._seen and not self._seen[0].left:  # who came later has as many before him, or more
            one = self._seen.pop(0)
            try:
                one.done(one.fault)
            except Exception as defect:
                answer_defect(defect, one.done)

    def _say_refused(self, refusal: KafkaError) -> None:
        """Say it once: on a full disk whoever waits for room tries again every second."""
        if refusal.code != ErrorCode.NOT_CONTROLLER and str(refusal) != self._refused:  # the broker stops: no error
            self._refused = str(refusal)
            logger.error("the metadata log refused a change: %s", refusal)
