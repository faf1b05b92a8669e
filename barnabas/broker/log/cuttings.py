"""What a start cuts off a log is kept beside it, for whoever wants to look: `<number>.<base>.<position>.cut`.

    000001.00000000000000004711.16384.cut      bytes of segment 4711 from position 16384 on

Nothing reads these files; they go with the directory. Each log keeps eight of them and 1 GiB; the oldest goes first.
"""

from __future__ import annotations

import errno
import logging
from typing import Final

from barnabas.broker.jobs import Job, remove
from barnabas.broker.log.scan import WINDOW, patient
from barnabas.broker.log.segment import LOG_SUFFIX, Segment, stem
from barnabas.broker.ports import Disk

logger = logging.getLogger(__name__)

CUT_SUFFIX: Final = ".cut"
FILES_MAX: Final = 8
BYTES_MAX: Final = 1024 * 1024 * 1024


def keep_tail(disk: Disk, segment: Segment, position: int) -> Job[str]:
    """Copy what a segment holds from `position` on. Returns the path of the copy.

    Raises:
        OSError: it cannot be read, or there is no room; nothing is left of the copy.
    """
    path = yield from _make_room(disk, segment, position, segment.size - position)
    copy = disk.open(path, create=True)
    try:
        while position < segment.size:
            at = position
            view = yield from patient(lambda at=at: segment.file.read(at, WINDOW))  # type: ignore[misc]
            copy.append((view,))
            position += len(view)
            del view  # a file that nobody looks into is cut in place
            yield None
    except OSError:
        disk.remove(path)
        raise
    finally:
        copy.close()
    return path


def keep_segment(disk: Disk, segment: Segment) -> Job[str]:
    """Rename a whole segment's log file. Returns its new path.

    Raises:
        OSError: the disk refuses.
    """
    path = yield from _make_room(disk, segment, 0, segment.size)
    disk.rename(segment.path(LOG_SUFFIX), path)
    return path


def _make_room(disk: Disk, segment: Segment, position: int, size: int) -> Job[str]:
    """Let the oldest go until there is room for `size` more bytes, and give the next name.

    Raises:
        OSError: EFBIG, so many bytes are never kept; or the disk refuses.
    """
    directory = segment.directory
    if size > BYTES_MAX:
        raise OSError(errno.EFBIG, f"{size} bytes are more than the {BYTES_MAX} that a log keeps")
    names = [name for name in disk.list(directory) if name.endswith(CUT_SUFFIX) and name.partition(".")[0].isdigit()]
    sizes = {}
    for name in names:
        file = disk.open(f"{directory}/{name}")
        sizes[name] = file.size
        file.close()
    number = int(names[-1].partition(".")[0]) + 1 if names else 1
    while names and (len(names) >= FILES_MAX or sum(sizes[name] for name in names) + size > BYTES_MAX):
        oldest = names.pop(0)
        logger.warning(
            "%s/%s (%d bytes that were cut off earlier) goes: a log keeps up to %d such files and %d bytes",
            directory,
            oldest,
            sizes[oldest],
            FILES_MAX,
            BYTES_MAX,
        )
        yield from remove(disk, f"{directory}/{oldest}")
    return f"{directory}/{number:06d}.{stem(segment.base)}.{position}{CUT_SUFFIX}"
