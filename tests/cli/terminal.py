"""What a person types to one broker, and sees; in this process, with pipes instead of a terminal."""

from __future__ import annotations

import io
import sys
from itertools import count
from typing import cast
from unittest.mock import patch

from barnabas import Admin, OffsetAndMetadata, Producer, TopicPartition
from barnabas.cli import main
from tests.cli.process import BOUND_S

_numbers = count(1)


def call(*arguments: str, given: bytes = b"") -> tuple[int, bytes, str]:
    """Exit code, results, and what is wrong, of a call with that on its standard input."""
    told, wrong = io.BytesIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(given)))
    stdout = io.TextIOWrapper(told, encoding="utf-8", write_through=True)
    with patch.object(sys, "stdin", stdin), patch.object(sys, "stdout", stdout), patch.object(sys, "stderr", wrong):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = cast("int", ended.code)
        stdout.flush()
    return code, told.getvalue(), wrong.getvalue()


class Terminal:
    """A terminal at one broker."""

    def __init__(self, server: str) -> None:
        self.server = server

    def __call__(self, *arguments: str, given: bytes = b"") -> tuple[int, str, str]:
        """Exit code, results, what is wrong."""
        code, told, wrong = call(*arguments, "--server", self.server, given=given)
        return code, told.decode(), wrong

    def raw(self, *arguments: str, given: bytes = b"") -> bytes:
        """What a call that succeeds prints."""
        code, told, wrong = call(*arguments, "--server", self.server, given=given)
        assert (code, wrong) == (0, "")
        return told

    def good(self, *arguments: str) -> list[list[str]]:
        """The words of each line of a call that succeeds."""
        return [line.split() for line in self.raw(*arguments).decode().splitlines()]

    def bad(self, *arguments: str, given: bytes = b"", code: int = 1) -> str:
        """The one sentence of a call that the broker's state, or its input, makes fail."""
        ended, _, wrong = self(*arguments, given=given)
        assert ended == code
        (line,) = wrong.splitlines()
        return line.removeprefix("barnabas: ")

    def name(self) -> str:
        """A name for a topic or a group that nobody has."""
        return f"typed{next(_numbers)}"  # others, at a broker that is shared, have topic1, too

    def topic(self) -> str:
        """A new topic: partition 0 has values 0 to 4, and 1 has 5 to 9, their timestamps are 1000 to 1009."""
        name = self.name()
        with Admin(self.server) as admin, Producer(self.server) as producer:
            admin.create_topic(name, partitions=2, config={"retention.ms": -1})  # its records are old
            sent = [
                producer.send(name, b"%d" % value, partition=value // 5, timestamp_ms=1000 + value)
                for value in range(10)
            ]
            for each in sent:
                each.result(BOUND_S)
        return name

    def group(self, topic: str, *offsets: int | OffsetAndMetadata) -> str:
        """A new group that has committed these, by partition."""
        name = f"group{next(_numbers)}"
        with Admin(self.server) as admin:
            admin.alter_group_offsets(name, {TopicPartition(topic, n): each for n, each in enumerate(offsets)})
        return name

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """What a group has committed."""
        with Admin(self.server) as admin:
            return {where: each.offset for where, each in admin.group_offsets(group).items()}
