"""How much may be held for requests, and unpacked of a batch: less than was asked for where the container is small."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from barnabas.broker.account import UNLIMITED, Account
from barnabas.broker.config import BrokerConfig

_CGROUP: Final = "/sys/fs/cgroup"
_BROKER_BYTES: Final = 64 * 1024 * 1024
"""What a broker takes by itself, and a little for the page cache."""
_BATCH_BYTES_MIN: Final = 8 * 1024 * 1024
"""However small the container is: honest producers send a MiB, which seldom unpacks to more."""

logger = logging.getLogger(__name__)


def fitted(config: BrokerConfig, container_bytes: int | None) -> BrokerConfig:
    """The settings in a container that may use `container_bytes` (None: as much as there is); lines tell what is less.

    Of a small container the account has a quarter at most, for the log's indexes and the page cache need room, too; one
    largest frame at least, else it could never be received. `queued.max.request.bytes=-1` means no limit, as in Kafka.
    A batch is unpacked beside it, which takes twice its bytes: it has half of what the account and the broker leave.
    """
    if container_bytes is None:
        return config
    asked = config.queued_max_request_bytes
    limit = max(container_bytes // 4, config.socket_request_max_bytes)
    if asked > limit:
        logger.info(
            "queued.max.request.bytes is %d, not %d: this container may use %d bytes, of which it is a quarter at "
            "most, but not less than socket.request.max.bytes",
            limit,
            asked,
            container_bytes,
        )
        config = replace(config, queued_max_request_bytes=limit)
    batch = max((container_bytes - config.queued_max_request_bytes - _BROKER_BYTES) // 2, _BATCH_BYTES_MIN)
    if batch < config.barnabas_batch_bytes_max:
        logger.info(
            "barnabas.batch.bytes.max is %d, not %d: this container may use %d bytes, and what is unpacked takes twice "
            "its size beside queued.max.request.bytes",
            batch,
            config.barnabas_batch_bytes_max,
            container_bytes,
        )
        config = replace(config, barnabas_batch_bytes_max=batch)
    return config


def account_for(config: BrokerConfig) -> Account:
    """The account of a broker with these settings."""
    limit, frame_bytes_max = config.queued_max_request_bytes, config.socket_request_max_bytes
    return Account(UNLIMITED if limit < 0 else limit, frame_bytes_max)


def container_bytes(root: str = _CGROUP, own: str = "/proc/self/cgroup") -> int | None:
    """The least memory limit of the control groups this process is in (versions 2 and 1); None when there is none."""
    groups = {"": "", "memory": ""}  # by controller; version 2 names none
    with contextlib.suppress(OSError), open(own) as file:
        for line in file:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            groups |= dict.fromkeys(groups.keys() & controllers.split(","), group)
    paths = [*_upwards(root, groups[""], "memory.max")]
    paths += _upwards(f"{root}/memory", groups["memory"], "memory.limit_in_bytes")
    limits = [limit for limit in map(_limit, paths) if limit is not None]
    return min(limits, default=None)


def _upwards(root: str, group: str, file: str) -> Iterator[str]:
    """The file of a group and of all above it. In a container the root is often the group itself."""
    while group not in ("", "/"):
        yield f"{root}/{group.strip('/')}/{file}"
        group = os.path.dirname(group)
    yield f"{root}/{file}"


def _limit(path: str) -> int | None:
    """The limit in a file; the files say "max", or a number no machine has, where there is none."""
    try:
        with open(path) as file:
            text = file.read().strip()
    except OSError:
        return None
    limit = int(text) if text.isdigit() else UNLIMITED
    return limit if limit < UNLIMITED // 2 else None
