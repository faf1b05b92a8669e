"""How much may be held for requests: `queued.max.request.bytes`, less where the container is small."""

from __future__ import annotations

import contextlib
import os
from typing import Final

from barnabas.broker.account import UNLIMITED, Account
from barnabas.broker.config import BrokerConfig

_CGROUP: Final = "/sys/fs/cgroup"


def account_for(config: BrokerConfig, container_bytes: int | None) -> Account:
    """The account of a broker in a container that may use `container_bytes` (None: as much as there is).

    A quarter of a small container at most, for the log's indexes and the page cache need room, too; one largest frame
    at least, else it could never be received. `queued.max.request.bytes=-1` means no limit, as in Kafka.
    """
    limit, frame_bytes_max = config.queued_max_request_bytes, config.socket_request_max_bytes
    if limit < 0:
        return Account(UNLIMITED, frame_bytes_max)
    if container_bytes is not None:
        limit = min(limit, container_bytes // 4)
    return Account(max(limit, frame_bytes_max), frame_bytes_max)


def container_bytes(root: str = _CGROUP, own: str = "/proc/self/cgroup") -> int | None:
    """The least memory limit of the control groups this process is in (versions 2 and 1); None when there is none."""
    paths = [f"{root}/memory/memory.limit_in_bytes"]
    group = ""
    with contextlib.suppress(OSError), open(own) as file:
        group = next((line.strip()[3:] for line in file if line.startswith("0::")), "")
    while True:
        paths.append(f"{root}/{group.strip('/')}/memory.max")
        if group in ("", "/"):
            break
        group = os.path.dirname(group)
    limits = [limit for limit in map(_limit, paths) if limit is not None]
    return min(limits, default=None)


def _limit(path: str) -> int | None:
    """The limit in a file; the files say "max", or a number no machine has, where there is none."""
    try:
        with open(path) as file:
            text = file.read().strip()
    except OSError:
        return None
    limit = int(text) if text.isdigit() else UNLIMITED
    return limit if limit < UNLIMITED // 2 else None
