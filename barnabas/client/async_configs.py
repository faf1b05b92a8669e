"""Settings of topics, brokers and groups as an admin client sees and changes them. A base of `AsyncAdmin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.answers import TOPIC, broker_named, check, text
from barnabas.client.handle import Handle
from barnabas.net.errors import ConfigError
from barnabas.net.host.connection import Client
from barnabas.protocol.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "file",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
"""Where a value comes from: set for the topic, the broker, all brokers, the group; in the broker's file; a default."""


class ConfigEntry(NamedTuple):
    """A setting. `value` is None where it is secret, or null; `source` a word of `SOURCES`.

    `synonyms` are (name, value, source) of all values that there are for it, the one that counts first.
    """

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, str], ...]


class AsyncConfigs(Handle):
    """The part of `AsyncAdmin` that settings have."""

    _client: Client

    async def describe_configs(self, name: str, *, kind: int = TOPIC) -> dict[str, str | None]:
        """The settings of a topic (or of a broker by its id, a group by its name); None where a value is secret.

        Raises:
            ConfigError: `kind` is BROKER, and `name` no number.
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        return {entry.name: entry.value for entry in await self._described(name, kind, None, synonyms=False)}

    async def config_entries(
        self, name: str, *, kind: int = TOPIC, keys: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """The same with where each value comes from, of these `keys` or of all. A broker "" is all brokers' together.

        Raises:
            ConfigError: `kind` is BROKER, and `name` neither a number nor empty.
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        return await self._described(name, kind, None if keys is None else list(keys), synonyms=True)

    async def _described(self, name: str, kind: int, keys: list[str] | None, *, synonyms: bool) -> list[ConfigEntry]:
        broker = broker_named(name, kind)
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, str(name), keys)], synonyms)
        response = await (self._to_any(request) if broker is None else self._client.send(broker, request))
        entries = []
        for result in response.results:
            check(result.error_code, name, result.error_message)
            entries += [
                ConfigEntry(
                    each.name,
                    each.value,
                    _source(each.config_source),
                    each.read_only,
                    each.is_sensitive,
                    tuple((one.name, one.value, _source(one.source)) for one in each.synonyms),
                )
                for each in result.configs
            ]
        return entries

    async def alter_configs(
        self,
        name: str,
        change: Mapping[str, Any] | None = None,
        *,
        reset: Sequence[str] = (),
        append: Mapping[str, Any] | None = None,
        subtract: Mapping[str, Any] | None = None,
        kind: int = TOPIC,
        validate_only: bool = False,
    ) -> None:
        """Changes settings of a topic (a broker, a group); those in `reset` go back to their defaults.

        What is in `append` is added to lists, and what is in `subtract` taken from them. With `validate_only` nothing
        changes: what would be refused is raised. A broker "" is all brokers together.

        Raises:
            ConfigError: `reset` is one name; or `kind` is BROKER, and `name` neither a number nor empty.
            KafkaError: INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION.
        """
        if isinstance(reset, str):
            raise ConfigError(f"reset: {reset!r} is one name; give a list of them: reset=[{reset!r}]")
        broker = broker_named(name, kind)
        entries = [
            AlterableConfig(key, operation, text(value))
            for operation, given in ((_SET, change), (_APPEND, append), (_SUBTRACT, subtract))
            for key, value in (given or {}).items()
        ]
        entries += [AlterableConfig(key, _DELETE, None) for key in reset]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, str(name), entries)], validate_only)
        response = await (self._to_controller(request) if broker is None else self._client.send(broker, request))
        for result in response.responses:
            check(result.error_code, name, result.error_message)

    async def _to_any(self, request: Any) -> Any:
        raise AssertionError("the admin client has it")

    async def _to_controller(self, request: Any) -> Any:
        raise AssertionError("the admin client has it")


def _source(number: int) -> str:
    return SOURCES.get(number, f"source {number}")
