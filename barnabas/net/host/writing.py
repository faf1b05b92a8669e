"""Several buffers written to a transport at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from barnabas.protocol.ids import Buffer

FORGETFUL: Final = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)
"""Whether `writelines` of asyncio's transports leaves bytes and tells nobody (CVE-2024-12254): `pause_writing` comes
with `write` alone, so a peer that does not read would not be waited for."""
_ASYNCIOS: Final = "asyncio.selector_events"
"""Where those are. uvloop's tell, and so do the simulator's, whose traces are to be the same under every Python."""


def write_all(transport: asyncio.WriteTransport, buffers: Sequence[Buffer]) -> None:
    """Write all buffers in order, by reference where the loop can; the protocol is paused where too much is left."""
    if FORGETFUL and buffers and type(transport).__module__ == _ASYNCIOS:
        transport.writelines(buffers[:-1])
        transport.write(buffers[-1])
    else:
        transport.writelines(buffers)
