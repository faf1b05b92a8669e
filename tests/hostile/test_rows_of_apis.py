"""The largest request of every API, in both dialects, as `test_rows`: against a real process that has much to tell.

`test_steps` has them within this process, where each step is measured; here others are served all the while, and what
they held is given back.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.host.test_siege import siege
from tests.cli.process import Process
from tests.hostile import largest, largest_of_cluster, largest_of_groups
from tests.hostile.largest import PREPARED
from tests.hostile.steps import DIALECTS, LARGEST, frame, largest_frame
from tests.hostile.test_rows import Peer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

GROUPS = {"topics": largest.LARGEST, "cluster": largest_of_cluster.LARGEST, "groups": largest_of_groups.LARGEST}
OPTIONS = ("--topic", "t:3", "--topic", "wide:9990", "--set", "barnabas.controller.mutation.burst=1000000")


def prepare(process: Process) -> None:
    """Make what the largest requests ask for."""
    for key, version, request in PREPARED:
        with ExitStack() as stack:
            assert Peer(stack, process.port).ask(frame(DIALECTS["kafka"], key, version, request)) is not None


def test_no_largest_request_is_left_out() -> None:
    assert {name for group in GROUPS.values() for name in group} == set(LARGEST)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("group", GROUPS)
def test_the_largest_request_of_every_api(group: str, dialect: str, tmp_path: Path) -> None:
    with siege(*OPTIONS, prepare=prepare, data_dir=tmp_path) as process:
        for name in GROUPS[group]:
            data = largest_frame(name, DIALECTS[dialect])
            for _ in range(2):
                with ExitStack() as stack:
                    assert Peer(stack, process.port).ask(data) is not None, name
