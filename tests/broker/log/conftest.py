from __future__ import annotations

import pytest

from tests.broker.log.harness import World


@pytest.fixture(params=["memory", "late", "real"])
def world(request, tmp_path):
    made = World(request.param, tmp_path)
    yield made
    if made.kind == "real":
        made.disk.close()


@pytest.fixture
def memory(tmp_path):
    return World("memory", tmp_path)
