"""The defects that were found in the broker, by name."""

from __future__ import annotations

from types import MappingProxyType

from tests.durability.plants import Change, Plant

WIPE = """\
    believed = True
    if found.log_end_offset < found.log_start_offset:
        for segment in found.segments:
            found.disk.remove(segment.path(LOG_SUFFIX))
        found.segments = [Segment.create(found.disk, found.directory, found.log_start_offset, found.now_ms)]
        found.log_end_offset = found.log_start_offset
    noted = noted._replace(recovery_point=min(noted.recovery_point, found.log_end_offset))
"""

PLANTS = MappingProxyType(
    {
        "checkpoints_by_name": Plant(
            "What was noted of a topic counts for the next one of its name, and a log that ends below it is wiped.",
            (
                Change(
                    "barnabas.broker.log.checkpoint:noted",
                    "point is not None and point.topic_id in (topic_id, ZERO_UUID)",
                    "point is not None",
                ),
                Change(
                    "barnabas.broker.log.recovery:recover",
                    "    believed = noted.is_believed(found.log_end_offset)\n",
                    WIPE,
                ),
            ),
            "process/anew/1",
            10,
        ),
        "long_names": Plant(
            "A directory that is set aside gets a name as long as it comes; who cannot rename it does not start.",
            (
                Change("barnabas.broker.log.names:free_name", "[: NAME_BYTES_MAX - len(tail)]", ""),
                Change("barnabas.broker.log.manager:LogManager._rename", "except OSError", "except ZeroDivisionError"),
            ),
            "process/kills/2",
            8,
        ),
        "metadata_is_cut": Plant(
            "Metadata that is broken is cut where the break is, and nobody is told.",
            (
                Change(
                    "barnabas.broker.cluster.judgement:judge",
                    "    start = 0 if snapshot is None else snapshot.end\n",
                    "    return\n",
                ),
            ),
            "process/metadata/1",
            18,
        ),
        "a_full_disk_is_final": Plant(
            "An index that found no room ends a partition until the next start.",
            (
                Change(
                    "barnabas.broker.log.flush:Flusher._step",
                    "nonlocal indexes_saved\n        indexes_saved = indexes_saved and error is None",
                    "nonlocal sync_error\n        sync_error = sync_error or error",
                ),
            ),
            "process/full/1",
            16,
        ),
        "sums_unchecked": Plant(
            "The cleaner rewrites batches whose sum it has not checked: damage gets a good sum, and is served.",
            (
                Change(
                    "barnabas.broker.log.key_map:fault_of",
                    '"" if crc_ok(view, position, header.size) else "its sum does not fit"',
                    '""',
                ),
            ),
            "process/cleaning/12",
            20,
        ),
        "any_closing_files": Plant(
            "A clean end counts as one whatever became of the file that it wrote for many logs.",
            (
                Change(
                    "barnabas.broker.log.closing:load_closing", "named is not None and named != _sum(packed)", "False"
                ),
            ),
            "process/closing/3",
            12,
        ),
        "silent_losses": Plant(
            "What is lost is counted, and nobody is told.",
            (Change("barnabas.broker.log.losses:Losses.report", 'logger.warning("loss: %s", loss)', "pass"),),
            "process/tails/1",
            22,
        ),
    }
)
