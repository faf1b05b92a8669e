"""The plain way to serve a log: asyncio streams, one `pread` into fresh bytes per partition. Peer of the consume row.

Serves Fetch v4 of one topic; every partition is the same file of equal batches: offset to position is a division.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys


async def serve(path: str, batch_bytes: int, batch_records: int, joined: bool) -> None:
    """Serve until the process ends. `joined`: an answer is one `writelines`, else a `write` for each of its pieces."""
    descriptor = os.open(path, os.O_RDONLY)
    end = os.fstat(descriptor).st_size
    last_offset = end // batch_bytes * batch_records

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                frame = await reader.readexactly(size)
                correlation = frame[4:8]
                client_id_size = struct.unpack_from(">h", frame, 8)[0]
                name_at = 10 + max(client_id_size, 0) + struct.calcsize(">iiiibi")
                name_end = name_at + 2 + struct.unpack_from(">h", frame, name_at)[0]
                count = struct.unpack_from(">i", frame, name_end)[0]
                answers = []
                for partition, offset, max_bytes in struct.iter_unpack(">iqi", frame[name_end + 4 :]):
                    position = offset // batch_records * batch_bytes
                    records = os.pread(descriptor, min(max_bytes, end - position), position)
                    answers.append(struct.pack(">ihqqii", partition, 0, last_offset, last_offset, -1, len(records)))
                    answers.append(records)
                head = correlation + struct.pack(">ii", 0, 1) + frame[name_at:name_end] + struct.pack(">i", count)
                writer.write(struct.pack(">i", len(head) + sum(map(len, answers))) + head)
                if joined:
                    writer.writelines(answers)
                else:
                    for answer in answers:
                        writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "joined"))
