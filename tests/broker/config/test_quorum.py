"""Who is the controller, as `controller.quorum.voters` says."""

from __future__ import annotations

import pytest

from barnabas.broker.config import BrokerConfig, ConfigError
from barnabas.broker.config.quorum import Voter, controller_of


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), Voter(7, "", 0)),
        (("1@host:9093",), Voter(1, "host", 9093)),
        (("7@[::1]:1",), Voter(7, "::1", 1)),
    ],
)
def test_it_is_the_voter_or_this_node_itself(entries, expected):
    assert controller_of(BrokerConfig(node_id=7, controller_quorum_voters=entries)) == expected


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (("1@a:1", "2@b:2"), "one node is the controller of a cluster so far"),
        (("host:9093",), "write it as ID@HOST:PORT"),
        (("x@host:9093",), "write it as ID@HOST:PORT"),
        (("1@9093",), "write it as ID@HOST:PORT"),
        (("1@host:",), "'' is no port"),
        (("1@host:0",), "'0' is no port"),
        (("1@host:65536",), "'65536' is no port"),
        (("1@host:9²",), "'9²' is no port"),
    ],
)
def test_what_names_nobody_is_refused(entries, told):
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters=") as caught:
        controller_of(BrokerConfig(controller_quorum_voters=entries))
    assert told in str(caught.value)
