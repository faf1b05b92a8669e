"""The page on security tells the bounds as they are."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.broker.config import BrokerConfig
from barnabas.broker.group.consumer.patterns import CLASSES_MAX, LENGTH_MAX, MEMORY_MAX, PROGRAM_MAX, REPEATS_MAX
from barnabas.protocol.api import ApiKey
from barnabas.protocol.limits import REQUEST_ELEMENTS_MAX

PAGE = (Path(__file__).parents[2] / "docs" / "SECURITY.md").read_text()


def test_the_page_names_every_api_with_its_bound() -> None:
    rows = re.findall(r"^\| (\w+) \((\d+)\) \| (\d+) \|", PAGE, re.MULTILINE)
    assert [(name, int(key), int(bound)) for name, key, bound in rows] == [
        (ApiKey(key).name.title().replace("_", ""), key, bound) for key, bound in REQUEST_ELEMENTS_MAX.items()
    ]


def test_the_page_names_the_settings_with_their_defaults() -> None:
    config = BrokerConfig()
    assert f"`barnabas.controller.mutation.burst` ({config.barnabas_controller_mutation_burst})" in PAGE
    assert f"`barnabas.controller.mutation.rate` ({config.barnabas_controller_mutation_rate})" in PAGE
    assert f"`group.max.size` ({config.group_max_size}; Kafka's: 2^31-1)" in PAGE
    assert f"`group.consumer.max.size` ({config.group_consumer_max_size}; Kafka's: 2^31-1)" in PAGE
    assert f"`barnabas.fetch.max.wait.ms` ({config.barnabas_fetch_max_wait_ms // 60_000} min)" in PAGE


def test_the_page_names_the_bounds_of_a_pattern() -> None:
    within = f"{REPEATS_MAX} repetitions (`{{n,m}}`, added up) and {CLASSES_MAX} classes of Unicode (`\\pL`) in it"
    compiled = f"{PROGRAM_MAX} instructions and {MEMORY_MAX >> 20} MiB once it is compiled"
    assert f"{LENGTH_MAX} characters of a pattern, {within}, {compiled}: INVALID_REGULAR_EXPRESSION" in PAGE
