"""The plain way to serve a log: asyncio streams, one `pread` into fresh bytes per fetch. Peer of the consume benchmark.

Serves Fetch v4 of one partition from a file of equal batches: offset to position is a division.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys


async def serve(path: str, batch_bytes: int, batch_records: int) -> None:
    """Serve until the process ends."""
    descriptor = os.open(path, os.O_RDONLY)
    end = os.fstat(descriptor).st_size
    last_offset = end // batch_bytes * batch_records

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                frame = await reader.readexactly(size)
                correlation = frame[4:8]
                offset, max_bytes = struct.unpack(">qi", frame[-12:])
                name_at = frame.index(b"\x00\x00\x00\x01", 8) + 4
                name_size = struct.unpack_from(">h", frame, name_at)[0]
                name = frame[name_at : name_at + 2 + name_size]
                position = offset // batch_records * batch_bytes
                records = os.pread(descriptor, min(max_bytes, end - position), position)
                head = correlation + struct.pack(">ii", 0, 1) + name
                head += struct.pack(">iihqqii", 1, 0, 0, last_offset, last_offset, -1, len(records))
                writer.write(struct.pack(">i", len(head) + len(records)) + head)
                writer.write(records)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
