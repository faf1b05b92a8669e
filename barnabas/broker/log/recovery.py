"""Opening a log that lies on disk (Kafka's LogLoader).

After a clean shutdown nothing is scanned but the few batches behind the active segment's last index entry. After any
other end, segments from the recovery point on are walked batch by batch: sum, framing and rising offsets. The first bad
batch ends the log: its segment is cut there and later segments go.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.log import checkpoint
from barnabas.broker.log.closing import ClosingFiles
from barnabas.broker.log.cuttings import keep_segment, keep_tail
from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.found import Found, Noted, is_segment, is_snapshot, sift, tidy
from barnabas.broker.log.losses import Loss
from barnabas.broker.log.place import locate_at_start
from barnabas.broker.log.producer_state import ProducerState
from barnabas.broker.log.scan import batches_in, patient, window_at
from barnabas.broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    stem,
)
from barnabas.broker.log.state import Change
from barnabas.broker.log.truncation import load_snapshot, remove_snapshots, rename_away
from barnabas.broker.log.walk import OFFSETS_MAX, Walked, indexes_are_sane, rebuild
from barnabas.protocol.batch import BatchHeader, read_header

logger = logging.getLogger(__name__)

_FAR: Final = 2**62
_OPENED_PER_STEP: Final = 200


def recover(found: Found, clean: bool, noted: Noted, closing: ClosingFiles | None = None) -> Job[Change]:
    """Find out what lies on disk, and mend it.

    Args:
        found: where to look.
        clean: the data directory was shut down cleanly.
        noted: the checkpoints. What of them is not believed is as if it were not there, so that all of the log is
            walked, and it begins at its first file.
        closing: what the clean stop put down elsewhere (see `closing`); without effect after any other end.

    Raises:
        OSError: the disk failed.
    """
    names = yield from tidy(found)
    if not names:
        found.disk.make_dir(found.directory)
    bases = sorted(int(name[: -len(LOG_SUFFIX)]) for name in (yield from sift(names, is_segment)))
    segments = []
    for base in bases:
        segment = Segment.existing(found.disk, found.directory, base, found.now_ms)
        segment.room = found.indexes
        segments.append(segment)
        if not len(segments) % _OPENED_PER_STEP:
            yield None
    if not segments:
        segments = [Segment.create(found.disk, found.directory, noted.log_start_offset, found.now_ms)]
    found.segments = segments
    kept: Mapping[str, bytes] = {}
    if clean and closing is not None:
        clean = (closing.base, closing.size) == (found.active.base, found.active.size)
        kept = closing.contents if clean else {}
    epochs_known = _load_epochs(found, names, kept)
    found.log_start_offset = max(noted.log_start_offset, segments[0].base)
    snapshots = yield from sift(names, is_snapshot)
    found.snapshots = sorted(int(name[: -len(SNAPSHOT_SUFFIX)]) for name in snapshots)
    suspect = _FAR if clean else segments[found.index_of(noted.recovery_point)].base
    found.epochs = found.epochs.up_to(suspect)  # from there on the batches say it: a cut may not have been noted down
    if not epochs_known:
        yield from _learn_epochs(found, suspect)
    producers = _Producers(found, suspect)
    ends = yield from _check_segments(found, names, suspect, producers, kept)
    _drop_empty_end(found, ends, noted.recovery_point)
    yield from _open_active(found)
    believed = noted.is_believed(found.log_end_offset)
    _compare(found, noted, believed)
    if not believed:
        for segment in found.segments:
            segment.close()
        rest = Noted(high_watermark=min(noted.high_watermark, found.log_end_offset))
        return (yield from recover(found, False, rest))
    found.epochs = found.epochs.up_to(found.log_end_offset).from_start(found.log_start_offset)
    if producers.learning:
        found.producers = producers.state
        _complete(found, producers.start)
    elif (snapshot := stem(found.log_end_offset) + SNAPSHOT_SUFFIX) in kept:
        found.producers = ProducerState.from_snapshot(kept[snapshot])
    elif found.snapshots or not clean:
        yield from _load_producers(found)
    _drop_old_snapshots(found)
    return Change(
        segments=found.segments,
        log_start_offset=found.log_start_offset,
        log_end_offset=found.log_end_offset,
        recovery_point=found.log_end_offset if clean else noted.recovery_point,
        high_watermark=noted.high_watermark,
        epochs=found.epochs,
        producers=found.producers,
        snapshots=found.snapshots,
    )


def _compare(found: Found, noted: Noted, believed: bool) -> None:
    """Say it if a log ends below what was noted of it."""
    offset, field = max(zip(noted, Noted._fields, strict=True))
    if offset > found.log_end_offset:
        reason = f"the log ends below its {field.replace('_', ' ')} {offset}"
        if not believed:
            reason += ", which is not believed: the log begins at its first file, and all of it is checked"
        found.report(Loss(found.name, found.log_end_offset, offset, 0, found.directory, reason))


class _Producers:
    """What the walk over suspect segments learns of producers, so that these need not be read a second time.

    It can if there is a snapshot of the state where the walk begins, as there is one at the base of every segment that
    was not the first. Not so when indexes of older segments are walked: they come without state. (Where one of these is
    cut, the log ends below its recovery point, which is not believed then.) Batches below the log start count, as in
    Apache Kafka: to delete records ends no producer.
    """

    __slots__ = ("learning", "start", "state")

    def __init__(self, found: Found, suspect: int) -> None:
        self.learning = False
        if suspect < _FAR:
            usable = [snapshot for snapshot in found.snapshots if snapshot <= suspect]
            self.state, self.start = load_snapshot(found.disk, found.directory, usable, found.segments[0].base)
            self.learning = self.start >= suspect

    def replay(self, header: BatchHeader) -> None:
        """Learn from the next batch of the walk."""
        if header.producer_id >= 0 and header.last_offset >= self.start:
            self.state.replay(header, header.last_offset)


def _load_epochs(found: Found, names: list[str], kept: Mapping[str, bytes]) -> bool:
    """Read the leader epochs; whether they could be read."""
    saved: list[tuple[int, int]] = []
    known = False
    path = f"{found.directory}/{checkpoint.LEADER_EPOCH_FILE}"
    if checkpoint.LEADER_EPOCH_FILE in names:
        try:
            saved = checkpoint.parse_epochs(found.disk.load(path))
            known = True
        except (OSError, ValueError, IndexError) as error:
            logger.warning("%s is not used: %s; leader epochs are learned from the batches", path, error)
    if checkpoint.LEADER_EPOCH_FILE in kept:
        found.epochs = LeaderEpochs(checkpoint.parse_epochs(kept[checkpoint.LEADER_EPOCH_FILE]), saved=saved)
        return True
    found.epochs = LeaderEpochs(saved)
    return known


def _learn_epochs(found: Found, suspect: int) -> Job[None]:
    """Learn leader epochs from the heads of the batches below `suspect`: from there on a walk tells them.

    The checkpoint is not there either before it is first written; then no recovery point was saved, and all is walked.
    """
    for segment in found.segments:
        position = 0 if segment.base < suspect else segment.size
        while position < segment.size:
            at = position
            view = yield from patient(lambda segment=segment, at=at: window_at(segment.file, at, segment.size))  # type: ignore[misc]
            for offset, header in batches_in(view):
                found.learn_epoch(header)
                position = at + offset + header.size
            if position == at:
                break
            yield None


def _check_segments(
    found: Found, names: list[str], suspect: int, producers: _Producers, kept: Mapping[str, bytes]
) -> Job[dict[int, int]]:
    """Walk the segments from `suspect` on, and older ones whose indexes are missing or senseless.

    Returns where those end that were good as a whole, by base.
    """
    present = set(names)
    ends: dict[int, int] = {}
    log_end = found.segments[0].base
    walked_to = -1

    def learn(header: BatchHeader) -> None:
        found.learn_epoch(header)
        if producers.learning and segment.base >= suspect:
            producers.replay(header)

    for index, segment in enumerate(list(found.segments)):
        is_suspect = segment.base >= suspect
        if 0 <= walked_to < segment.base and not found.compacts:
            reason = "nothing is between two segments: what one of them held at its end, or whole ones, are gone"
            found.report(Loss(found.name, walked_to, segment.base, 0, segment.path(LOG_SUFFIX), reason))
        walked_to = -1
        log_end = max(log_end, segment.base)
        if (offsets := stem(segment.base) + INDEX_SUFFIX) in kept:
            segment.take_indexes(kept[offsets], kept[stem(segment.base) + TIME_INDEX_SUFFIX])
        elif is_suspect or not (yield from indexes_are_sane(found.disk, segment, present)):
            last = index + 1 == len(found.segments)
            following = segment.base + OFFSETS_MAX if last else found.segments[index + 1].base
            walked = yield from rebuild(segment, found.index_interval, log_end, following, learn)
            if is_suspect:  # whoever cut it before this start may have come to no sync
                segment.synced_size = -1
            if walked.good_bytes < segment.size:
                yield from _cut(found, index, walked)
                return ends
            if is_suspect and walked.gap >= 0 and not found.compacts:
                reason = "nothing is before its last batch, which may have a wrong offset"
                found.report(Loss(found.name, walked.gap, walked.log_end, 0, segment.path(LOG_SUFFIX), reason))
            log_end = walked_to = ends[segment.base] = walked.log_end
        yield None
    return ends


def _drop_empty_end(found: Found, ends: dict[int, int], recovery_point: int) -> None:
    """A log ends where its records do: what would come at a later offset, and did not, takes its name with it.

    A power failure takes the end of one segment and all of the next, or brings back the name of one that an earlier
    start had dropped. Who reads at the first of the offsets between, to the end, would stand still there. Below the
    recovery point records were on the device: their offsets are not given away again.
    """
    while len(found.segments) > 1 and not found.active.size and not found.compacts:
        end = ends.get(found.segments[-2].base, found.active.base)
        if not recovery_point <= end < found.active.base:
            return
        found.discard(rename_away(found.disk, found.segments.pop()))


def _cut(found: Found, index: int, walked: Walked) -> Job[None]:
    """A segment is good up to a place: drop what follows it, cut it there, keep the bytes, and say so."""
    segment = found.segments[index]
    place = f"{segment.path(LOG_SUFFIX)} holds no good batch at byte {walked.good_bytes}"
    following = -1
    while found.active is not segment:  # from the end: a start that is killed meanwhile leaves no gap
        last = found.active
        where = last.path(LOG_SUFFIX)
        kept, why = yield from _keep(keep_segment(found.disk, last))
        found.report(Loss(found.name, last.base, following, last.size, where, f"dropped, for {place}{why}", kept))
        found.discard(rename_away(found.disk, last))
        found.segments.pop()
        following = last.base
    size = segment.size - walked.good_bytes
    kept, why = yield from _keep(keep_tail(found.disk, segment, walked.good_bytes))
    reason = f"cut at byte {walked.good_bytes}, where no good batch begins{why}"
    found.report(Loss(found.name, walked.log_end, following, size, segment.path(LOG_SUFFIX), reason, kept))
    segment.file.truncate(walked.good_bytes)
    segment.size = walked.good_bytes
    segment.synced_size = -1


def _keep(job: Job[str]) -> Job[tuple[str, str]]:
    """Keep bytes if that can be: where they are now, and why they are not."""
    try:
        return (yield from job), ""
    except OSError as error:
        return "", f"; the bytes cannot be kept ({error})"


def _open_active(found: Found) -> Job[None]:
    """Bring the active segment's state up to date and find the log end.

    Batches behind the last index entry are walked; a tail that is no batch, or goes back (which a clean end cannot
    leave), is cut.
    """
    active = found.active
    log_end = active.base
    if active.size:
        if not active.indexes_saved:  # just rebuilt: everything is known but the end
            start = active.offsets.lookup(_FAR)
        else:
            try:
                start = yield from patient(lambda: active.offsets.lookup(_FAR))
                yield from patient(lambda: active.times)
            except OSError as error:
                logger.warning("an index of %s cannot be read and is built anew: %s", active.path(LOG_SUFFIX), error)
                yield from _walk_active(found)
                yield from _open_active(found)
                return
        position, size = start, active.size
        while position < size:
            begin = position
            view = yield from patient(lambda begin=begin: window_at(active.file, begin, size))  # type: ignore[misc]
            for at, header in batches_in(view):
                if header.base_offset < log_end:  # another program has added to it
                    position = begin
                    break
                position = begin + at + header.size
                log_end = header.next_offset
                if header.max_timestamp > active.max_timestamp:
                    active.max_timestamp, active.max_timestamp_offset = header.max_timestamp, header.last_offset
            if position == begin:
                yield from _walk_active(found)
                yield from _open_active(found)
                return
            yield None
        active.bytes_since_index = size - start
        first = yield from patient(lambda: active.file.read(0, 61))
        active.first_timestamp = read_header(first).max_timestamp
    else:
        active.reset_indexes()
    found.log_end_offset = log_end


def _walk_active(found: Found) -> Job[None]:
    """Walk the active segment, build its indexes anew, and cut it where it is no longer good."""
    active, end = found.active, found.active.base + OFFSETS_MAX
    walked = yield from rebuild(active, found.index_interval, active.base, end, found.learn_epoch)
    if walked.good_bytes < active.size:
        yield from _cut(found, len(found.segments) - 1, walked)


def _complete(found: Found, start: int) -> None:
    """What was learned from `start` on lacks producers whose batches are gone: a later snapshot may know them."""
    later = [snapshot for snapshot in found.snapshots if start < snapshot <= found.log_end_offset]
    if later:
        state, _ = load_snapshot(found.disk, found.directory, later, start)
        found.producers.complete(state)


def _load_producers(found: Found) -> Job[None]:
    """The newest usable snapshot, and every batch after it."""
    snapshots = [snapshot for snapshot in found.snapshots if snapshot <= found.log_end_offset]
    state, start = load_snapshot(found.disk, found.directory, snapshots, found.segments[0].base)
    if start < found.log_end_offset:
        for segment in found.segments[found.index_of(start) :]:
            position = yield from patient(lambda segment=segment: locate_at_start(segment, start))  # type: ignore[misc]
            while position < segment.size:
                at = position
                view = yield from patient(
                    lambda segment=segment, at=at: window_at(segment.file, at, segment.size)  # type: ignore[misc]
                )
                for offset, header in batches_in(view):
                    position = at + offset + header.size
                    if header.last_offset >= start:
                        state.replay(header, header.last_offset)
                if position == at:
                    break
                yield None
    found.producers = state


def _drop_old_snapshots(found: Found) -> None:
    """Keep those at the beginning of a segment, and the newest; none above the log end."""
    usable = [snapshot for snapshot in found.snapshots if snapshot <= found.log_end_offset]
    keep = {*(segment.base for segment in found.segments), *usable[-1:]}.intersection(usable)
    remove_snapshots(found.disk, found.directory, [old for old in found.snapshots if old not in keep])
    found.snapshots = sorted(keep)
