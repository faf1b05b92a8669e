"""pytest fixtures: a broker for a test.

In the conftest.py at the top of your tests:

    pytest_plugins = ["barnabas.testing"]

and then:

    def test_it(barnabas_broker):
        producer = barnabas.Producer(barnabas_broker.bootstrap_servers)

They are not registered with pytest at installation: that would make pytest rewrite the assertions of this whole
package in everybody's test runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.broker.host.embedded import Broker


@pytest.fixture
def barnabas_broker() -> Iterator[Broker]:
    """A broker in memory, for this test alone."""
    from barnabas.broker.host.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def barnabas_session_broker() -> Iterator[Broker]:
    """A broker in memory that all tests of the run share: use topics of your own."""
    from barnabas.broker.host.embedded import Broker

    with Broker() as broker:
        yield broker
