"""Offsets of a group as a file of kafka-consumer-groups has them: `reset --export` writes one, `--from-file` reads it.

    orders,0,42                one group: topic, partition, offset
    billing,orders,0,42        several: of these the group's own lines

A topic's name has no comma; a group's may, and stands in quotes then.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from barnabas.cli.times import number
from barnabas.protocol.errors import ConfigError
from barnabas.protocol.ids import TopicPartition

_ALONE: Final = 3
_AMONG: Final = 4


def offsets_of(file: Path, group: str) -> dict[TopicPartition, int]:
    """Where a group goes on, as a file says.

    Raises:
        ConfigError: the file cannot be read, is none of this form, or says nothing of the group.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is no text") from error
    offsets: dict[TopicPartition, int] = {}
    lines = csv.reader(io.StringIO(text), strict=True)
    try:
        for line in lines:
            if not line:
                continue
            where, offset = _read(line[-_ALONE:] if len(line) == _AMONG else line)
            if len(line) == _AMONG and line[0] != group:
                continue
            if where in offsets:
                raise ValueError(f"{where} stands there twice")
            offsets[where] = offset
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{file}, line {lines.line_num}: {error}") from error
    if not offsets:
        raise ConfigError(f"{file} says nothing of group {group}")
    return offsets


def _read(line: list[str]) -> tuple[TopicPartition, int]:
    if len(line) == _ALONE and line[0]:
        partition, offset = number(line[1].strip()), number(line[2].strip())
        if partition is not None and offset is not None:
            return TopicPartition(line[0].strip(), partition), offset
    raise ValueError("write TOPIC,PARTITION,OFFSET, or GROUP,TOPIC,PARTITION,OFFSET")


def lines_of(offsets: Iterable[tuple[TopicPartition, int]]) -> list[str]:
    """The lines of a file for one group."""
    return [f"{where.topic},{where.partition},{offset}" for where, offset in offsets]
