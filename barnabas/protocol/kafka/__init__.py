"""Kafka's binary protocol: one field table per API, compiled per (API, version) on first use.

`APIS` maps an API number to its table and imports it when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from barnabas.protocol.api import STEMS

if TYPE_CHECKING:
    from barnabas.protocol.kafka.schema import Api


class _Apis(Mapping[int, "Api"]):
    def __init__(self) -> None:
        self._loaded: dict[int, Api] = {}

    def __getitem__(self, key: int) -> Api:
        found = self._loaded.get(key)
        if found is None:
            module = import_module(f"barnabas.protocol.kafka.{STEMS[key]}")
            found = self._loaded[key] = module.API
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(STEMS)

    def __len__(self) -> int:
        return len(STEMS)


APIS: Final[Mapping[int, Api]] = _Apis()
