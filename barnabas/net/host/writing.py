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
    """Write all buffers in order, by reference where the loop can; the protocol is paused where too much is left.

    asyncio's transports tell of a connection that is lost one round of the loop later. Until then `write` drops what it
    is given, but `writelines` from 3.12.0 on (CPython mended it in October 2025, gh-136234) has the loop look at the
    socket again, which is closed by then: the next connection that is given its number is never read from. Nor is it
    given what is empty, which it never has sent: the loop would come back to that for ever (gh-155888).
    """
    if type(transport).__module__ != _ASYNCIOS:
        transport.writelines(buffers)
    elif transport.is_closing():
        transport.write(b"".join(buffers))
    else:
        full = [one for one in buffers if len(one)]
        if FORGETFUL and full:
            transport.writelines(full[:-1])
            transport.write(full[-1])
        else:
            transport.writelines(full)
