"""One request of every API, version and dialect that is to be answered, and of every API with arrays one that is not.

Whoever goes round has met the whole table of docs/SECURITY.md, and nothing was left out for want of luck.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.protocol.api import VERSIONS
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.kafka.schema import Array
from barnabas.protocol.limits import FEW, NATIVE_SHARE, REQUEST_ELEMENTS_MAX
from barnabas.protocol.native import codec as native
from tests.hostile.extremes import Extreme, exact, paths

TEXT = 4_097
"""Bytes of each string: more than metadata of an offset, or a pattern, may have."""
DATA = 2**16


def tour() -> Iterator[tuple[Extreme, str]]:
    """Each request with how it ends, "answered" or "refused" (`run.send`)."""
    for key, (first, last) in VERSIONS.items():
        for version in range(first, last + 1):
            yield exact(key, version, kafka, text=TEXT, data=DATA), "answered"
        yield exact(key, last, native, text=TEXT, data=DATA), "answered"  # any version has all fields
        arrays = [path for path, kind in paths(APIS[key].request, last) if isinstance(kind, Array)]
        for path in arrays[:1]:
            allowed = REQUEST_ELEMENTS_MAX[key]
            yield exact(key, last, kafka, into=path, elements=allowed + 1), "refused"
            shared = max(allowed // NATIVE_SHARE, FEW)
            yield exact(key, last, native, into=path, elements=shared + 1), "refused"
