"""Offsets and times: read again what was written since a moment, and know where it ends.

    python examples/replay_by_time.py [bootstrap servers of any Kafka]

Prints:
    the first at noon or later has offset 12
    12 of 24 hours read again, from 12:00 to 23:00
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sys

from barnabas import Broker, Consumer, Producer, TopicPartition

DAY = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0) - dt.timedelta(days=1)
HOURS = 24


def main(servers: str) -> None:
    """Write a record an hour, then read from noon to the end."""
    where = TopicPartition("hours", 0)
    with Producer(bootstrap_servers=servers, value_serializer="string") as producer:
        for hour in range(HOURS):
            at = DAY + dt.timedelta(hours=hour)
            producer.send("hours", f"{at:%H:%M}", partition=0, timestamp_ms=round(at.timestamp() * 1000))
    noon_ms = round((DAY + dt.timedelta(hours=12)).timestamp() * 1000)
    with Consumer(bootstrap_servers=servers, value_deserializer="string") as consumer:
        consumer.assign([where])
        found = consumer.offsets_for_times({where: noon_ms})[where]
        assert found is not None
        print(f"the first at noon or later has offset {found.offset}")
        consumer.seek(where, found.offset)
        end = consumer.end_offsets([where])[where]
        again: list[str] = []
        while consumer.position(where) < end:
            again += [record.value for record in consumer.poll(1)]
        print(f"{len(again)} of {HOURS} hours read again, from {again[0]} to {again[-1]}")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(Broker()).bootstrap_servers)
