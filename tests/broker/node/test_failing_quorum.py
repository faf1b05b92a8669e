"""A controller whose disk is full, or fails, at any one of its calls: what it has answered holds, and it goes on.

a full disk   refuses some calls for room in a row: nobody starts anything anew, and all is well once there is room
an error      of one call, a sync too (EIO): this controller may be out until it is started anew; the others go on
"""

from __future__ import annotations

import errno
import os

import pytest

from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.memory_disk.content import Named
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.node.controllers import Controllers
from tests.broker.node.test_cluster import gauge

ME = 2
REFUSED = 6
"""Calls in a row that a full disk refuses."""
EVERY = 13
"""How many calls lie between two that fail; with 1 all of them do, which takes minutes."""


class Failing(Faults):
    """Refuses calls from the `first` on, `count` of them."""

    def __init__(self, first: int, count: int, code: int) -> None:
        super().__init__()
        self.steps = 0
        self._failing = range(first, first + count)
        self._fails_with = code
        self.refused = ""

    def ask(self, of: str | Named) -> None:
        self._step(of if isinstance(of, str) else of.path)
        super().ask(of)

    def sync(self, path: str) -> None:
        if self._fails_with == errno.EIO:
            self._step(path)
        super().sync(path)

    def _step(self, path: str) -> None:
        self.steps += 1
        if self.steps in self._failing:
            self.refused = path
            raise OSError(self._fails_with, os.strerror(self._fails_with), path)


class Story(Controllers):
    """Three controllers, one of which has a failing disk; `first` 0: none of its calls fails."""

    def __init__(self, first: int, code: int) -> None:
        self.faults = Failing(first or 1 << 30, REFUSED if code == errno.ENOSPC else 1, code)
        self._code = code
        self._ends = False
        self.restarts = 0
        self.made: list[str] = []
        super().__init__(
            disks={ME: MemoryDisk(faults=self.faults)}, metadata_log_max_record_bytes_between_snapshots=1200
        )

    def settle(self) -> None:
        super().settle()
        if ME in self.nodes and not self._ends and self._is_out():
            self.restarts += 1
            self.kill(ME)
            self.start(ME)
            super().settle()

    def _is_out(self) -> bool:
        """Whether it is to be started anew: a first start has no room, or a call has failed."""
        core = self.nodes[ME].core
        raft = None if core.voter is None else core.voter.raft
        out = raft is not None and raft.fault is not None
        assert raft is None or gauge(self.nodes[ME], "raft-metrics", "voter-failed") == out
        assert self._code == errno.EIO or not out, "a full disk is no reason to be out for good"
        assert self._code == errno.EIO or core.fault is None or not self.made
        return out or core.fault is not None

    def play(self) -> None:
        self._make("first", 2)
        for _ in range(20):
            if self.active == ME:
                break
            self.paused.add(self.active)
            self.until(lambda: self.active != 0)
            self.paused.clear()
            self.advance(5000)
        self._make("more", 8)
        self._ends = True
        self.stop(ME)
        self._ends = False
        self._make("away", 2)
        self.start(ME)
        self._make("last", 3)
        self.advance(10_000)

    def _make(self, name: str, count: int) -> None:
        """Create topics, as a client does who asks again."""
        for number in range(count):
            asked = CreateTopicsRequest([CreatableTopic(f"{name}-{number}", 1, 1)])
            for _ in range(40):
                self.until(lambda: self.active > 0)
                answer = self.send(self.active, asked, 7)
                self.advance(1000)
                if answer.done and answer.response.topics[0].error_code in (0, 36):
                    break
            else:
                raise AssertionError(f"{name}-{number} cannot be made")
            self.made.append(f"{name}-{number}")

    def judge(self) -> None:
        self.until(lambda: all(node.core.ready for node in self.nodes.values()))
        ends = {node.core.voter.log.committed for node in self.nodes.values() if node.core.voter is not None}
        assert len(ends) == 1, f"they have not all of it: {ends}"
        for node_id, node in self.nodes.items():
            assert set(node.core.image.topics) >= set(self.made), f"{node_id} lacks what was answered"
            assert not self.nodes[self.active].core.image.brokers[node_id].fenced
        self.check()


def play(first: int, code: int) -> Story:
    story = Story(first, code)
    story.play()
    story.judge()
    return story


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_whichever_call_fails_nothing_answered_is_lost_and_it_goes_on(code: int) -> None:
    calls = play(0, code).faults.steps
    refused = set()
    restarts = 0
    for first in range(2, calls, EVERY):
        story = play(first, code)
        refused.add(story.faults.refused)
        restarts += story.restarts
    assert len(refused) > 3, "files of several kinds"
    assert restarts > 0
