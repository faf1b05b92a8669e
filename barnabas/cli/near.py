"""What may have been meant by a name that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from barnabas.cli.codes import told
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin

MEANT_MAX: Final = 3
"""So many names of one answer are looked for among those there are: each look asks for all, 10,000 are a second."""
_NO_SETTING: Final = re.compile(r"Unknown (topic|broker|group) config name: (.+)$")
"""What a broker says of a setting that there is not; Apache Kafka says the same."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean orders?`, or nothing where no known name comes near it."""
    import difflib

    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean {near[0]}?" if near and near[0] != name else ""


def setting_meant(said: str) -> str:
    """`did_you_mean` of a setting that a broker has not, among those of this release: a new topic cannot be asked."""
    found = _NO_SETTING.search(said)
    if found is None:
        return ""
    from barnabas.broker.config import BrokerConfig, TopicConfig, keys_of
    from barnabas.broker.config.group_config import GroupConfig

    return did_you_mean(
        found[2], keys_of({"topic": TopicConfig, "broker": BrokerConfig, "group": GroupConfig}[found[1]])
    )


def topic_meant(admin: Admin, *topics: str) -> str:
    """`did_you_mean` of the first of these topics that is not there."""
    with suppress(BarnabasError):  # something else is wrong, and is told in any case
        there = set(admin.list_topics(internal=True))
        for name in topics:
            if name not in there:
                return did_you_mean(name, there)
    return ""


def told_of(admin: Admin | None, error: KafkaError, *topics: str) -> str:
    """An error as one sentence (`told`); of a topic that is not there, with the one that may have been meant.

    Without `admin` none is looked for.
    """
    meant = topic_meant(admin, *topics) if admin and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
    return f"{error}; {meant}" if meant else told(error)


@contextmanager
def naming_topics(admin: Admin, *topics: str) -> Iterator[None]:
    """What a broker refuses within it is said as by `told_of`."""
    try:
        yield
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise BarnabasError(told_of(admin, error, *topics)) from None
